"""A cluster made here: kubeadm on the lab's nodes, and the network between its pods."""
