"""Rules between access, rails, nodes and cluster. Each looks at what is valid so far: all faults
show at once.
"""

from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations

from stacks.access import Access
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator, SriovPlain
from stacks.nodes import Pf, VsphereVm
from stacks.rails import Rail
from stacks.rules.parts import Fault, Parts, Path, show, twice
from stacks.words import plural


def refuse_names_given_twice(parts: Parts) -> Iterator[Fault]:
    rails, nodes, pods = parts.rails.items(), parts.nodes.items(), list(parts.pod_rails())
    yield from twice(
        "name",
        ((("rails", i, "name"), rail.name) for i, rail in rails),
        "give each rail its own name",
    )
    yield from twice(
        "name",
        ((("nodes", i, "name"), node.name) for i, node in nodes),
        "give each node its own name",
    )
    yield from twice(
        "VLAN",
        [(("rails", i, "pod", "vlan_id"), pod.vlan_id) for i, _, pod in pods if pod.vlan_id],
        "give each rail its own VLAN",
    )
    yield from twice(
        "resource",
        ((("rails", i, "resource_name"), rail.resource) for i, rail, _ in pods),
        "pods select a rail by it, so it must be unique",
    )
    yield from twice(
        "network",
        ((("rails", i, "network_name"), rail.network_name) for i, rail, _ in pods),
        "pods attach to a rail by it, so it must be unique",
    )


def refuse_former_names_in_use(parts: Parts) -> Iterator[Fault]:
    names = {node.name for node in parts.nodes.values()}
    for i, node in parts.nodes.items():
        if node.formerly in names:
            yield Fault(
                ("nodes", i, "formerly"),
                f"{node.formerly} is still a node of this lab; remove that node, or correct "
                "formerly",
            )


def refuse_overlapping_subnets(parts: Parts) -> Iterator[Fault]:
    subnets = _subnets(parts)
    for (_, first, subnet), (path, _, other) in combinations(subnets, 2):
        if subnet.overlaps(other):
            yield Fault(
                path,
                f"{other} overlaps {first} {subnet}: traffic would leave through the wrong NIC; "
                "choose separate ranges",
            )
    for i, node in parts.nodes.items():
        for _, owner, subnet in subnets:
            if node.address in subnet:
                yield Fault(
                    ("nodes", i, "address"),
                    f"{node.address} is in {owner} {subnet}; use a management address outside "
                    f"{subnet}",
                )


def _subnets(parts: Parts) -> list[tuple[Path, str, IPv4Network]]:
    """Where each subnet is in the file, whose it is, and the subnet."""
    subnets: list[tuple[Path, str, IPv4Network]] = []
    ranges = set()
    for i, rail in parts.rails.items():
        # rails of links may be cut from one range, in any order
        if rail.name not in parts.split_rails or rail.host_subnet not in ranges:
            subnets.append(
                (("rails", i, "host_subnet"), f"{rail.name}'s host_subnet", rail.host_subnet)
            )
        if rail.name in parts.split_rails:
            ranges.add(rail.host_subnet)
        if rail.pod is not None:
            subnets.append(
                (("rails", i, "pod", "subnet"), f"{rail.name}'s pod subnet", rail.pod.subnet)
            )
    if parts.cluster:
        subnets.append(
            (("cluster", "pod_subnet"), "the cluster's pod_subnet", parts.cluster.pod_subnet)
        )
        subnets.append(
            (
                ("cluster", "service_subnet"),
                "the cluster's service_subnet",
                parts.cluster.service_subnet,
            )
        )
    return subnets


def refuse_overlapping_links(parts: Parts) -> Iterator[Fault]:
    """A subnet belongs to one rail: a longer prefix would take the addresses of another."""
    split = parts.split_rails
    first: dict[IPv4Network, tuple[Path, str]] = {}
    for path, _, pf in parts.pfs():
        if pf.rail not in split:
            continue
        other, rail = first.setdefault(pf.address.network, ((*path, "address"), pf.rail))
        if rail != pf.rail:
            yield Fault(
                (*path, "address"),
                f"{pf.address} is in the subnet of {rail} at {show(other)}; give each rail its own "
                "subnets",
                also=other,
            )
    inside: IPv4Network | None = None
    for subnet in sorted(first):
        if inside is not None and subnet.subnet_of(inside):
            path, _ = first[subnet]
            other, _ = first[inside]
            text = (
                f"{subnet} is part of {inside} at {show(other)}; use one prefix length per subnet"
            )
            yield Fault(path, text, also=other)
        else:
            inside = subnet


def refuse_pools_too_small(parts: Parts) -> Iterator[Fault]:
    for i, rail, pod in parts.pod_rails():
        vfs = [
            pf.vfs for _, node, pf in parts.pfs() if pf.rail == rail.name and node.state != "absent"
        ]
        block = pod.addresses_per_node
        base = pod.subnet.network_address + 1
        if vfs and block < max(vfs):
            yield Fault(
                ("rails", i, "pod", "addresses_per_node"),
                f"{block} addresses for up to {max(vfs)} VFs per node: some pods would get none; "
                f"set at least {max(vfs)}",
            )
        elif pod.block_count < len(vfs):
            yield Fault(
                ("rails", i, "pod"),
                f"the pool has {plural(pod.block_count, 'whole block')} of {block} (counted from "
                f"{base}) for {plural(len(vfs), 'node')}; widen it to {block * (len(vfs) + 1)} "
                "addresses or lower addresses_per_node",
            )


def refuse_interfaces_on_two_rails(parts: Parts, cluster: Cluster) -> Iterator[Fault]:
    """Server models may give one name to NICs of different rails; then only the PCI addresses
    distinguish them.
    """
    pods = {rail.name for _, rail, _ in parts.pod_rails()}
    rails = []
    for path, node, pf in parts.pfs():
        if pf.rail in pods and node.state != "absent":
            rails.append((path, node, pf))
    slots: dict[str, set[str | None]] = defaultdict(set)
    named: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for _, _, pf in rails:
        slots[pf.rail].add(pf.pci)
        named[pf.rail, pf.interface].add(pf.pci)
    by_slot = isinstance(cluster.delivery, SriovPlain | SriovOperator)
    first_on: dict[str, dict[str, str]] = defaultdict(dict)
    for path, node, pf in rails:
        for rail, first in first_on[pf.interface].items():
            mixed = (
                named[rail, pf.interface] & slots[pf.rail]
                | named[pf.rail, pf.interface] & slots[rail]
            )
            known = None not in slots[rail] | slots[pf.rail]
            if rail != pf.rail and (mixed or not known or not by_slot):
                yield Fault(
                    (*path, "interface"),
                    f"{pf.interface} is on {pf.rail} here and on {rail} at {first}: the device "
                    "plugin has one list of names for all nodes and would mix the rails; give "
                    "the NICs one name per rail (udev)"
                    + (
                        f", or write pci at every PF on {rail} and {pf.rail}"
                        if by_slot and not known
                        else ""
                    ),
                )
                break
        first_on[pf.interface].setdefault(pf.rail, node.name)


def refuse_addresses_given_twice(parts: Parts) -> Iterator[Fault]:
    endpoints = []
    for i, node in parts.nodes.items():
        if node.state != "absent":
            endpoints.append((("nodes", i, "address"), f"{node.address} port {node.ssh_port}"))
    yield from twice("address", endpoints, "give each node its own")
    on_rails = ((*path, "address") for path, _, _ in parts.pfs())
    addresses = zip(on_rails, (pf.address.ip for _, _, pf in parts.pfs()), strict=True)
    yield from twice("address", addresses, "give each PF its own from the rail's host_subnet")


def refuse_pfs_off_their_rail(parts: Parts) -> Iterator[Fault]:
    rails, split = parts.rails_by_name, parts.split_rails
    for path, _, pf in parts.pfs():
        if pf.rail not in rails:
            # the PF may mean a rail that is refused for another reason
            if parts.all_rails_valid:
                yield Fault(
                    (*path, "rail"), f"this lab has no rail {pf.rail}; rails: {', '.join(rails)}"
                )
            continue
        subnet = rails[pf.rail].host_subnet
        if pf.rail in split:
            yield from _refuse_a_pf_out_of_its_range(path, pf, rails[pf.rail])
        elif pf.address.ip not in subnet or pf.address.network != subnet:
            yield Fault(
                (*path, "address"),
                f"{pf.address} is outside {pf.rail}'s host_subnet {subnet}; "
                f"write an address inside it with /{subnet.prefixlen}",
            )
        elif pf.address.ip in (subnet.network_address, subnet.broadcast_address):
            yield Fault(
                (*path, "address"),
                f"{pf.address.ip} is the network or broadcast address of {subnet}; choose another",
            )


def _refuse_a_pf_out_of_its_range(path: Path, pf: Pf, rail: Rail) -> Iterator[Fault]:
    if pf.gateway is None:
        yield Fault(
            (*path, "gateway"),
            f"missing, but other PFs on {rail.name} have one; name the router of "
            f"{pf.address.network}, or set host_gateway on {rail.name} and remove gateway from "
            "its PFs",
        )
    elif rail.host_gateway is not None:
        yield Fault(
            (*path, "gateway"),
            f"{pf.gateway} conflicts with host_gateway {rail.host_gateway} of {rail.name}; remove "
            "one of the two",
        )
    elif not pf.address.network.subnet_of(rail.host_subnet):
        yield Fault(
            (*path, "address"),
            f"{pf.address} is outside {rail.name}'s host_subnet {rail.host_subnet}, "
            "which must contain the subnets of all its PFs",
        )


def refuse_what_the_kind_forbids(parts: Parts) -> Iterator[Fault]:
    for i, node in parts.nodes.items():
        if parts.kind == "virtual" and not node.address.is_loopback:
            yield Fault(
                ("nodes", i, "address"),
                f"{node.address} is not loopback, and virtual labs reach loopback only; set kind: "
                "hardware",
            )
    if parts.kind == "hardware":
        yield from _simulated_parts(parts)


def _simulated_parts(parts: Parts) -> Iterator[Fault]:
    for i, node in parts.nodes.items():
        if node.address.is_loopback:
            yield Fault(
                ("nodes", i, "address"),
                f"{node.address} is loopback, where only the simulator is; set kind: virtual",
            )
    for i, rail in parts.rails.items():
        yield from _loopback_subnets(("rails", i), rail)
    for path, _, pf in parts.pfs():
        if pf.soft_roce:
            yield Fault(
                (*path, "driver"),
                f"{pf.driver} has no RDMA and is only for virtual labs; use mlx5_core",
            )
    if parts.has("simulator"):
        yield Fault(("simulator",), "kind: hardware needs no simulator; remove this section")


def _loopback_subnets(at: Path, rail: Rail) -> Iterator[Fault]:
    subnets: dict[Path, IPv4Network] = {("host_subnet",): rail.host_subnet}
    if rail.pod:
        subnets["pod", "subnet"] = rail.pod.subnet
    for field, subnet in subnets.items():
        if subnet.is_loopback:
            yield Fault(
                (*at, *field),
                f"{subnet} is loopback and never leaves a machine; choose a private network such "
                "as 10.10.11.0/24",
            )


def refuse_a_key_file_that_is_not_the_simulators(parts: Parts, access: Access) -> Iterator[Fault]:
    if parts.kind == "hardware" and access.identity == "file":
        yield Fault(
            ("access", "identity"),
            "file works only with the simulator; use agent, or pulumi config set --secret "
            "rocelab:sshPrivateKey",
        )
    if access.identity == "file" and access.key_file is None:
        yield Fault(
            ("access", "key_file"), "missing; identity: file needs the simulator's private key"
        )


def refuse_a_cluster_without_its_kubeconfig(cluster: Cluster) -> Iterator[Fault]:
    if cluster.kubeconfig == "file" and cluster.kubeconfig_file is None:
        yield Fault(
            ("cluster", "kubeconfig_file"),
            "missing, but kubeconfig: file needs it; name the file, or set kubeconfig: secret",
        )


def refuse_real_kubelets_without_what_they_need(parts: Parts) -> Iterator[Fault]:
    if not parts.has("simulator"):
        return
    if not parts.has("cluster"):
        yield Fault(
            ("simulator", "kubelets"),
            "real kubelets need an API server; add a valid cluster section",
        )
    for i, node in parts.nodes.items():
        if isinstance(node, VsphereVm):
            yield Fault(
                ("nodes", i, "kind"),
                f"{node.name} is a VM, but the simulator runs real kubelets on bare metal only; "
                "remove the simulator section",
            )


def refuse_pfs_with_the_address_of_their_router(parts: Parts) -> Iterator[Fault]:
    gateways = {rail.host_gateway: f"host_gateway of {rail.name}" for rail in parts.rails.values()}
    gateways |= {pf.gateway: f"gateway of {node.name} on {pf.rail}" for _, node, pf in parts.pfs()}
    for path, _, pf in parts.pfs():
        if router := gateways.get(pf.address.ip):
            yield Fault(
                (*path, "address"), f"{pf.address.ip} is the {router}; give this PF a free address"
            )
