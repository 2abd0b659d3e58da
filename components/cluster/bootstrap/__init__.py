"""The kubeconfig of a cluster that the hosts created."""
