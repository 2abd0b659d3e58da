"""Copies the pinned Terraform vSphere provider to ./upstream and teaches it what came later and PVRDMA needs.

Runs in a scratch copy of this folder. The adapter type `vmxnet3vrdma` came to the provider five months after the
pinned version (upstream's pull request 1598); without it the provider panics as soon as it reads a virtual machine that
has one. The lock of all memory, `memory_reservation_locked_to_max`, came later still, and so did the mending of a panic
that the read of a virtual machine with a vGPU ends in (upstream's pull request 1627).
"""

from engine.upstream import copy, edit

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
    "vsphere/internal/virtualdevice/virtual_machine_network_interface_subresource.go": ADAPTER,
    "vsphere/virtual_machine_config_structure.go": LOCKED_MEMORY,
    "vsphere/resource_vsphere_virtual_machine.go": SHARED_GPU,
}
"""By file: an anchor, and the lines that follow it."""


def main() -> None:
    """Leaves ./upstream, and a go.mod that builds against it."""
    provider = copy(MODULE)
    for file, insertions in INSERTIONS.items():
        edit(provider / file, ((anchor, anchor + addition) for anchor, addition in insertions))


if __name__ == "__main__":
    main()
