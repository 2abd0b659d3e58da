"""What the first `pulumi up` of a draft changes, host by host: by a probe, or by the inventory alone."""

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


def probe_records(lab: Lab, hosts: Mapping[str, Host]) -> dict[str, HostRecord]:
    """The record of each active node, whose document a probe sends."""
    return {
        node.name: target_record(lab, node, hosts[node.name].host_key)
        for node in lab.active_nodes
        if node.name in hosts
    }


def as_markdown(draft: Draft, probes: Answers) -> str:
    """first-up.md."""
    lines = [f"# {draft.name}: what the first `pulumi up` changes", ""]
    if draft.lab is None:
        return "\n".join(
            [*lines, "Nothing: no rail is decided, so there is no draft. questions.md says what is open.", ""]
        )
    lab, records = draft.lab, probe_records(draft.lab, draft.hosts)
    plans = {name: plan_of(records[name], answer) for name, answer in probes.items() if isinstance(answer, Report)}
    source = f"{len(plans)} probed with the draft" if probes else "from the inventory alone: no host was contacted"
    lines += [f"{len(lab.active_nodes)} hosts, {source}.", ""]
    lines += [*_always(lab), ""]
    unread: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, record in records.items():
        if name not in plans:
            node = next(node for node in lab.nodes if node.name == name)
            plans[name], lacking = _plan_without_probe(draft.hosts[name], node, lab, record)
            if lacking:
                unread[lacking].append(name)
    rows = list(table(plans))
    lines += [*rows, ""] if rows else ["No setting of a host changes.", ""]
    for lacking, nodes in unread.items():
        lines.append(f"- Not known from the inventory: {', '.join(lacking)} of {names(nodes)}.")
    lines += remarks(plans, probes)
    drained = [node.name for node in lab.nodes if node.state == "drained"]
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


def _plan_without_probe(host: Host, node: Node, lab: Lab, record: HostRecord) -> tuple[HostPlan, tuple[str, ...]]:
    """What the inventory shows of a host, and the fields that it does not have."""
    target = target_fields(record.document)
    known = _read_fields(host, node, lab)
    fields = {field: known.get(field, value) for field, value in target.items()}
    lacking = {field.rpartition(".")[2] for field in target.keys() - known.keys()} - {UNIT}
    return HostPlan(changes=tuple(changes_of(node.name, record, fields, {}))), tuple(sorted(lacking))


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
