"""Quality of service: NIC and switch must treat RoCE and its congestion notifications alike."""

from components.audit.findings import Faults, Severity
from components.audit.registry import CUMULUS, PRACTICE, check
from components.audit.view import View, fault
from stacks.qos import Qos

QOS = "https://docs.nvidia.com/networking/display/mlnxofedv24103250lts/Quality+of+Service+(QoS)"
FLOW = "https://docs.nvidia.com/networking/display/mlnxenv24103250lts/Flow+Control"
PAUSE = "https://docs.nvidia.com/networking/display/freebsdv371/Flow+Control"
ECN = "https://docs.nvidia.com/doca/archive/3-1-0/Explicit+Congestion+Notification"
DCBX = "https://github.com/torvalds/linux/commit/0eca995f3ede3a4fc77e0ea29a7a6c0a4c4fde0f"

DEFAULTS = Qos()
"""Of NVIDIA's switches: RoCE on DSCP 26 and priority 3, notifications on DSCP 48 and priority 6."""


def of_roce(view: View) -> Qos:
    """What the lab file wants, else the defaults of the switches."""
    return (view.lab.qos if view.lab else None) or DEFAULTS


def numbers(values: tuple[int, ...]) -> str:
    """Priorities as people write them."""
    return " ".join(map(str, values)) or "none"


@check(
    "qos-trust",
    Severity.HIGH,
    title="NIC ignores the marks of RoCE packets",
    why="RoCE v2 carries its class in the DSCP: without trust, RoCE shares the queue of all "
    "other traffic, without ECN",
    source=QOS,
    remedy="run mlnx_qos -i INTERFACE --trust=dscp at each boot",
)
def qos_trust(view: View) -> Faults:
    return view.unlike(view.ports, lambda port: port.pf.qos.trust, "dscp")


@check(
    "global-pause",
    Severity.HIGH,
    title="Global pause is on",
    why="global pause stops all classes instead of one, and rules out priority flow control",
    source=PAUSE,
    remedy="run ethtool -A INTERFACE autoneg off rx off tx off at each boot",
)
def global_pause(view: View) -> Faults:
    for port in view.ports:
        ways = {"rx": port.pf.qos.pause_rx, "tx": port.pf.qos.pause_tx}
        on = []
        for way, reading in ways.items():
            if view.read(port.node, reading):
                on.append(way)
        if on:
            yield fault(port, ways[on[0]], f"{' and '.join(on)} on", "off")


@check(
    "pfc-switch",
    Severity.CRITICAL,
    title="NIC and switch pause different priorities",
    why="one end pauses what the other does not obey: packets are lost without a message",
    source=FLOW,
    remedy="set the same priorities on both ends: mlnx_qos --pfc and the switch's priority flow "
    "control",
)
def pfc_switch(view: View) -> Faults:
    for port, uplink in view.uplinks():
        own = view.read(port.node, port.pf.qos.pfc_priorities)
        other = view.read(port.node, uplink.port.pfc_priorities)
        if own is not None and other is not None and {*own} != {*other}:
            actual = f"{numbers(own)} on the NIC, {numbers(other)} on the switch"
            yield fault(port, port.pf.qos.pfc_priorities, actual, "the same on both")


@check(
    "pfc-peers",
    Severity.HIGH,
    title="PFC differs from the lab file or from peers",
    why="a fabric is lossless or lossy as a whole: one port that differs drops or pauses the "
    "packets of others",
    source=FLOW,
    remedy="set the rail's priorities with mlnx_qos --pfc at each boot",
)
def pfc_peers(view: View) -> Faults:
    qos = view.lab.qos if view.lab else None
    declared: tuple[int, ...] | None = None
    if qos is not None:
        declared = (qos.priority,) * (qos.mode == "lossless")
    unlike = view.unlike_declared(
        view.ports, lambda port: port.pf.qos.pfc_priorities, lambda _: declared, numbers
    )
    one_sided = view.places_of(pfc_switch)
    return (other for other in unlike if (other.node, other.part) not in one_sided)


@check(
    "dscp-map",
    Severity.HIGH,
    title="NIC and switch put RoCE into different priorities",
    why="the switch marks and pauses a different class than the NIC uses",
    source=CUMULUS,
    remedy="set the same map on both ends: mlnx_qos --dscp2prio, and the switch's QoS map",
)
def dscp_map(view: View) -> Faults:
    roce = of_roce(view)
    for port, uplink in view.uplinks():
        own = view.read(port.node, port.pf.qos.dscp_priority)
        other = view.read(port.node, uplink.port.dscp_priority)
        for point in (roce.dscp, roce.cnp_dscp):
            here, there = (own or {}).get(point), (other or {}).get(point)
            if here is not None and there is not None and here != there:
                actual = f"DSCP {point} is priority {here} on the NIC, {there} on the switch"
                yield fault(port, port.pf.qos.dscp_priority, actual, "the same on both")


@check(
    "dcbx",
    Severity.MEDIUM,
    title="The NIC's firmware negotiates DCBX",
    why="the firmware may override trust, priorities and PFC with the switch's values",
    source=DCBX,
    remedy="run mlnx_qos -i INTERFACE --dcbx=os at each boot",
)
def dcbx(view: View) -> Faults:
    return view.unlike(view.ports, lambda port: port.pf.qos.dcbx_mode, "os")


@check(
    "ecn",
    Severity.HIGH,
    title="Congestion control is off for RoCE",
    why="without DCQCN a sender does not slow down: queues fill until packets are dropped or "
    "paused",
    source=ECN,
    remedy="write 1 to /sys/class/net/INTERFACE/ecn/roce_np/enable/PRIORITY and roce_rp, at each "
    "boot",
)
def ecn(view: View) -> Faults:
    priority = of_roce(view).priority
    for port in view.ports:
        ways = {"np": port.pf.qos.ecn_np_priorities, "rp": port.pf.qos.ecn_rp_priorities}
        values = {way: view.read(port.node, reading) for way, reading in ways.items()}
        off = [way for way, on in values.items() if on is not None and priority not in on]
        if off:
            yield fault(port, ways[off[0]], f"{' and '.join(off)} off on priority {priority}", "on")


@check(
    "cnp",
    Severity.MEDIUM,
    title="Congestion notifications have the wrong marks",
    why="notifications wait in the queue that they should relieve",
    source=CUMULUS,
    remedy="write /sys/class/net/INTERFACE/ecn/roce_np/cnp_dscp and cnp_802p_prio, or change the "
    "switch's map",
)
def cnp(view: View) -> Faults:
    roce = of_roce(view)
    for port, reading, dscp in view.each(view.ports, lambda port: port.pf.qos.cnp_dscp):
        priority = view.read(port.node, port.pf.qos.cnp_priority)
        if dscp != roce.cnp_dscp or priority not in {None, roce.cnp_priority}:
            shown = "" if priority is None else f", priority {priority}"
            yield fault(
                port,
                reading,
                f"DSCP {dscp}{shown}",
                f"DSCP {roce.cnp_dscp}, priority {roce.cnp_priority}",
            )


def _class_text(value: int) -> str:
    return "nothing forced" if value < 0 else str(value)


@check(
    "traffic-class",
    Severity.MEDIUM,
    title="RoCE traffic is not marked as declared",
    why="programs that set no traffic class send RoCE unmarked, outside the class with ECN",
    source=PRACTICE,
    remedy="echo 106 > /sys/class/infiniband/DEVICE/tc/1/traffic_class, at each boot",
)
def traffic_class(view: View) -> Faults:
    declared = view.lab.qos.tos if view.lab and view.lab.qos else None
    with_device = (port for port in view.ports if port.pf.rdma.or_else(()))
    return view.unlike_declared(
        with_device,
        lambda port: port.pf.rdma.or_else(())[0].traffic_class,
        lambda _: declared,
        _class_text,
    )
