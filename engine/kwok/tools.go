//go:build tools

// Package tools keeps kwok's main package in go.mod; the binary is built from the module itself.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
