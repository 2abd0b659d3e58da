// Command pulumi-resource-kubernetes is the Kubernetes provider at tag v4.25.0.
//
// The provider's own main package lies in another directory of its module and embeds two generated
// files that a module download does not hold; trim.py writes both beside this file before a build.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema-embed.json
var schema []byte

//go:embed terraform-mapping-embed.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
}
