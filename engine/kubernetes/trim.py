"""Copies the pinned Kubernetes provider to ./upstream without its component resources, and writes the files it embeds.

The components (Helm v4 Chart, YAML v2 ConfigFile and ConfigGroup, Kustomize v2 Directory) are all that the provider
needs its own Go SDK for, which takes longer to compile than everything else in it. rocelab uses none of them; a program
that does gets an error. The embedded schema has the version filled in and no white space, as in a release.
"""

import json
import os
from pathlib import Path

from engine.upstream import COPY, copy, edit

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
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
    """Leaves ./upstream, a go.mod that builds against it, and the embedded files."""
    copy(MODULE)
    edit("pkg/provider/provider_construct.go", CONSTRUCT)
    edit("pkg/helm/tool.go", HELM_TOOL)
    embed("schema", {"version": os.environ["PART_VERSION"]})
    embed("terraform-mapping", {})


def embed(name: str, changes: dict[str, str]) -> None:
    """Writes one of the files that main.go embeds."""
    content = json.loads((COPY / "cmd/pulumi-resource-kubernetes" / f"{name}.json").read_text()) | changes
    Path(f"{name}-embed.json").write_text(json.dumps(content, separators=(",", ":")))


if __name__ == "__main__":
    main()
