"""Nodes of a real cluster in namespaces of this machine's own kernel: real kubeadm, kubelet, containerd and runc."""
