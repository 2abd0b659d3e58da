//go:build tools

// Package tools keeps the main packages in go.mod that are built from their modules as they are.
package tools

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubelet"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
