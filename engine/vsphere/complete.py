"""Copies the pinned Terraform vSphere provider to ./upstream and teaches it what came later and PVRDMA needs.

Runs in a scratch copy of this folder. The adapter type `vmxnet3vrdma` came to the provider five months after the
pinned version (upstream's pull request 1598); without it the provider panics as soon as it reads a virtual machine that
has one. The lock of all memory, `memory_reservation_locked_to_max`, came later still, and so did the mending of a panic
that the read of a virtual machine with a vGPU ends in (upstream's pull request 1627).
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

MODULE = "github.com/hashicorp/terraform-provider-vsphere"

ADAPTER = (
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

LOCKED_MEMORY = (
    (
        '\t\t\tDescription: "Enable CPU performance counters on this virtual machine.",\n\t\t},\n',
        '\t\t"memory_reservation_locked_to_max": {\n\t\t\tType: schema.TypeBool,\n\t\t\tOptional: true,\n\t\t},\n',
    ),
    (
        '\tif d.Get("memory_reservation").(int) != d.Get("memory").(int) {\n\t\treturn structure.BoolPtr(false)\n\t}\n',
        '\tif d.Get("memory_reservation_locked_to_max").(bool) {\n\t\treturn structure.BoolPtr(true)\n\t}\n',
    ),
    (
        '\t_ = d.Set("memory_hot_add_enabled", obj.MemoryHotAddEnabled)\n',
        '\t_ = d.Set("memory_reservation_locked_to_max", obj.MemoryReservationLockedToMax)\n',
    ),
)
BACKING = "types.VirtualPCIPassthroughVmiopBackingInfo"
SHARED_GPU = (
    (
        "\t\tif pci, ok := dev.(*types.VirtualPCIPassthrough); ok {\n",
        f"\t\t\tif _, shared := pci.Backing.(*{BACKING}); shared {{\n\t\t\t\tcontinue\n\t\t\t}}\n",
    ),
)
INSERTIONS = {
    Path("vsphere/internal/virtualdevice/virtual_machine_network_interface_subresource.go"): ADAPTER,
    Path("vsphere/virtual_machine_config_structure.go"): LOCKED_MEMORY,
    Path("vsphere/resource_vsphere_virtual_machine.go"): SHARED_GPU,
}
"""By file: an anchor, and the lines that follow it."""


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
    for path, insertions in INSERTIONS.items():
        insert(upstream / path, insertions)
    subprocess.run(["go", "mod", "edit", f"-replace={MODULE}=./upstream"], check=True)


def insert(source: Path, insertions: Iterable[tuple[str, str]]) -> None:
    """Adds lines to the provider's source; an anchor that is not there exactly once ends the build."""
    text = source.read_text()
    for anchor, addition in insertions:
        if text.count(anchor) != 1:
            sys.exit(f"{source}: expected {anchor!r} once, found it {text.count(anchor)} times")
        text = text.replace(anchor, anchor + addition)
    source.write_text(text)


if __name__ == "__main__":
    main()
