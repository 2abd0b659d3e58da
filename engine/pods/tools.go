//go:build tools

// Package pods pins what the images of real pods hold, apart from the engine's own module, so that a new version here
// leaves the engine's parts as they are. Its Kubernetes packages are those of ../go: Go compiles them once for both.
package pods

import (
	_ "github.com/k8snetworkplumbingwg/rdma-cni/cmd/rdma"
	_ "github.com/k8snetworkplumbingwg/sriov-network-device-plugin/cmd/sriovdp"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/controlloop"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/install_multus"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-daemon"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-shim"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/passthru-cni"
)
