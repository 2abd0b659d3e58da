"""Rules of VMs: where PVRDMA works, without a fallback to TCP or to copies in memory."""

from collections.abc import Iterable, Iterator

from stacks.benchmarks import Benchmarks
from stacks.fabric import Fabric
from stacks.hosts import HostPolicy
from stacks.machines import ExistingMachine, Machine
from stacks.nodes import BareMetal, Node, VsphereVm
from stacks.rules.parts import Fault, Parts, Path, twice

PVRDMA = 13
NATIVE_ENDPOINTS = 18
NAMESPACES = 17
MACHINE_DRIVERS = ("vmxnet3", "igb")


def _new_machines(parts: Parts) -> Iterator[tuple[int, VsphereVm, Machine]]:
    """The VMs that rocelab creates; the preflight looks at existing ones."""
    for i, node in parts.vms():
        if isinstance(node.machine, Machine):
            yield i, node, node.machine


def hardware_needed(node: VsphereVm, nodes: Iterable[Node], hosts: HostPolicy) -> tuple[int, str]:
    """The oldest virtual hardware that a node can have beside the others, and what needs it."""
    rails = {pf.rail for pf in node.pfs}
    if native := sorted(
        {pf.rail for peer in nodes if isinstance(peer, BareMetal) for pf in peer.pfs} & rails
    ):
        return NATIVE_ENDPOINTS, f"{native[0]} also has bare-metal nodes, which PVRDMA reaches"
    if node.pfs and hosts.rdma_namespaces == "exclusive":
        return NAMESPACES, "hosts.rdma_namespaces is exclusive, which PVRDMA supports"
    return (PVRDMA, "PVRDMA works") if node.pfs else (1, "")


def refuse_management_over_pvrdma(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    groups = {switch.port_group: switch.rail for switch in fabric.switches}
    for i, _, machine in _new_machines(parts):
        network = machine.management_network
        if network in groups:
            yield Fault(
                ("nodes", i, "machine", "management_network"),
                f"{network} is the port group of {groups[network]}: the first adapter carries SSH, "
                "never PVRDMA; name another network",
            )


def refuse_other_drivers(parts: Parts) -> Iterator[Fault]:
    for i, node in parts.vms():
        for j, pf in enumerate(node.pfs):
            if pf.driver not in MACHINE_DRIVERS:
                yield Fault(
                    ("nodes", i, "pfs", j, "driver"),
                    f"{pf.driver} on a vsphere_vm, but a PVRDMA adapter appears as a vmxnet3 NIC "
                    "with an RDMA device; write vmxnet3",
                )


def refuse_hosts_without_the_rail(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    """A VM on a host without the switch has no port; without a vmkernel adapter it falls back to
    TCP.
    """
    switches = fabric.switch_by_rail
    # Net.PVRDMAVmknic holds one name: one adapter per host serves PVRDMA on all switches
    tagged = set()
    for switch in switches.values():
        for host in switch.hosts:
            if host.vmkernel is not None:
                tagged.add(host.name)
    for i, node in parts.vms():
        for switch in (switches[pf.rail] for pf in node.pfs if pf.rail in switches):
            hosts = [host.name for host in switch.hosts]
            pinned = node.machine.host
            if pinned is not None and pinned not in hosts:
                yield Fault(
                    ("nodes", i, "machine", "host"),
                    f"{pinned} is not a host of {switch.name}, the switch of {switch.rail}; hosts: "
                    f"{', '.join(hosts)}",
                )
                continue
            bare = [name for name in hosts if name not in tagged and pinned in (None, name)]
            if bare:
                yield Fault(
                    ("nodes", i, "machine", "host"),
                    f"{node.name} may run on {', '.join(bare)}, which has no vmkernel adapter for "
                    f"{switch.rail}: PVRDMA would silently fall back to TCP; add `vmkernel`, or "
                    "name another host",
                )


def refuse_more_workers_than_hosts(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    apart = [(i, node) for i, node in parts.vms() if node.role == "worker" and node.machine.apart]
    for rail, switch in fabric.switch_by_rail.items():
        on_rail = [(i, node) for i, node in apart if node.pf_on(rail)]
        if len(on_rail) > len(switch.hosts):
            yield Fault(
                ("nodes", on_rail[len(switch.hosts)][0], "machine"),
                f"{len(on_rail)} workers need a host each, but switch {switch.name} has "
                f"{len(switch.hosts)}; add hosts, or set machine.apart: false and measure memory "
                "copies",
            )


def refuse_native_endpoints_on_old_hardware(parts: Parts) -> Iterator[Fault]:
    """PVRDMA talks to other RDMA devices from virtual hardware 18 (vSphere 7.0 U1) on."""
    native = {
        pf.rail for node in parts.nodes.values() if isinstance(node, BareMetal) for pf in node.pfs
    }
    for i, node, machine in _new_machines(parts):
        for rail in sorted({pf.rail for pf in node.pfs} & native):
            if machine.hardware_version < NATIVE_ENDPOINTS:
                yield Fault(
                    ("nodes", i, "machine", "hardware_version"),
                    f"{machine.hardware_version} is too old: {rail} has bare-metal nodes, which "
                    f"PVRDMA reaches from {NATIVE_ENDPOINTS} on (ESXi 7.0 U1); raise it, or put "
                    "them on a separate rail",
                )


def refuse_namespaces_on_old_hardware(parts: Parts, hosts: HostPolicy) -> Iterator[Fault]:
    if hosts.rdma_namespaces != "exclusive":
        return
    for i, node, machine in _new_machines(parts):
        if node.pfs and machine.hardware_version < NAMESPACES:
            yield Fault(
                ("nodes", i, "machine", "hardware_version"),
                f"{machine.hardware_version} is too old for hosts.rdma_namespaces exclusive, which "
                f"PVRDMA supports from {NAMESPACES} on; raise it, or write shared",
            )


def refuse_roce_v1_over_routers(parts: Parts) -> Iterator[Fault]:
    routed = parts.routed_rails
    for i, node in parts.vms():
        for rail in sorted({pf.rail for pf in node.pfs} & routed):
            if node.machine.roce_version == "rocev1":
                yield Fault(
                    ("nodes", i, "machine", "roce_version"),
                    f"rocev1 cannot cross the routers of {rail}; write rocev2",
                )


def refuse_roce_v1_under_benchmarks(parts: Parts, benchmarks: Benchmarks) -> Iterator[Fault]:
    """A PVRDMA device of version 1 has no GID of version 2, with which verbs tests begin."""
    if benchmarks.mode == "off":
        return
    for i, node in parts.vms():
        if node.pfs and node.machine.roce_version == "rocev1":
            yield Fault(
                ("nodes", i, "machine", "roce_version"),
                "rocev1 cannot be measured: benchmarks.verbs runs over RoCE v2 only; write rocev2, "
                "or remove benchmarks",
            )


def refuse_one_machine_as_two_nodes(parts: Parts) -> Iterator[Fault]:
    adopted: list[tuple[Path, str]] = []
    for i, node in parts.vms():
        if isinstance(node.machine, ExistingMachine):
            adopted.append((("nodes", i, "machine", "existing"), node.machine.existing))
    yield from twice("machine", adopted, "a VM can be one node only")
    taken = {name for _, name in adopted}
    for i, node, _ in _new_machines(parts):
        if node.name in taken:
            yield Fault(
                ("nodes", i, "name"),
                f"rocelab would create {node.name}, but another node is the existing VM of that "
                "name; rename one",
            )
