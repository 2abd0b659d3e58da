"""What the first `pulumi up` of a draft changes, host by host: by a probe, or by the inventory alone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from components.discovery.draft import Draft
from components.discovery.questions import names
from components.hosts.calls import HostCalls, Report, each
from components.hosts.changes import Change, changes
from components.hosts.document import target_fields
from components.hosts.facts import kept
from components.hosts.program.steps.arp import ARP
from components.hosts.records import HostRecord, target_record
from components.inventory.model import Host, Pf
from stacks.base import LabError
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.sets import folded

Probes = Mapping[str, Report | str]
"""What each node answered to its drafted document, or why it did not."""
RANKS = ("replace", "reboot", "pods", "link", "unread", "joins", "leaves", "none")
"""Effects, worst first."""
UNIT = "unit"
"""The field of what is new on every host: the unit with its files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A change that several hosts have alike."""

    effect: str
    what: str
    values: str
    cost: str


def probe_records(lab: Lab, hosts: Mapping[str, Host]) -> dict[str, HostRecord]:
    """The record of each active node, whose document a probe sends."""
    return {
        node.name: target_record(lab, node, hosts[node.name].host_key)
        for node in lab.active_nodes
        if node.name in hosts
    }


async def probed(records: Mapping[str, HostRecord], private_key: str | None) -> dict[str, Report | str]:
    """What each host answers to its drafted document, or why it does not.

    A probe changes nothing: it takes neither lock nor owner file.
    """
    hosts = HostCalls(private_key)
    found: dict[str, Report | str] = {}

    async def probe(name: str, record: HostRecord) -> None:
        try:
            found[name] = await hosts.call(record.endpoint, "probe", record.document)
        except LabError as error:
            found[name] = str(error)

    await each(records, probe)
    return found


def as_markdown(draft: Draft, probes: Probes, now: datetime) -> str:
    """first-up.md."""
    lines = [f"# {draft.name}: what the first `pulumi up` changes", ""]
    if draft.lab is None:
        return "\n".join(
            [*lines, "Nothing: no rail is decided, so there is no draft. questions.md says what is open.", ""]
        )
    lab, silent = draft.lab, {node: said for node, said in probes.items() if isinstance(said, str)}
    reports = {node: said for node, said in probes.items() if isinstance(said, Report) and not said.failed}
    refused = {node: said.failed for node, said in probes.items() if isinstance(said, Report) and said.failed}
    asked = f"{len(reports)} probed with the draft" if probes else "from the inventory alone: no host was contacted"
    drained = [node.name for node in lab.nodes if node.state == "drained"]
    lines += [f"{len(lab.active_nodes)} hosts, {asked}.", ""]
    lines += [*_always(lab), ""]
    rows, unknown = _rows(draft, lab, reports, now)
    lines += [*_table(rows), ""] if rows else ["No setting of a host changes.", ""]
    for lacking, nodes in unknown.items():
        lines.append(f"- Not known from the inventory: {', '.join(lacking)} of {names(nodes)}.")
    for node, failed in refused.items():
        lines.append(f"- **{node} refuses**: {failed['reason']}; {failed['hint']}")
    for node, why in silent.items():
        lines.append(f"- **{node} was not probed**: {why}")
    if drained:
        lines.append(f"- Left alone (drained): {names(drained)}. questions.md says why.")
    return "\n".join([*lines, ""]).replace("\n\n\n", "\n\n")


def _always(lab: Lab) -> Iterator[str]:
    yield "- Every host gets a unit with its program and settings, and an owner file; `pulumi destroy` removes them."
    yield "- No host reboots. Drivers, firmware, QoS and switches are not touched."
    if lab.benchmarks is not None:
        yield (
            "- The run then measures the rails once, which puts load on them. It measures nothing while "
            "another program uses them. To measure nothing, set `benchmarks: {mode: off}`."
        )
    if lab.cluster is not None:
        yield f"- The cluster gets the agents of `cluster.delivery: {lab.cluster.delivery.profile}`."
        yield "- Before it, give the stack the cluster's login: `pulumi config set --secret rocelab:kubeconfig < FILE`."


def _rows(
    draft: Draft, lab: Lab, reports: Mapping[str, Report], now: datetime
) -> tuple[dict[_Row, dict[str, list[str]]], dict[tuple[str, ...], list[str]]]:
    """The interfaces by host of each change, and the hosts by their unknown fields."""
    nodes = {node.name: node for node in lab.nodes}
    rows: dict[_Row, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    unknown: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, record in probe_records(lab, draft.hosts).items():
        target = target_fields(record.document)
        if name in reports:
            fields, facts = reports[name].fields, kept(reports[name])
        else:
            known = _read_fields(draft.hosts[name], nodes[name], lab)
            fields, facts = {field: known.get(field, value) for field, value in target.items()}, {}
            lacking = {field.rpartition(".")[2] for field in target.keys() - known.keys()} - {UNIT}
            if lacking:
                unknown[tuple(sorted(lacking))].append(name)
        was = record.model_copy(update={"fields": {**fields, UNIT: target.get(UNIT)}})
        for change in changes({name: was}, {name: record}, {name: facts}, now):
            row, interface = _row(change)
            rows[row][name].append(interface)
    return rows, unknown


def _row(change: Change) -> tuple[_Row, str]:
    interface, _, what = change.what.rpartition(".")
    cost = change.cost.replace(interface, "it") if interface else change.cost
    values = change.values if not change.values.startswith(" =>") else f"none{change.values}"
    return _Row(effect=change.effect, what=what, values=values, cost=cost), interface


def _table(rows: Mapping[_Row, Mapping[str, list[str]]]) -> Iterator[str]:
    yield "| Effect | Where | Change |"
    yield "|---|---|---|"
    for row in sorted(rows, key=lambda each: (RANKS.index(each.effect), each.what, each.values)):
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for node, interfaces in rows[row].items():
            alike[tuple(sorted(interfaces))].append(node)
        for same, nodes in alike.items():
            where = " ".join([names(nodes), *folded(each for each in same if each)])
            yield f"| {row.cost} | {where} | {row.what} {row.values} |".replace("=>", "→")


def _read_fields(host: Host, node: Node, lab: Lab) -> dict[str, JsonValue]:
    """Fields of the host program that an inventory has too."""
    found: dict[str, JsonValue] = {}
    if (modules := host.system.modules.value) is not None:
        found["modules"] = [name for name in ("ib_umad", "rdma_rxe", "rdma_ucm") if name in modules]
    if (namespaces := host.system.rdma_namespaces.value) is not None:
        found["rdma_namespaces"] = namespaces
    loaded = [driver for driver in host.system.drivers.or_else(()) if driver.module == "mlx5_core"]
    if loaded and loaded[0].loaded.value:
        found["driver"] = "loaded"
    sysctls = host.network.sysctls.or_else({})
    for pf in node.pfs:
        name, read = pf.interface, _pf_of(host, pf.interface)
        arp = {key: sysctls.get(f"net.ipv4.conf.{name}.{key}") for key in ARP}
        if None not in arp.values():
            found[f"{name}.arp"] = " ".join(f"{key}={value}" for key, value in arp.items())
        if read is not None:
            found |= {f"{name}.{key}": value for key, value in _fields_of(read, lab.rail(pf.rail).mtu_bytes)}
    return found


def _pf_of(host: Host, interface: str) -> Pf | None:
    return next((pf for pf in host.pfs.or_else(()) if interface in pf.interfaces.or_else(())), None)


def _fields_of(pf: Pf, mtu_bytes: int) -> Iterator[tuple[str, JsonValue]]:
    if pf.mtu_bytes.value is not None:
        yield "mtu_bytes", pf.mtu_bytes.value
    if pf.up.value is not None:
        yield "link", "up" if pf.up.value else "down"
    if pf.addresses.value is not None:
        yield "address", " ".join(address for address in pf.addresses.value if ":" not in address) or "none"
    if pf.vfs_num.value is not None:
        yield "vfs", pf.vfs_num.value
    if pf.rdma.value is not None:
        yield "rdma_device", " ".join(rdma.device for rdma in pf.rdma.value) or "none"
    if pf.vfs.value is not None:
        odd = {vf.mtu_bytes.or_else(mtu_bytes) for vf in pf.vfs.value if vf.interfaces} - {mtu_bytes}
        yield "vf_mtu_bytes", min(odd) if odd else mtu_bytes
