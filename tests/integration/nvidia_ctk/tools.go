//go:build tools

// Package nvidia_ctk pins NVIDIA's own program for containerd's configuration.
package nvidia_ctk

import _ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
