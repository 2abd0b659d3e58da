module rocelab/tests/kubeadm/tiny

go 1.26.0
