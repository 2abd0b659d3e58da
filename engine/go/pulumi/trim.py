"""Copies the pinned CLI to ./upstream without most of the clouds' libraries: a quarter of what it compiles.

They are there for state in Google's and Azure's storage, for secrets kept by a cloud's or Vault's keys, and for
`pulumi logs` of AWS and Google. missing.go answers in their place with an error that says so. State in S3 stays.
"""

from engine.upstream import copy, cut, edit

MODULE = "github.com/pulumi/pulumi/pkg/v3"
MISSING = "rocelab/engine/go/pulumi"

BACKEND = (
    ('\t"gocloud.dev/blob/azureblob"  // driver for azblob://\n', ""),
    ('\t"gocloud.dev/blob/gcsblob"    // driver for gs://\n', ""),
    (f'\t"{MODULE}/authhelpers"\n', f'\t_ "{MISSING}"\n'),
)
KEEPER = (
    ('\t_ "gocloud.dev/secrets/awskms"        // support for awskms://\n', ""),
    ('\t_ "gocloud.dev/secrets/azurekeyvault" // support for azurekeyvault://\n', ""),
    ('\t"gocloud.dev/secrets/gcpkms"          // support for gcpkms://\n', ""),
    ('\t_ "gocloud.dev/secrets/hashivault"    // support for hashivault://\n', ""),
    ('\t"google.golang.org/api/cloudkms/v1"\n', ""),
    ('\tnetUrl "net/url"\n', ""),
    (f'\t"{MODULE}/authhelpers"\n', f'\t_ "{MISSING}"\n'),
    ("\t\treturn gosecrets.OpenKeeper(ctx, url)\n\t}\n}\n", "\treturn gosecrets.OpenKeeper(ctx, url)\n}\n"),
)
LOGS = (
    *(
        (f"{cloud}OperationsProvider(ctx, ops.config, ops.resource)", f'nil, missing.Error("logs of {cloud} are")')
        for cloud in ("AWS", "GCP")
    ),
    ("\tpkgresource ", f'\tmissing "{MISSING}"\n\n\tpkgresource '),
)


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    cli = copy(MODULE)

    backend = cli / "backend/diy/backend.go"
    edit(backend, BACKEND)
    cut(backend, "\t// for gcp we want to support", "\tbucket, err := blobmux.OpenBucket(")

    keeper = cli / "secrets/cloud/manager.go"
    cut(keeper, "\tu, err := netUrl.Parse(url)\n", "\t\treturn gosecrets.OpenKeeper(")
    edit(keeper, KEEPER)

    edit(cli / "operations/resources.go", LOGS)
    for cloud in ("aws", "gcp"):
        (cli / f"operations/operations_{cloud}.go").unlink()


if __name__ == "__main__":
    main()
