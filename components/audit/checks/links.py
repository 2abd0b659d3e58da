"""Links: whether they are up, as fast as they can be, and stay up."""

from collections.abc import Iterator

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import COUNTERS, MONITOR, PRACTICE, THRESHOLDS, check
from components.audit.view import View, fault

FLAP_CHANGES = 2
"""Changes of carrier that are one interruption: down and up."""
BIT_ERRORS_PER_HOUR = 120
"""NVSentinel's fatal rate of symbol errors, from the bit error rate of 1e-12 that IBTA allows."""
BIT_ERRORS = ("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err_phy")
MODULE_FAULTS = ("module_high_temp", "module_bus_stuck", "module_bad_shorted")


def gbit(speed_mbit_s: int) -> str:
    """A link speed for people."""
    return f"{speed_mbit_s / 1000:g} Gbit/s"


@check(
    "link-down",
    Severity.CRITICAL,
    title="Link is down",
    why="a rank that uses this rail hangs in its first collective",
    source=MONITOR,
    remedy="check cable, optic and switch port; a node that is out of service belongs in the lab "
    "file as drained",
)
def link_down(view: View) -> Faults:
    for port in view.ports:
        if port.pf.up.value is False:
            yield fault(port, port.pf.up, "set down", "up with carrier")
        elif view.read(port.node, port.pf.carrier) is False:
            yield fault(port, port.pf.carrier, "no carrier", "up with carrier")


@check(
    "link-speed",
    Severity.HIGH,
    title="Link's speed differs from its peers",
    why="a collective is as slow as its slowest link",
    source=MONITOR,
    remedy="compare cable, optic, FEC and the speed set on the switch port with a peer's",
)
def link_speed(view: View) -> Faults:
    return view.unlike_peers(_linked(view), lambda port: port.pf.speed_mbit_s, gbit)


@check(
    "link-below-nic",
    Severity.MEDIUM,
    title="Link is slower than the NIC supports",
    why="bandwidth that was paid for is not used",
    source=PRACTICE,
    remedy="check whether cable, optic and switch port support the speed; if the switch cannot, "
    "waive this",
)
def link_below_nic(view: View) -> Faults:
    for port, reading, speed in view.each(_linked(view), lambda port: port.pf.speed_mbit_s):
        supported = view.read(port.node, port.pf.supported_speeds_mbit_s)
        if supported and speed < max(supported):
            yield fault(port, reading, gbit(speed), gbit(max(supported)))


@check(
    "link-fec",
    Severity.MEDIUM,
    title="Forward error correction differs from peers",
    why="both ends must agree, and weaker FEC loses packets on cables that work for its peers",
    source=PRACTICE,
    remedy="set the same FEC on NIC and switch port, or leave both at auto",
)
def link_fec(view: View) -> Faults:
    return view.unlike_peers(_linked(view), lambda port: port.pf.fec)


@check(
    "link-flaps",
    Severity.HIGH,
    title="Link goes down and up",
    why="queue pairs break while the link is down, and jobs fail with them",
    source=THRESHOLDS,
    remedy="clean or replace optic and cable, then audit again",
)
def link_flaps(view: View) -> Faults:
    for port in view.ports:
        old_pf = view.earlier_pf(port)
        if old_pf is None:
            continue
        now = view.read(port.node, port.pf.carrier_changes)
        old = view.read(port.node, old_pf.carrier_changes)
        if now is not None and old is not None and now - old > FLAP_CHANGES:
            changes = f"{now - old} changes of carrier"
            yield fault(port, port.pf.carrier_changes, changes, f"at most {FLAP_CHANGES}")


@check(
    "link-errors",
    Severity.HIGH,
    title="Link receives damaged packets",
    why="for each damaged packet, RoCE sends a whole window again",
    source=THRESHOLDS,
    remedy="clean the optic, swap cable and optic with a good peer's, and see which end the "
    "errors follow",
)
def link_errors(view: View) -> Faults:
    for port, name, rate, source in view.deltas(BIT_ERRORS):
        if rate * 3600 > BIT_ERRORS_PER_HOUR:
            yield view.rate_fault(
                port, source, f"{name} rises by {rate * 3600:.3g} per hour", "at most 120 per hour"
            )


@check(
    "link-module",
    Severity.HIGH,
    title="Optic or cable reports a fault",
    why="an optic that is too hot or shorted fails soon",
    source=COUNTERS,
    remedy="check the air flow, then replace optic or cable",
)
def link_module(view: View) -> Faults:
    return view.rises(MODULE_FAULTS, idle_proves=True)


def _linked(view: View) -> Iterator[Port]:
    """Ports whose link is up; one that is down has no speed, and a finding of its own."""
    return (port for port in view.ports if port.pf.carrier.or_else(other=True))
