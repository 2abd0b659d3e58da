"""Lost and paused packets, as rates between two looks."""

from collections.abc import Hashable
from statistics import median

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import COUNTERS, PRACTICE, THRESHOLDS, check
from components.audit.view import View

MOST_TIMEOUTS_PER_S = 1
"""Of `local_ack_timeout_err`, as NVSentinel has it."""
MOST_RESTARTS_PER_S = 10
"""Of `roce_slow_restart`, as NVSentinel has it."""
MOST_DISCARDS_PER_S = 1
"""From practice: a lossless fabric has none, and a lossy one few."""
MOST_RESENT_PER_S = 10
"""From practice, of `packet_seq_err`: requests to send again. Packets that only arrive out of order
(`out_of_sequence`) are how adaptive routing looks."""
LIMITS = {
    "local_ack_timeout_err": MOST_TIMEOUTS_PER_S,
    "roce_slow_restart": MOST_RESTARTS_PER_S,
    "rx_discards_phy": MOST_DISCARDS_PER_S,
    "packet_seq_err": MOST_RESENT_PER_S,
}
SENT, RESENT = "sent_pkts", "rcvd_seq_err"
"""Of soft-RoCE, which counts packets too and is too slow for limits per second."""
MOST_RESENT_SHARE, LEAST_RESENT_PER_S = 2e-4, 0.1
"""From practice: RoCE sends a window again for each lost packet, so a loss of 0.1 % is felt."""
PAUSES = tuple(f"rx_prio{priority}_pause" for priority in range(8))
STORMS = ("tx_pause_storm_warning_events", "tx_pause_storm_error_events")
FEW_PAUSES_PER_S, TIMES_MEDIAN = 100, 10
"""From practice: a lower rate does no harm; above it, a receiver with ten times the peers' median
is slow itself."""


@check(
    "packet-loss",
    Severity.HIGH,
    title="RoCE loses packets",
    why="each loss makes RoCE send a window again and slow down",
    source=THRESHOLDS,
    remedy="compare QoS of NIC and switch first, then cable and optic; look for a pause storm at "
    "the receivers",
)
def packet_loss(view: View) -> Faults:
    sent_per_s = {}
    for port, name, rate, source in view.deltas((*LIMITS, SENT, RESENT)):
        place = (port.node, port.part)
        if name == SENT:
            sent_per_s[place] = rate
        elif name == RESENT:
            allowed = max(MOST_RESENT_SHARE * sent_per_s.get(place, 0), LEAST_RESENT_PER_S)
            if rate > allowed:
                share = f"{rate / max(sent_per_s.get(place, 0), rate):.2%} of packets sent again"
                yield view.rate_fault(port, source, share, f"at most {MOST_RESENT_SHARE:.2%}")
        elif rate > LIMITS[name]:
            yield view.rate_fault(port, source, f"{name} {rate:.3g}/s", f"at most {LIMITS[name]}/s")


@check(
    "pause-storm",
    Severity.HIGH,
    title="NIC pauses the network for a long time",
    why="the host accepts no packets, which stalls senders of this class across the fabric",
    source=COUNTERS,
    remedy="drain this node: check its PCIe link, IOMMU, NUMA and hung processes",
)
def pause_storm(view: View) -> Faults:
    return view.rises(STORMS, idle_proves=True)


@check(
    "pause-rate",
    Severity.HIGH,
    title="Port is paused far more than its peers",
    why="one slow receiver or misconfigured port slows down all traffic of its class",
    source=PRACTICE,
    remedy="find the receiver behind the pauses: the node with a pause storm, a narrow PCIe link "
    "or a wrong MTU",
)
def pause_rate(view: View) -> Faults:
    groups: dict[Hashable, list[tuple[Port, str, float, str]]] = {}
    for port, name, rate, source in view.deltas(PAUSES):
        groups.setdefault((port.peers, name), []).append((port, name, rate, source))
    for group in groups.values():
        usual = median(rate for _, _, rate, _ in group)
        for port, name, rate, source in group:
            if rate > FEW_PAUSES_PER_S and rate > TIMES_MEDIAN * usual:
                yield view.rate_fault(
                    port, source, f"{name} {rate:.3g}/s", f"{usual:.3g}/s, the median of peers"
                )
