"""The ESXi host of each VM, and what is wrong with the placement."""

from collections.abc import Iterator, Mapping, Sequence

from pyVmomi import vim

from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.properties import collect_all, named


def places_of(vcenter: VCenter, machines: Mapping[str, str]) -> dict[str, str]:
    """The host of each machine by name, in two calls in all; machines that are gone are left
    out.

    Args:
        vcenter: the session.
        machines: UUID by name.
    """
    where = dict(hosts_of_machines(vcenter, "config.uuid"))
    places = {}
    for name, uuid in machines.items():
        if host := where.get(uuid):
            places[name] = host
    return places


def hosts_of_machines(vcenter: VCenter, known_by: str) -> Iterator[tuple[object, str]]:
    """A property of every VM, and the host that it runs on now; empty when vCenter reports none."""
    hosts = {}
    for host, properties in collect_all(vcenter.content, vim.HostSystem, ["name"]):
        hosts[host] = str(properties["name"])
    for _, properties in collect_all(
        vcenter.content, vim.VirtualMachine, [known_by, "runtime.host"]
    ):
        yield (
            properties.get(known_by),
            (hosts.get(properties["runtime.host"], "") if "runtime.host" in properties else ""),
        )


def faults_of(
    places: Mapping[str, str],
    machines: Sequence[str],
    apart: Sequence[str],
    pinned: Mapping[str, str],
) -> list[str]:
    """What is wrong: machines that are gone, that share a host, or that left the host that they are
    to stay on.
    """
    faults = [
        f"{name}: its VM no longer exists in the vCenter" for name in machines if name not in places
    ]
    by_host: dict[str, list[str]] = {}
    for name in apart:
        if name in places:
            by_host.setdefault(places[name], []).append(name)
    for host, names in sorted(by_host.items()):
        if len(names) > 1:
            faults.append(
                f"{' and '.join(names)} run on the same host {host}, so the network between them "
                "is not measured; move one, pin them with machine.host, or set machine.apart: false"
            )
    for name, host in pinned.items():
        if name in places and places[name] != host:
            faults.append(
                f"{name} runs on {places[name]}, but machine.host is {host}; move it there, or "
                "correct machine.host"
            )
    return faults


def drs_refusal(vcenter: VCenter, cluster: str, machines: Sequence[str]) -> str:
    """Why nothing would keep these VMs apart; empty when DRS does.

    Raises:
        LabError: when the vCenter does not have this cluster.
    """
    kind, path = vim.ClusterComputeResource, "configurationEx"
    _, properties = named(vcenter.content, kind, cluster, paths=[path])
    config = properties[path].drsConfig
    together = ", ".join(machines)
    if not config.enabled:
        return (
            f"DRS is off in cluster {cluster}, so nothing keeps {together} apart; pin each to a "
            "host (machine.host), or turn DRS on"
        )
    # unset is the API's default, which is that
    if config.defaultVmBehavior not in (None, "fullyAutomated"):
        return (
            f"DRS is {config.defaultVmBehavior} in cluster {cluster}, so it does not separate "
            f"{together} by itself; make it fully automated, or pin each to a host (machine.host)"
        )
    return ""
