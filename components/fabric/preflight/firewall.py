"""Which addresses PVRDMA's firewall ruleset of a host lets in. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from pyVmomi import vim

from components.fabric.preflight.facts import FabricFacts
from components.fabric.vcenter.client import RULESET
from stacks.fabric import DistributedSwitch, EsxiHost
from stacks.words import some


def allowed(rulesets: Iterable[vim.host.Ruleset]) -> tuple[str, ...] | None:
    """Addresses and networks of the ruleset's list; None: it has no list, and lets everybody in."""
    for ruleset in rulesets:
        listed = ruleset.allowedHosts
        if ruleset.key == RULESET and listed is not None and not listed.allIp:
            networks = (f"{one.network}/{one.prefixLength}" for one in listed.ipNetwork or ())
            return (*(listed.ipAddress or ()), *networks)
    return None


def blocked(switches: Sequence[DistributedSwitch], facts: FabricFacts) -> Iterator[str]:
    """Hosts whose list leaves out the vmkernel adapters of others: opened, the ruleset blocks them all the same."""
    for switch in switches:
        addresses = _vmkernels(switch.hosts, facts)
        for name in addresses:
            host = facts.hosts.get(name)
            if host is None or host.pvrdma_allows is None:
                continue
            out = [
                f"{peer} ({address})"
                for peer, address in addresses.items()
                if peer != name and not within(address, host.pvrdma_allows)
            ]
            if out:
                yield (
                    f"{name}: its firewall ruleset {RULESET} lets in {', '.join(host.pvrdma_allows) or 'nobody'}, and "
                    f"not {some(out, 3)}: PVRDMA between them fails. Add the network "
                    f"(esxcli network firewall ruleset allowedip add -r {RULESET} -i ...), or let in all addresses"
                )


def _vmkernels(hosts: Sequence[EsxiHost], facts: FabricFacts) -> Mapping[str, str]:
    """Address of PVRDMA's vmkernel adapter by host, where it is known before the run."""
    found: dict[str, str] = {}
    for host in hosts:
        if host.vmkernel is None:
            continue
        if host.vmkernel.address is not None:
            found[host.name] = str(host.vmkernel.address.ip)
        elif host.name in facts.hosts and (there := facts.hosts[host.name].vmkernels.get(host.vmkernel.existing or "")):
            found[host.name] = there.address
    return {name: address for name, address in found.items() if address}


def within(address: str, listed: Sequence[str]) -> bool:
    """Whether a list of addresses and networks has the address."""
    return any(ip_address(address) in ip_network(one, strict=False) for one in listed)
