//go:build tools

// Package tools keeps kubeadm's main package in go.mod; the binary is built from the module itself.
package tools

import _ "k8s.io/kubernetes/cmd/kubeadm"
