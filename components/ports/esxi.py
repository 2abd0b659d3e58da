"""Connections from or to ESXi hosts, which rocelab cannot start itself: it asks the vCenter and the hosts.

PVRDMA's path is proven by an unfragmented ping of the MTU's size between vmkernel adapters, and by the firewall
ruleset. That is ICMP and a setting, not a TCP connection, and each answer says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from itertools import chain

from pyVmomi import vim, vmodl

from components.fabric.preflight.judge import within
from components.fabric.preflight.survey import allowed
from components.fabric.vcenter.client import RULESET, VCenter
from components.fabric.vcenter.esxcli import esxcli, number_of
from components.fabric.vcenter.properties import collect, known
from components.fabric.vcenter.refusals import explained
from components.ports import connect
from components.ports.check import UNASKED, Answer
from components.ports.matrix import PVRDMA_PORTS, PortRow, port_matrix
from components.ports.targets import Probe, pairs
from stacks.base import LabError
from stacks.fabric import DistributedSwitch, EsxiHost, Fabric
from stacks.lab import Lab
from stacks.words import some

ABREAST = 8
"""Hosts that ping at the same time; each sends one ping after the other."""
HEADERS_BYTES = 28
"""IPv4 and ICMP headers, which a ping's size does not include."""
PINGS = 2
WAIT_S = 1
CONNECTED = frozenset({("vcenter", "esxi", "tcp", 443), ("esxi", "vcenter", "udp", 902)})
"""Rows that a host needs to be `connected` in its vCenter: calls to it, and its heartbeats."""
CONTROL = ("esxi", "esxi", "tcp", PVRDMA_PORTS[0])
ANSWERED = frozenset({*CONNECTED, CONTROL})
"""The rows that this file checks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EsxiEnd:
    """A host's vmkernel adapter of PVRDMA; `why` is set if it is unknown."""

    name: str
    host: vim.HostSystem | None = None
    device: str = ""
    address: str = ""
    mtu_bytes: int = 0
    """MTU of the lab, or of an adapter that is only referenced."""
    closed: str = ""
    """What is wrong with its firewall ruleset."""
    allows: tuple[str, ...] | None = None
    """Addresses that the ruleset allows; None: all."""
    why: str = ""


def answers_of(lab: Lab, fabric: Fabric, vcenter: VCenter) -> list[Answer]:
    """What the vCenter and the hosts report for each row. Blocks some seconds per host.

    Raises:
        LabError: when the vCenter does not answer, or does not know a host.
    """
    answers: list[Answer] = []
    try:
        for row in port_matrix(lab):
            if row.way in CONNECTED:
                answers += _connections(row, fabric, vcenter)
            elif row.way == CONTROL:
                for switch in fabric.switches:
                    answers += _between(row, switch, vcenter)
    except (vmodl.MethodFault, OSError, HTTPException) as error:
        raise LabError(f"the vCenter does not report what its hosts reach: {explained(error)}") from None
    return answers


def _connections(row: PortRow, fabric: Fabric, vcenter: VCenter) -> Iterator[Answer]:
    names = list(dict.fromkeys(host.name for switch in fabric.switches for host in switch.hosts))
    rows = collect(vcenter.content, [vcenter.host(name) for name in names], ["runtime.connectionState"])
    for name, properties in zip(names, rows, strict=True):
        state = str(properties.get("runtime.connectionState", "not known"))
        source, target = ("the vCenter", name) if row.source == "vcenter" else (name, "the vCenter")
        result = connect.OPEN if state == "connected" else f"the vCenter reports the host as {state}"
        probe = Probe(row=row, source=source, target=target, address=fabric.vcenter, port=row.first)
        yield Answer(
            probe=probe,
            result=result,
            how="the host is connected in the vCenter",
        )


def _between(row: PortRow, switch: DistributedSwitch, vcenter: VCenter) -> list[Answer]:
    hosts = [host for host in switch.hosts if host.vmkernel is not None]
    names = [host.name for host in hosts]
    entities = [vcenter.host(name) for name in names]  # looked up here, because threads must not
    chosen = list(pairs(names))
    with ThreadPoolExecutor(ABREAST) as pool:
        ends = dict(zip(names, pool.map(partial(_end, switch, vcenter), hosts, entities), strict=True))
        targets: dict[str, list[str]] = {name: [] for name in names}
        for source, target in chosen:
            targets[source].append(target)
        by_host = pool.map(partial(_answers_from, row, ends), names, targets.values())
        return list(chain.from_iterable(by_host))


def _answers_from(row: PortRow, ends: Mapping[str, EsxiEnd], source: str, targets: Sequence[str]) -> list[Answer]:
    answers = []
    start = ends[source]
    for target in targets:
        end = ends[target]
        probe = Probe(
            row=row,
            source=source,
            target=target,
            address=end.address,
            port=row.first,
            whole_range=True,
        )
        size = min(start.mtu_bytes, end.mtu_bytes) - HEADERS_BYTES
        result = start.why or end.why or shut(start, end) or pinged(start, end, size)
        how = f"ruleset {RULESET} open, and an unfragmented ping of {size} bytes is answered; no TCP was tried"
        answers.append(Answer(probe=probe, result=result, how=how))
    return answers


def _end(switch: DistributedSwitch, vcenter: VCenter, declared: EsxiHost, host: vim.HostSystem) -> EsxiEnd:
    vmkernel = declared.vmkernel
    try:
        adapters = {}
        for nic in known(host, "config.network.vnic"):
            adapters[nic.device] = (nic.spec.ip.ipAddress or "", nic.spec.mtu or 1500)
        ruleset = vcenter.ruleset(host, RULESET)
        allows = allowed(known(host, "configManager.firewallSystem.firewallInfo.ruleset"))
    except LabError as error:
        return EsxiEnd(name=declared.name, why=f"{UNASKED}: {error}")
    address = str(vmkernel.address.ip) if vmkernel and vmkernel.address else ""
    by_address = {own: device for device, (own, _) in adapters.items()}
    device = vmkernel.existing if vmkernel and vmkernel.existing else by_address.get(address, "")
    if device not in adapters:
        why = f"{declared.name} has no vmkernel adapter {device or address}; run pulumi up"
        return EsxiEnd(name=declared.name, why=why)
    mtu_bytes = switch.mtu_bytes if address else vmkernel and vmkernel.mtu_bytes
    closed = ""
    if not ruleset.enabled:
        closed = f"{declared.name}'s firewall ruleset {RULESET} is closed; run pulumi up"
    return EsxiEnd(
        name=declared.name,
        host=host,
        device=device,
        address=adapters[device][0],
        mtu_bytes=mtu_bytes or adapters[device][1],
        closed=closed,
        allows=allows,
    )


def shut(source: EsxiEnd, target: EsxiEnd) -> str:
    """Why the rulesets of two hosts block them; empty when they do not."""
    if source.closed or target.closed:
        return source.closed or target.closed
    if target.allows is None or within(source.address, target.allows):
        return ""
    lets_in = some(target.allows, 3) or "nobody"
    return (
        f"{target.name}'s firewall ruleset {RULESET} allows {lets_in}, but not {source.address}; add it: "
        f"esxcli network firewall ruleset allowedip add -r {RULESET} -i ..."
    )


def pinged(source: EsxiEnd, target: EsxiEnd, size: int) -> str:
    """The result of an unfragmented ping of that many bytes between two hosts."""
    options = {  # hosts require alphabetical order
        "count": str(PINGS),
        "df": "true",
        "host": target.address,
        "interface": source.device,
        "size": str(size),
        "wait": str(WAIT_S),
    }
    if source.host is None:
        return f"{UNASKED}: {source.name} is not known"
    try:
        rows = esxcli(source.host, source.name, "network diag ping", **options)
    except LabError as error:
        if "too long" in str(error):
            return f"the MTU of {source.device} is below {size + HEADERS_BYTES} bytes; run pulumi up"
        return f"{UNASKED}: {error}"
    # ESXi itself writes Recieved
    received = None
    if rows:
        received = number_of(rows[0], "Summary.Recieved")
        if received is None:
            received = number_of(rows[0], "Summary.Received")
    if received is None:
        return f"{UNASKED}: {source.name} does not report the result of its ping"
    if received:
        return connect.OPEN
    return (
        f"a ping of {size} bytes that may not be fragmented, from {source.device} to {target.address}, gets no answer; "
        "check VLAN and MTU of port group, switch and physical ports"
    )
