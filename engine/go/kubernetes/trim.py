"""Copies the pinned Kubernetes provider to ./upstream without its component resources, and writes the files it embeds.

The components (Helm v4 Chart, YAML v2 ConfigFile and ConfigGroup, Kustomize v2 Directory) are all that the provider
needs its own Go SDK for, which takes longer to compile than everything else in it. rocelab uses none of them; a program
that does gets an error. The embedded schema has the version filled in and no white space, as in a release.
"""

import json
import os
from pathlib import Path

from engine.upstream import copy, cut, edit

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
FLUX = "github.com/fluxcd/pkg/ssa"
MISSING = "%s is not in this build of the Kubernetes provider (engine/README.md): it needs the official plugin"

CONSTRUCT = (
    *(
        (f'\tprovider{name} "{MODULE}/pkg/provider/{folder}"\n', "")
        for name, folder in (("helmv4", "helm/v4"), ("kustomizev2", "kustomize/v2"), ("yamlv2", "yaml/v2"))
    ),
    ('\t"kubernetes:yaml/v2:ConfigFile":     provideryamlv2.NewConfigFileProvider,\n', ""),
    ('\t"kubernetes:yaml/v2:ConfigGroup":    provideryamlv2.NewConfigGroupProvider,\n', ""),
    ('\t"kubernetes:helm.sh/v4:Chart":       providerhelmv4.NewChartProvider,\n', ""),
    ('\t"kubernetes:kustomize/v2:Directory": providerkustomizev2.NewDirectoryProvider,\n', ""),
    ('fmt.Errorf("unknown resource type %q", typ)', f'fmt.Errorf("{MISSING}", typ)'),
)
HELM_TOOL = (
    ('\thelmv4 "github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes/helm/v4"\n', ""),
    # only the component for charts calls the function that takes these
    (
        "repoOpts helmv4.RepositoryOpts",
        "repoOpts struct {\n\tCaFile, CertFile, KeyFile pulumi.AssetOrArchive\n\tUsername, Password, Repo *string\n}",
    ),
)


def main() -> None:
    """Leaves both copies, a go.mod that builds against them, and the embedded files."""
    provider = copy(MODULE)
    edit(provider / "pkg/provider/provider_construct.go", CONSTRUCT)
    edit(provider / "pkg/helm/tool.go", HELM_TOOL)
    # the CLI's version of the schema's types, for which packages may have no provider
    edit(provider / "pkg/gen/schema.go", [("Provider: pschema.ResourceSpec{", "Provider: &pschema.ResourceSpec{")])
    # Kubernetes 1.26 took this version of autoscaling away, and its libraries of today no longer have it
    normalize = copy(FLUX) / "normalize/normalize.go"
    edit(normalize, [('\thpav2beta2 "k8s.io/api/autoscaling/v2beta2"\n', "")])
    cut(normalize, "\t\tcase *hpav2beta2.HorizontalPodAutoscaler:\n", "\t\tcase *hpav2.HorizontalPodAutoscaler:\n")
    embedded = provider / "cmd/pulumi-resource-kubernetes"
    embed(embedded / "schema.json", {"version": os.environ["PART_VERSION"]})
    embed(embedded / "terraform-mapping.json", {})


def embed(source: Path, changes: dict[str, str]) -> None:
    """Writes one of the files that the main package embeds."""
    content = json.loads(source.read_text()) | changes
    Path("kubernetes", f"{source.stem}-embed.json").write_text(json.dumps(content, separators=(",", ":")))


if __name__ == "__main__":
    main()
