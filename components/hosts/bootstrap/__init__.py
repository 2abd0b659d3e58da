"""The lab's own cluster by kubeadm: its configuration, who creates it, who joins and leaves."""
