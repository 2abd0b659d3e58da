"""A host, its NIC and its switch as vSphere reports them, and a switch as a lab asks for it."""

from components.fabric.preflight.facts import HostFacts, SwitchFacts, VmkernelFacts
from components.fabric.vcenter.nics import Nic
from stacks.fabric import DistributedSwitch

NIC = Nic(
    name="vmnic4",
    mac="ec:0d:9a:00:00:00",
    driver="nmlx5_core",
    speed_mbit=100_000,
    rdma_device="vmrdma0",
    pci="0000:3b:00.0",
    driver_version="4.23.0.36",
)
HOST = HostFacts(
    name="esx1",
    version="8.0.2",
    build="22380479",
    model="DGX",
    nics=(NIC,),
    vmkernels={"vmk0": VmkernelFacts(address="10.0.0.1", mtu_bytes=1500)},
    graphics="sharedDirect",
    vgpu_profiles=frozenset({"grid_v100d-32c"}),
    ntp_servers=("ntp",),
    ntp_running=True,
    neighbour_mtu_bytes={"vmnic4": 9216},
)
EXISTING = SwitchFacts(
    name="roce",
    version="7.0.3",
    mtu_bytes=9000,
    members={"esx1": ("vmnic4",)},
    port_groups={"pvrdma": 0},
)


def a_switch(**others):
    given = {
        "name": "roce",
        "rail": "pvrdma",
        "uplink": {"rdma_device": "vmrdma0"},
        "port_group": "pvrdma",
        "hosts": [{"name": name, "vmkernel": {"existing": "vmk0"}} for name in ("esx1", "esx2")],
    }
    return DistributedSwitch.model_validate(given | others)
