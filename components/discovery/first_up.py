"""What the first `pulumi up` of a draft changes per host: by a probe, or by the inventory alone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from components.discovery.draft import Draft
from components.discovery.questions import names
from components.hosts.calls import Report
from components.hosts.document import target_record
from components.hosts.plan import UNIT, Answers, HostPlan, changes_of, plan_of, remarks, table
from components.hosts.program.steps.arp import ARP
from components.hosts.records import HostRecord, target_fields
from components.inventory.model import Host, Pf
from stacks.lab import Lab
from stacks.nodes import Node

MODULES = ("ib_umad", "rdma_rxe", "rdma_ucm")
"""Those that the host program loads."""


def probe_records(lab: Lab, hosts: Mapping[str, Host]) -> dict[str, HostRecord]:
    """The record of each active node, whose document a probe sends."""
    nodes = [node for node in lab.active_nodes if node.name in hosts]
    return {node.name: target_record(lab, node, hosts[node.name].host_key) for node in nodes}


def as_markdown(draft: Draft, probes: Answers) -> str:
    """first-up.md."""
    lines = [f"# {draft.name}: what the first `pulumi up` changes", ""]
    if draft.lab is None:
        why = "no rail is decided, so there is no draft. questions.md says what is open."
        return "\n".join([*lines, f"Nothing: {why}", ""])
    lab = draft.lab
    plans, unread = _plans(draft, lab, probes)
    source = "from the inventory alone: no host was contacted"
    if probes:
        probed = sum(isinstance(probe, Report) for probe in probes.values())
        source = f"{probed} probed with the draft"
    lines += [f"{len(lab.active_nodes)} hosts, {source}.", "", *_always(lab), ""]
    lines += [*table(plans)] or ["No setting of a host changes."]
    lines.append("")
    for lacking, nodes in unread.items():
        lines.append(f"- Not known from the inventory: {', '.join(lacking)} of {names(nodes)}.")
    lines += remarks(plans, probes)
    if draft.drained:
        lines.append(f"- Left alone (drained): {names(draft.drained)}. questions.md says why.")
    return "\n".join([*lines, ""]).replace("\n\n\n", "\n\n")


def _plans(
    draft: Draft, lab: Lab, probes: Answers
) -> tuple[dict[str, HostPlan], dict[tuple[str, ...], list[str]]]:
    """What changes by host, and hosts by the fields that are not known of them."""
    plans = {}
    unread: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, record in probe_records(lab, draft.hosts).items():
        probe = probes.get(name)
        if isinstance(probe, Report):
            plans[name] = plan_of(record, probe)
            continue
        plans[name], lacking = _plan_without_probe(draft.hosts[name], name, lab, record)
        if lacking:
            unread[lacking].append(name)
    return plans, unread


def _always(lab: Lab) -> Iterator[str]:
    yield (
        "- Every host gets a unit with its program and settings, and an owner file; "
        "`pulumi destroy` removes them."
    )
    yield "- No host reboots. Drivers, firmware, QoS and switches are not touched."
    if lab.benchmarks is not None:
        yield (
            "- The run then measures the rails once, which puts load on them. It measures nothing "
            "while another program uses them. To measure nothing, set `benchmarks: {mode: off}`."
        )
    if lab.cluster is not None:
        profile = lab.cluster.delivery.profile
        yield f"- The cluster gets the agents of `cluster.delivery: {profile}`."
        yield (
            "- Before it, give the stack the cluster's login: "
            "`pulumi config set --secret rocelab:kubeconfig < FILE`."
        )


def _plan_without_probe(
    host: Host, name: str, lab: Lab, record: HostRecord
) -> tuple[HostPlan, tuple[str, ...]]:
    """What the inventory shows of a host, and the fields that it does not have."""
    target = target_fields(record.document)
    [node] = [node for node in lab.nodes if node.name == name]
    known = _read_fields(host, node, lab)
    fields = {field: known.get(field, value) for field, value in target.items()}
    lacking = {field.rpartition(".")[2] for field in target.keys() - known.keys()} - {UNIT}
    changes = tuple(changes_of(name, record, fields, {}))
    return HostPlan(changes=changes), tuple(sorted(lacking))


def _read_fields(host: Host, node: Node, lab: Lab) -> dict[str, JsonValue]:
    """Fields of the host program that an inventory has too."""
    fields: dict[str, JsonValue] = {}
    modules, namespaces = host.system.modules.value, host.system.rdma_namespaces.value
    if modules is not None:
        fields["modules"] = [name for name in MODULES if name in modules]
    if namespaces is not None:
        fields["rdma_namespaces"] = namespaces
    loaded = {driver.module for driver in host.system.drivers.or_else(()) if driver.loaded.value}
    if "mlx5_core" in loaded:
        fields["driver"] = "loaded"
    sysctls = host.network.sysctls.or_else({})
    read = {name: pf for pf in host.pfs.or_else(()) for name in pf.interfaces.or_else(())}
    for pf in node.pfs:
        name = pf.interface
        arp = {key: sysctls.get(f"net.ipv4.conf.{name}.{key}") for key in ARP}
        if None not in arp.values():
            fields[f"{name}.arp"] = " ".join(f"{key}={value}" for key, value in arp.items())
        if name in read:
            own = _fields_of(read[name], lab.rail(pf.rail).mtu_bytes)
            fields |= {f"{name}.{key}": value for key, value in own}
    return fields


def _fields_of(pf: Pf, mtu_bytes: int) -> Iterator[tuple[str, JsonValue]]:
    if pf.mtu_bytes.value is not None:
        yield "mtu_bytes", pf.mtu_bytes.value
    if pf.up.value is not None:
        yield "link", "up" if pf.up.value else "down"
    if pf.addresses.value is not None:
        yield (
            "address",
            " ".join(address for address in pf.addresses.value if ":" not in address) or "none",
        )
    if pf.vfs_num.value is not None:
        yield "vfs", pf.vfs_num.value
    if pf.rdma.value is not None:
        yield "rdma_device", " ".join(rdma.device for rdma in pf.rdma.value) or "none"
    if pf.vfs.value is not None:
        odd = {vf.mtu_bytes.or_else(mtu_bytes) for vf in pf.vfs.value if vf.interfaces} - {
            mtu_bytes
        }
        yield "vf_mtu_bytes", min(odd) if odd else mtu_bytes
