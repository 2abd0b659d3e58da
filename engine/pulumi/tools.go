//go:build tools

// Package tools keeps the CLI's main package in go.mod; the binary is built from the module itself.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
