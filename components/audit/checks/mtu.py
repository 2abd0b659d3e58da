"""MTU from pod to switch: PF, VF, pod, RDMA and switch port."""

from components.audit.findings import Faults, Severity
from components.audit.registry import COUNTERS, check
from components.audit.view import View, fault
from components.inventory.model import Attachment

VF_MTU = "https://github.com/k8snetworkplumbingwg/sriov-cni/issues/123"
CHAIN = "https://github.com/spidernet-io/spiderpool/pull/5795"
IB_ADDR = "https://github.com/torvalds/linux/blob/master/include/rdma/ib_addr.h"

LARGEST_PATH_MTU = 4096
HEADERS_BYTES = 96
"""What Linux takes off an Ethernet MTU before it rounds down (`iboe_get_mtu`)."""
OVERSIZE = ("rx_oversize_pkts_phy", "rx_out_of_range_len_phy")


def path_mtu(mtu_bytes: int) -> int:
    """The RDMA MTU that an Ethernet MTU allows."""
    return max(
        (size for size in (256, 512, 1024, 2048, 4096) if size <= mtu_bytes - HEADERS_BYTES),
        default=0,
    )


@check(
    "mtu-pf",
    Severity.HIGH,
    title="MTU of the PF is wrong",
    why="the larger packets of its peers are dropped, and its own are slower",
    source=CHAIN,
    remedy="set one MTU on all PFs of the rail, also in the file that sets it at boot",
)
def mtu_pf(view: View) -> Faults:
    return view.unlike_declared(
        view.ports,
        lambda port: port.pf.mtu_bytes,
        lambda port: port.lab_rail.mtu_bytes if port.lab_rail else None,
    )


@check(
    "mtu-vf",
    Severity.HIGH,
    title="MTU of VFs differs from their PF",
    why="a VF keeps its own MTU and gives it to the pod: packets are a sixth as large, or are "
    "dropped",
    source=VF_MTU,
    remedy="set the MTU of each idle VF, and mtu in the CNI configuration or the operator's policy",
)
def mtu_vf(view: View) -> Faults:
    wrong = view.places_of(mtu_pf)
    for port, _, mtu in view.each(view.ports, lambda port: port.pf.mtu_bytes):
        if (port.node, port.part) in wrong:
            continue
        for vf in view.read(port.node, port.pf.vfs) or ():
            if not vf.interfaces:
                continue  # in a pod, where it has the pod's MTU
            own = view.read(port.node, vf.mtu_bytes)
            if own is not None and own != mtu:
                yield fault(port, vf.mtu_bytes, str(own), str(mtu))
                break  # one VF says it for its PF


@check(
    "mtu-pod",
    Severity.HIGH,
    title="A network for pods sets another MTU than its rail",
    why="pods send packets that the rail drops, or smaller ones than it carries",
    source=CHAIN,
    remedy="set mtu in the NetworkAttachmentDefinition to the MTU of the rail, or leave it out "
    "and set it on the VFs",
)
def mtu_pod(view: View) -> Faults:
    cluster = view.cluster()
    if cluster is None or view.lab is None:
        return
    rails = {rail.resource: rail for rail in view.lab.rails}
    for network in view.read("", cluster.attachments) or ():
        rail, mtu = rails.get(network.resource_name), _mtu_in(network)
        if rail and mtu is not None and mtu != rail.mtu_bytes:
            where, source = f"{network.namespace}/{network.name}", cluster.attachments.source
            yield view.cluster_fault(source, where, str(mtu), str(rail.mtu_bytes))


def _mtu_in(attachment: Attachment) -> int | None:
    """The MTU that any plugin of a CNI configuration sets."""
    for plugin in attachment.plugins:
        mtu = plugin.get("mtu")
        if isinstance(mtu, int) and mtu > 0:
            return mtu
    return None


@check(
    "mtu-rdma",
    Severity.MEDIUM,
    title="RDMA MTU is smaller than it could be",
    why="Linux subtracts 96 bytes and rounds down, so an MTU of 4096 gives 2048: more packets "
    "for the same data",
    source=IB_ADDR,
    remedy="set the MTU of the rail to 4200 or more on PFs, VFs and switch ports",
)
def mtu_rdma(view: View) -> Faults:
    wrong = view.places_of(mtu_pf)
    for port, _, devices in view.each(view.ports, lambda port: port.pf.rdma):
        largest = LARGEST_PATH_MTU
        if port.lab_rail:
            largest = path_mtu(port.lab_rail.mtu_bytes)
        for device in devices:
            active = view.read(port.node, device.active_mtu_bytes)
            if active is not None and active < largest and (port.node, port.part) not in wrong:
                yield fault(port, device.active_mtu_bytes, str(active), str(largest))


@check(
    "mtu-switch",
    Severity.HIGH,
    title="MTU of the switch port is smaller than the NIC's",
    why="the switch drops large packets, while small ones such as ping pass",
    source=CHAIN,
    remedy="set the switch port to 9216, or to the largest MTU it supports",
)
def mtu_switch(view: View) -> Faults:
    for port, uplink in view.uplinks():
        mtu = view.read(port.node, port.pf.mtu_bytes)
        allowed = view.read(port.node, uplink.port.mtu_bytes)
        if mtu is not None and allowed is not None and allowed < mtu:
            yield view.switch_fault(uplink, uplink.port.mtu_bytes, str(allowed), f"{mtu} or more")


@check(
    "mtu-peer",
    Severity.HIGH,
    title="Packets arrive that are larger than the MTU",
    why="the other end has a larger MTU, and each of its large packets is dropped",
    source=COUNTERS,
    remedy="set one MTU on both ends",
)
def mtu_peer(view: View) -> Faults:
    return view.rises(OVERSIZE)
