// Command pulumi-resource-vsphere is a stand-in of Pulumi's vSphere provider for the simulated vCenter.
//
// It serves the Terraform vSphere provider of March 2022, the newest one whose module can be had, through
// the same bridge as the official plugin. Resource tokens are computed the way the official plugin does, so
// programs and their states are interchangeable; fields that upstream added later are missing.
package main

import (
	"github.com/hashicorp/terraform-provider-vsphere/vsphere"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge/tokens"
	shimv2 "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim/sdk-v2"
)

// version is set by the linker, so that the engine finds the version that the SDK asks for.
var version = "0.0.0"

// maxNameLength is vCenter's limit for the name of an inventory object.
const maxNameLength = 255

func main() {
	info := tfbridge.ProviderInfo{
		P:       shimv2.NewProvider(vsphere.Provider()),
		Name:    "vsphere",
		Version: version,
	}
	info.MustComputeTokens(tokens.SingleModule("vsphere_", "index", tokens.MakeStandard("vsphere")))
	info.SetAutonaming(maxNameLength, "-")
	schema := []byte(`{"name":"vsphere","version":"` + version + `"}`)
	tfbridge.Main("vsphere", version, info, schema)
}
