"""Inventories as clusters really are: the fabricated healthy one with something about it changed."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from components.discovery.candidates import ports_of
from components.discovery.infer_rails import Inference, infer_rails
from components.inventory.model import Host, Inventory, NearestGpus, Pf, System
from components.inventory.reading import known, unknown
from components.switches.settings import Announcement
from tests.components.inventory.fabricate import fabricate

UNREAD = unknown("lldpctl is not installed")


def bare(hosts: int, rails: int, **options: Any) -> Inventory:
    """Hosts alone: neither switches nor a cluster."""
    return fabricate(hosts, rails, switches=False, cluster=False, **options)


def each_pf(inventory: Inventory, change: Callable[[int, int, Pf], Pf], nodes: Iterable[str] = ()) -> Inventory:
    """The same inventory with every rail PF changed; `change` gets the numbers of host and rail, from 1."""
    chosen = set(nodes)

    def changed_host(n: int, host: Host) -> Host:
        if chosen and host.name not in chosen:
            return host
        first, *pfs = host.pfs.or_else(())
        return replace(host, pfs=known((first, *(change(n, k, pf) for k, pf in enumerate(pfs, 1))), "/sys"))

    return replace(inventory, hosts=tuple(changed_host(n, host) for n, host in enumerate(inventory.hosts, 1)))


def one_pf(inventory: Inventory, node: str, rail: int, **values: Any) -> Inventory:
    """The same inventory with one PF changed."""
    return each_pf(inventory, lambda _, k, pf: replace(pf, **values) if k == rail else pf, [node])


def without(*kinds: str) -> Callable[[int, int, Pf], Pf]:
    """Takes evidence away: `gpu`, `leaf`, `subnet`."""

    def change(_n: int, _k: int, pf: Pf) -> Pf:
        gone: dict[str, Any] = {
            "gpu": {"nearest_gpus": UNREAD},
            "leaf": {"lldp": UNREAD},
            "subnet": {"addresses": known((), "ip -j addr")},
        }
        return replace(pf, **{key: value for kind in kinds for key, value in gone[kind].items()})

    return change


def leaf(name: str, chassis: str = "", port: str = "Ethernet0") -> Any:
    return known((Announcement(system=name, chassis_id=chassis or f"id of {name}", port_id=port),), "lldpctl -f json0")


def address(text: str) -> Any:
    return known((text,), "ip -j addr")


def near(*gpus: str) -> Any:
    return known(NearestGpus(gpus=gpus, bridge="0000:0b:10.0" if gpus else ""), "sysfs")


def moved(inventory: Inventory, node: str, bus: int, product: str) -> Inventory:
    """The same inventory with one host as another server model: other slots, its GPUs unknown."""

    def change(_n: int, k: int, pf: Pf) -> Pf:
        return replace(pf, pci=f"0000:{bus + k:02x}:00.0", nearest_gpus=UNREAD)

    other = each_pf(inventory, change, [node])
    return replace(
        other,
        hosts=tuple(
            replace(host, system=System(product=known(product, "dmi"), hostname=known(node, "hostname")))
            if host.name == node
            else host
            for host in other.hosts
        ),
    )


def inferred(inventory: Inventory, answers: dict[tuple[str, str], str] | None = None) -> Inference:
    return infer_rails(ports_of(inventory, virtual=False).ports, answers or {})


def by_rail(found: Inference) -> dict[str, dict[str, str]]:
    """Interface by node and rail."""
    return {rail.name: {node: port.interface for node, port in rail.ports.items()} for rail in found.rails}


def healthy(hosts: int, rails: int) -> dict[str, dict[str, str]]:
    nodes = [f"gpu{n:02}" for n in range(1, hosts + 1)]
    return {f"rail-{k}": dict.fromkeys(nodes, f"ens{k}np0") for k in range(1, rails + 1)}


def codes(found: Any) -> list[str]:
    return [each.code for each in found]
