"""What the vSphere provider cannot do, by the vCenter API: NICs, advanced options and firewall rulesets of hosts.

A plain class with its own tests; the dynamic resources around it are thin. It reads narrow paths only: whole objects
hold values that the types of pyVmomi do not know.
"""

import hashlib
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim, vmodl

from components.fabric.nics import Nic
from stacks.base import LabError

CONNECT_S = 20
OPTION = "Net.PVRDMAVmknic"
"""Names the vmkernel adapter of PVRDMA, such as `vmk3`. The quotes that guides ask for belong to a dialog."""
RULESET = "pvrdma"
"""TCP 28250 to 28761, both directions; closed on a fresh host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the vCenter is, who logs in, and by what it is known."""

    address: str
    port: int
    user: str
    password: str = field(repr=False)
    ca_file: Path | None = None
    thumbprint_sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruleset:
    """A firewall ruleset of a host."""

    enabled: bool
    required: bool
    """The host insists on it: nobody can close it."""
    changeable: bool
    """False: vCenter 8.0.2 and newer says that users may not change it."""


class VCenter:
    """One session with a vCenter."""

    def __init__(self, instance: vim.ServiceInstance) -> None:
        self._content = instance.RetrieveContent()

    @property
    def instance_uuid(self) -> str:
        """Identity of the vCenter, the same under every address."""
        return str(self._content.about.instanceUuid)

    def host(self, name: str) -> vim.HostSystem:
        """An ESXi host by its inventory name.

        Raises:
            LabError: when there is none, or more than one.
        """
        found = self._hosts()
        named = [host for host in found if host.name == name]
        if len(named) != 1:
            known = ", ".join(sorted(str(host.name) for host in found)) or "none"
            raise LabError(f"the vCenter has {len(named)} hosts named {name}; it knows {known}")
        return named[0]

    def nics(self, host: vim.HostSystem) -> list[Nic]:
        """Its physical NICs."""
        network = _known(host, "config.network")
        rdma = {
            device.backing.pairedUplink: device.device
            for device in network.rdmaDevice or []
            if isinstance(device.backing, vim.host.RdmaDevice.PnicBacking)
        }
        used = {key: switch.name for switch in network.vswitch or [] for key in switch.pnic or []}
        used |= {key: switch.dvsName for switch in network.proxySwitch or [] for key in switch.pnic or []}
        return [
            Nic(
                name=nic.device,
                mac=nic.mac.lower(),
                driver=nic.driver or "",
                speed_mbit=nic.linkSpeed.speedMb if nic.linkSpeed else 0,
                rdma_device=rdma.get(nic.key, ""),
                switch=used.get(nic.key, ""),
            )
            for nic in network.pnic or []
        ]

    def vmkernel_names(self, host: vim.HostSystem) -> dict[str, str]:
        """Address of each vmkernel adapter by its name."""
        return {nic.device: nic.spec.ip.ipAddress or "" for nic in _known(host, "config.network").vnic or []}

    def management_vmkernels(self, host: vim.HostSystem) -> set[str]:
        """The adapters that carry management: by selection, or by the address at which vCenter reaches the host."""
        selected: set[str] = set()
        info = _known(host, "configManager.virtualNicManager.info")
        for config in info.netConfig or []:
            if config.nicType == "management":
                keys = set(config.selectedVnic or [])
                selected |= {nic.device for nic in config.candidateVnic or [] if nic.key in keys}
        return selected

    def option(self, host: vim.HostSystem, key: str) -> str:
        """Value of an advanced option.

        Raises:
            LabError: when the host does not know it.
        """
        try:
            found = _known(host, "configManager.advancedOption").QueryOptions(key)
        except vim.fault.InvalidName:
            raise LabError(f"{host.name}: this ESXi build has no option {key}") from None
        return next(str(option.value) for option in found if option.key == key)

    def set_option(self, host: vim.HostSystem, key: str, value: str) -> None:
        """Sets an advanced option and reads it back.

        Raises:
            LabError: when the host keeps another value.
        """
        changed = vim.option.OptionValue(key=key, value=value)
        with _explained(host, f"set {key} to {value!r}", "Host.Config.AdvancedConfig"):
            _known(host, "configManager.advancedOption").UpdateOptions([changed])
        if (found := self.option(host, key)) != value:
            raise LabError(f"{host.name}: {key} is {found!r} after it was set to {value!r}")

    def ruleset(self, host: vim.HostSystem, key: str) -> Ruleset:
        """A firewall ruleset.

        Raises:
            LabError: when the host has none of that name.
        """
        for ruleset in _known(host, "configManager.firewallSystem.firewallInfo.ruleset"):
            if ruleset.key == key:
                changeable = getattr(ruleset, "userControllable", None)
                return Ruleset(
                    enabled=ruleset.enabled, required=ruleset.required, changeable=changeable in (None, True)
                )
        raise LabError(f"{host.name}: its firewall has no ruleset {key}")

    def set_ruleset(self, host: vim.HostSystem, key: str, *, enabled: bool) -> None:
        """Opens or closes a ruleset; the addresses that it allows stay as they are.

        Raises:
            LabError: when the host does not let us.
        """
        found = self.ruleset(host, key)
        if found.enabled == enabled:
            return
        if found.required or not found.changeable:
            raise LabError(f"{host.name}: ruleset {key} is fixed by the host and is {_word(enabled=found.enabled)}")
        firewall = _known(host, "configManager.firewallSystem")
        with _explained(host, f"{'open' if enabled else 'close'} ruleset {key}", "Host.Config.NetService"):
            (firewall.EnableRuleset if enabled else firewall.DisableRuleset)(key)
        if self.ruleset(host, key).enabled != enabled:
            raise LabError(f"{host.name}: ruleset {key} stays {_word(enabled=not enabled)}")

    def running_pvrdma_vms(self, host: vim.HostSystem) -> list[str]:
        """Names of powered-on VMs with a PVRDMA adapter: changing their vmkernel adapter cuts their connections."""
        found = self._properties(_known(host, "vm"), "name", "runtime.powerState", "config.hardware.device")
        return sorted(
            str(machine["name"])
            for machine in found
            if machine.get("runtime.powerState") == "poweredOn"
            and any(
                isinstance(device, vim.vm.device.VirtualVmxnet3Vrdma) for device in machine["config.hardware.device"]
            )
        )

    def _properties(self, objects: Sequence[vim.ManagedEntity], *paths: str) -> list[dict[str, Any]]:
        """Single properties of many objects in one call: whole ones may hold what pyVmomi cannot read."""
        if not objects:
            return []
        filters = vmodl.query.PropertyCollector
        spec = filters.FilterSpec(
            objectSet=[filters.ObjectSpec(obj=one) for one in objects],
            propSet=[filters.PropertySpec(type=type(objects[0]), pathSet=list(paths))],
        )
        collected = _known(self._content, "propertyCollector").RetrieveContents([spec])
        return [{one.name: one.val for one in found.propSet} for found in collected]

    def _hosts(self) -> list[vim.HostSystem]:
        views = _known(self._content, "viewManager")
        view = views.CreateContainerView(self._content.rootFolder, [vim.HostSystem], True)
        try:
            return list(view.view)
        finally:
            view.Destroy()


@contextmanager
def session(endpoint: Endpoint) -> Iterator[VCenter]:
    """A session that is logged out at the end, whatever happens.

    Raises:
        LabError: when the vCenter does not answer, is not the one that it should be, or refuses the login.
    """
    where = f"vCenter {endpoint.address}:{endpoint.port}"
    try:
        context = _trust(endpoint)
        instance = SmartConnect(
            host=endpoint.address,
            port=endpoint.port,
            user=endpoint.user,
            pwd=endpoint.password,
            sslContext=context,
            httpConnectionTimeout=CONNECT_S,
        )
    except vim.fault.InvalidLogin:
        raise LabError(f"{where} refuses the login of {endpoint.user}: mend rocelab:vcenterPassword") from None
    except ssl.SSLCertVerificationError as error:
        raise LabError(f"{where}: {error.verify_message}; name its authority as fabric.ca_file") from None
    except (OSError, vmodl.MethodFault) as error:
        raise LabError(f"{where} does not answer: {_message(error)}") from None
    try:
        yield VCenter(instance)
    except vmodl.MethodFault as fault:
        raise LabError(f"{where}: {_message(fault)}") from None
    finally:
        Disconnect(instance)


def _known(owner: object, path: str) -> Any:  # what the API says there is optional throughout
    """A property by its path.

    Raises:
        LabError: when it is not set, as of a host that is not connected.
    """
    value = owner
    for step in path.split("."):
        value = getattr(value, step)
        if value is None:
            name = getattr(owner, "name", "the vCenter")
            raise LabError(f"{name} does not tell its {path}: is it connected, and may our user see it?")
    return value


def _trust(endpoint: Endpoint) -> ssl.SSLContext:
    if endpoint.thumbprint_sha256 is None:
        return ssl.create_default_context(cafile=endpoint.ca_file)
    address = (endpoint.address, endpoint.port)
    presented = ssl.get_server_certificate(address, timeout=CONNECT_S)
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(presented)).hexdigest()
    if found != endpoint.thumbprint_sha256:
        raise LabError(
            f"vCenter {endpoint.address}:{endpoint.port} has another certificate, sha256 {found}: nothing was sent"
        )
    # pinned: exactly this certificate may answer, whatever name it bears
    context = ssl.create_default_context(cadata=presented)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@contextmanager
def _explained(host: vim.HostSystem, what: str, privilege: str) -> Iterator[None]:
    try:
        yield
    except vim.fault.NoPermission:
        raise LabError(f"{host.name}: may not {what}: the role needs {privilege}") from None
    except (TimeoutError, vim.fault.HostConfigFault, vmodl.fault.InvalidArgument) as fault:
        raise LabError(f"{host.name}: cannot {what}: {_message(fault)}") from None


def _message(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error) or type(error).__name__


def _word(*, enabled: bool) -> str:
    return "open" if enabled else "closed"
