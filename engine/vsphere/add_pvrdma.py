"""Copies the pinned Terraform vSphere provider to ./upstream and teaches it the PVRDMA adapter.

Runs in a scratch copy of this folder. The adapter type `vmxnet3vrdma` came to the provider five months after the
pinned version; without it the provider panics as soon as it reads a virtual machine that has one. The three places
are those of upstream's pull request 1598.
"""

import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/hashicorp/terraform-provider-vsphere"
ADAPTERS = Path("vsphere/internal/virtualdevice/virtual_machine_network_interface_subresource.go")

INSERTIONS = (
    ("\tnetworkInterfaceSubresourceTypeVmxnet3,\n", '\t"vmxnet3vrdma",\n'),
    (
        "\tcase *types.VirtualVmxnet3:\n\t\treturn types.BaseVirtualDevice(t)\n",
        "\tcase *types.VirtualVmxnet3Vrdma:\n\t\treturn types.BaseVirtualDevice(t)\n",
    ),
    (
        "\tcase *types.VirtualVmxnet3:\n\t\treturn networkInterfaceSubresourceTypeVmxnet3\n",
        '\tcase *types.VirtualVmxnet3Vrdma:\n\t\treturn "vmxnet3vrdma"\n',
    ),
)
"""Anchor in the adapter file, and the lines that follow it."""


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    # Without -mod=mod, `go list` refuses: a test dependency of the bridge cannot be had, so go.sum is not tidy.
    subprocess.run(["go", "mod", "download", MODULE], check=True)
    command = ["go", "list", "-mod=mod", "-m", "-f", "{{.Dir}}", MODULE]
    module = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    upstream = Path("upstream")
    shutil.copytree(module, upstream)
    for path in [upstream, *upstream.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    insert(upstream / ADAPTERS)
    subprocess.run(["go", "mod", "edit", f"-replace={MODULE}=./upstream"], check=True)


def insert(source: Path) -> None:
    """Adds the adapter to the provider's source; an anchor that is not there exactly once ends the build."""
    text = source.read_text()
    for anchor, addition in INSERTIONS:
        if text.count(anchor) != 1:
            sys.exit(f"{source}: expected {anchor!r} once, found it {text.count(anchor)} times")
        text = text.replace(anchor, anchor + addition)
    source.write_text(text)


if __name__ == "__main__":
    main()
