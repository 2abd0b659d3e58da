"""A session with a vCenter: NICs, advanced options and firewall rulesets of hosts, which the
vSphere provider lacks.

It reads narrow property paths only: whole objects contain values that pyVmomi's types do not know.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.vcenter.nics import (
    Nic,
    RdmaDevices,
    needs_esxcli,
    nics_of,
    rdma_by_esxcli,
    rdma_in,
)
from components.fabric.vcenter.properties import Found, collect, collect_all, known
from components.fabric.vcenter.refusals import doing
from components.fabric.vcenter.session import VcenterEndpoint, connected
from stacks.base import LabError
from stacks.frozen import frozen

Say = Callable[[str], None]

POLL_S = 1.0
LOG_AFTER_S = 10.0
"""Most tasks end sooner. Each next line comes after twice the time: ten minutes give six lines."""


def until(done: Callable[[], bool], bound_s: float, say: Say, waiting: str) -> bool:
    """Calls `done` every second until it holds; False after `bound_s`. `say` gets lines that begin
    with `waiting`.
    """
    began, log_after_s = time.monotonic(), LOG_AFTER_S
    while not done():
        passed_s = time.monotonic() - began
        if passed_s >= bound_s:
            return False
        if passed_s >= log_after_s:
            say(f"{waiting}: not done after {passed_s:.0f} s; {bound_s:.0f} s at most")
            log_after_s *= 2
        time.sleep(POLL_S)
    return True


OPTION = "Net.PVRDMAVmknic"
"""The vmkernel adapter of PVRDMA, such as `vmk3`. Guides quote it only because of a dialog."""
RULESET = "pvrdma"
"""TCP 28250 to 28761, both directions; closed on a fresh host."""


@frozen
class Ruleset:
    """A firewall ruleset of an ESXi host."""

    enabled: bool
    locked: bool
    """The host requires it, or users may not change it, as vCenter 8.0.2 and newer reports."""


PVRDMA = vim.vm.device.VirtualVmxnet3Vrdma


class VCenter:
    def __init__(self, instance: vim.ServiceInstance, say: Say = lambda _: None) -> None:
        self.say = say
        """Gets a line when the vCenter takes long."""
        self.content = instance.RetrieveContent()
        self._by_name: dict[str, list[vim.HostSystem]] | None = None
        self._rdma: dict[vim.HostSystem, RdmaDevices] = {}

    @property
    def instance_uuid(self) -> str:
        """Identity of the vCenter, the same under every address."""
        return str(self.content.about.instanceUuid)

    def host(self, name: str) -> vim.HostSystem:
        """An ESXi host by its inventory name.

        Raises:
            LabError: when there is none, or more than one.
        """
        known_hosts = self._hosts()
        named = known_hosts.get(name, [])
        if len(named) != 1:
            others = ", ".join(sorted(known_hosts)) or "none"
            raise LabError(f"the vCenter has {len(named)} hosts named {name}; it has {others}")
        return named[0]

    def nics(self, host: vim.HostSystem) -> list[Nic]:
        """Its physical NICs.

        Raises:
            LabError: when the host does not report them.
        """
        properties = collect(self.content, [host], ["name", "config.product", "config.network"])[0]
        name, network, product = (
            str(properties.get("name", host)),
            properties.get("config.network"),
            properties.get("config.product"),
        )
        if network is None:
            raise LabError(
                f"{name} does not report its NICs; check that it is connected and that fabric.user "
                "may see it"
            )
        version = product.version if product else ""
        return nics_of(network, self.rdma(host, name, version, network))

    def rdma(
        self, host: vim.HostSystem, name: str, version: str, network: vim.host.NetworkInfo
    ) -> RdmaDevices:
        """Its RDMA devices; runs esxcli once per session. Threads may call it, each for another
        host.
        """
        if not needs_esxcli(version, network):
            return rdma_in(network)
        if host not in self._rdma:
            self._rdma[host] = rdma_by_esxcli(host, name)
        return self._rdma[host]

    def uplinks(self, host: vim.HostSystem, switch: str) -> tuple[str, ...]:
        """The NICs of a host on the distributed switch of that name; none if it is no member."""
        members: list[Any] = []
        kind, paths = vim.DistributedVirtualSwitch, ["name", "config.host"]
        for _, row in collect_all(self.content, kind, paths):
            if row["name"] == switch:
                members += row.get("config.host") or []
        specs = []
        for entity in members:
            if entity.config.host == host:
                specs.append(entity.config.backing)
        return tuple(
            nic.pnicDevice for backing in specs for nic in getattr(backing, "pnicSpec", None) or []
        )

    def vmkernel_names(self, host: vim.HostSystem) -> dict[str, str]:
        """Address of each vmkernel adapter by its name."""
        addresses = {}
        for nic in known(host, "config.network").vnic or []:
            addresses[nic.device] = nic.spec.ip.ipAddress or ""
        return addresses

    def management_vmkernels(self, host: vim.HostSystem) -> set[str]:
        """The adapters that carry management: selected for it, or with the host's name in vCenter
        as address.
        """
        name = str(host.name)
        selected = set()
        for device, address in self.vmkernel_names(host).items():
            if address == name:
                selected.add(device)
        info = known(host, "configManager.virtualNicManager.info")
        for config in info.netConfig or []:
            if config.nicType == "management":
                keys = set(config.selectedVnic or [])
                for nic in config.candidateVnic or []:
                    if nic.key in keys:
                        selected.add(nic.device)
        return selected

    def option(self, host: vim.HostSystem, key: str) -> str:
        """Value of an advanced option.

        Raises:
            LabError: when the host does not have it.
        """
        try:
            options = known(host, "configManager.advancedOption").QueryOptions(key)
        except vim.fault.InvalidName:
            raise LabError(f"{host.name}: this ESXi build has no option {key}") from None
        return next(str(option.value) for option in options if option.key == key)

    def set_option(self, host: vim.HostSystem, key: str, value: str) -> None:
        """Sets an advanced option and reads it back.

        Raises:
            LabError: when the host has another value afterwards.
        """
        changed = vim.option.OptionValue(key=key, value=value)
        with doing(host.name, f"set {key} to {value!r}"):
            known(host, "configManager.advancedOption").UpdateOptions([changed])
        if (current := self.option(host, key)) != value:
            raise LabError(f"{host.name}: {key} is {current!r} after it was set to {value!r}")

    def ruleset(self, host: vim.HostSystem, key: str) -> Ruleset:
        """A firewall ruleset.

        Raises:
            LabError: when the host has none of that name.
        """
        for ruleset in known(host, "configManager.firewallSystem.firewallInfo.ruleset"):
            if ruleset.key == key:
                controllable = getattr(ruleset, "userControllable", None)
                locked = ruleset.required or controllable is False
                return Ruleset(enabled=ruleset.enabled, locked=locked)
        raise LabError(f"{host.name}: its firewall has no ruleset {key}")

    def set_ruleset(self, host: vim.HostSystem, key: str, *, enabled: bool) -> None:
        """Opens or closes a ruleset; the addresses that it allows stay as they are.

        Raises:
            LabError: when the host does not permit it.
        """
        is_open = self.ruleset(host, key)
        if is_open.enabled == enabled:
            return
        if is_open.locked:
            raise LabError(
                f"{host.name}: the host locks ruleset {key}, which is "
                f"{_word(enabled=is_open.enabled)}"
            )
        firewall = known(host, "configManager.firewallSystem")
        with doing(host.name, f"{'open' if enabled else 'close'} ruleset {key}"):
            (firewall.EnableRuleset if enabled else firewall.DisableRuleset)(key)
        if self.ruleset(host, key).enabled != enabled:
            raise LabError(f"{host.name}: ruleset {key} stays {_word(enabled=not enabled)}")

    def running_pvrdma_vms(self, host: vim.HostSystem) -> list[str]:
        """Names of running VMs with a PVRDMA adapter: changing their vmkernel adapter cuts their
        connections.
        """
        paths = ("name", "runtime.host", "runtime.powerState", "config.hardware.device")
        names = []
        for machine in self._still_there(known(host, "vm"), paths):
            # the host's own list may be outdated
            if machine.get("runtime.host") != host:
                continue
            devices = machine.get("config.hardware.device", ())
            pvrdma = any(isinstance(device, PVRDMA) for device in devices)
            if pvrdma and machine.get("runtime.powerState") == "poweredOn":
                names.append(str(machine["name"]))
        return sorted(names)

    def _still_there(
        self, machines: Sequence[vim.VirtualMachine], paths: Sequence[str]
    ) -> list[Found]:
        """Properties of VMs, without those that are deleted meanwhile, for instance by this run."""
        rest = list(machines)
        while True:
            try:
                return collect(self.content, rest, paths)
            except vmodl.fault.ManagedObjectNotFound as gone:
                if gone.obj not in rest:
                    raise
                rest = [entity for entity in rest if entity != gone.obj]

    def _hosts(self) -> dict[str, list[vim.HostSystem]]:
        """All hosts by name, read in one call."""
        if self._by_name is None:
            self._by_name = {}
            for host, properties in collect_all(self.content, vim.HostSystem, ["name"]):
                self._by_name.setdefault(str(properties["name"]), []).append(host)
        return self._by_name


@contextmanager
def session(endpoint: VcenterEndpoint, say: Say = lambda _: None) -> Iterator[VCenter]:
    """A session that is logged out at the end, whatever happens.

    Raises:
        LabError: when the vCenter does not answer, is another one, or refuses the login.
    """
    with connected(endpoint) as instance:
        yield VCenter(instance, say)


def _word(*, enabled: bool) -> str:
    return "open" if enabled else "closed"
