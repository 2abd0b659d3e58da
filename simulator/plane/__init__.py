"""The simulated cluster: a real Kubernetes control plane and MPI operator on loopback, with fake kubelets."""
