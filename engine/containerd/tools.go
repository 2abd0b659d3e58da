//go:build tools

// Package containerd pins the container runtime: Debian 12 has 1.6, and kubelets from 1.36 on want 2.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
