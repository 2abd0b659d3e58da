//go:build tools

// Package tools keeps the operator's main package in go.mod; the binary is built from the module itself.
package tools

import _ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
