"""The Bitfusion servers of a lab, deployed from an OVA with all adapters from the start."""

import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.ovf import Descriptor, Property, read_descriptor
from components.fabric.site import Site
from stacks.base import LabError
from stacks.bitfusion import ADAPTER, Bitfusion, BitfusionServer
from stacks.fabric import Fabric
from stacks.frozen import frozen
from stacks.machines import LINUX_64
from stacks.nodes import SEVERAL_PVRDMA

LEAST_HARDWARE = 13
"""First virtual hardware with PVRDMA. Below it vCenter refuses the adapter, after it has deployed
the OVA."""


def properties_of(bitfusion: Bitfusion, server: BitfusionServer, fabric: Fabric) -> dict[str, str]:
    """The properties of a server, without the password."""
    keys, first = bitfusion.keys, bitfusion.servers[0]
    declared = dict(bitfusion.properties)
    addresses = [server.address, *(adapter.address for adapter in server.adapters)]
    for number, address in enumerate(addresses, start=1):
        whole = str(address.ip) if keys.prefix_length else str(address)
        declared[keys.address.replace(ADAPTER, str(number))] = whole
        if keys.prefix_length:
            declared[keys.prefix_length.replace(ADAPTER, str(number))] = str(
                address.network.prefixlen
            )
    if keys.mtu:
        for number, adapter in enumerate(server.adapters, start=2):
            declared[keys.mtu.replace(ADAPTER, str(number))] = str(
                fabric.switch_by_rail[adapter.rail].mtu_bytes
            )
    single = {
        keys.hostname: server.name,
        keys.gateway: str(server.gateway or ""),
        keys.dns: ",".join(map(str, bitfusion.dns_servers)),
    }
    if server is first:  # only the first registers its plug-in in the vCenter
        single |= {
            keys.vcenter: fabric.vcenter,
            keys.vcenter_user: fabric.user,
            keys.vcenter_thumbprint: fabric.thumbprint_sha256 or "",
        }
    else:
        single |= {keys.first_server: str(first.address.ip)}
    return declared | {key: value for key, value in single.items() if key is not None and value}


def spelled_out(declared: Mapping[str, str], descriptor: Descriptor) -> dict[str, str]:
    """The properties as the provider reads them back: a blank for an empty value, and no defaults.

    Anything else would show as a difference at every run.
    """
    configurable = [entry for entry in descriptor.properties.values() if entry.configurable]
    blank = {entry.key: " " for entry in configurable if not entry.default}
    defaults = {entry.key: entry.default for entry in configurable if entry.default}
    return blank | {key: value for key, value in declared.items() if defaults.get(key) != value}


def faults_of(
    declared: Mapping[str, str], password_key: str | None, descriptor: Descriptor
) -> Iterator[str]:
    """Properties that the OVA rejects or misses; otherwise its guest would report them only after
    power-on.
    """
    given, known = dict(declared), descriptor.properties
    if password_key:
        given[password_key] = "?"
    for key, value in given.items():
        if key not in known:
            names = (
                ", ".join(sorted(entry.key for entry in known.values() if entry.configurable))
                or "nothing"
            )
            yield f"the OVA has no property {key}; it has {names}"
        elif not known[key].configurable:
            yield f"the OVA's {key} is fixed (userConfigurable is false); remove it"
        elif key != password_key and (wrong := _type_fault(known[key], value)):
            yield f"{key}: {value!r} is {wrong}"
    required = [entry for entry in known.values() if entry.required and entry.configurable]
    missing = sorted(entry.key for entry in required if not given.get(entry.key))
    if missing:
        yield (
            f"the OVA requires {', '.join(missing)}; set it in bitfusion.keys or "
            "bitfusion.properties"
        )
    yield from _machine_faults(descriptor)


def _machine_faults(descriptor: Descriptor) -> Iterator[str]:
    version = descriptor.hardware_version
    if version is not None and version < LEAST_HARDWARE:
        yield (
            f"the OVA has virtual hardware {version}, but PVRDMA needs {LEAST_HARDWARE} or newer; "
            "use a newer OVA, since rocelab cannot raise it"
        )
    if descriptor.guest_id and not LINUX_64.match(descriptor.guest_id):
        yield (
            f"the OVA's guest is {descriptor.guest_id}, but PVRDMA has drivers only for 64-bit "
            "Linux; use another OVA"
        )
    if len(descriptor.networks) > 1:
        yield (
            f"the OVA has {len(descriptor.networks)} networks ({', '.join(descriptor.networks)}), "
            "but declares no order of adapters; use an OVA with one network, to which rocelab "
            "adds the other adapters"
        )


def checked_descriptor(bitfusion: Bitfusion, root: Path) -> Descriptor:
    """The descriptor of the lab's OVA.

    Raises:
        LabError: when it cannot be read, or is another file than the lab names.
    """
    path = root / bitfusion.ova
    try:
        digest = _sha256(path) if bitfusion.sha256 else None
    except OSError as error:
        raise LabError(
            f"bitfusion.ova: {bitfusion.ova} cannot be read ({error.strerror})"
        ) from None
    if digest != bitfusion.sha256:
        raise LabError(
            f"bitfusion.ova: {bitfusion.ova} has sha256 {digest}, but the lab file sets "
            f"{bitfusion.sha256}; nothing was deployed. Get the right file, or correct "
            "bitfusion.sha256"
        )
    return read_descriptor(path)


def _type_fault(entry: Property, value: str) -> str:
    if entry.type == "ip" or entry.type.startswith("ip:"):
        try:
            IPv4Address(value)
        except ValueError:
            return "not an IPv4 address"
    elif entry.type == "boolean" and value not in ("True", "False", "true", "false"):
        return "neither True nor False"
    elif entry.type.startswith(("uint", "sint")) and not value.lstrip("-").isdigit():
        return f"not a number ({entry.type})"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


GUEST_NET_MINUTES = 15
"""How long a server's guest tools may take to report an address."""


@frozen
class AppliancesArgs:
    site: Site
    bitfusion: Bitfusion
    root: Path
    """The checkout; the OVA's path is relative to it."""
    password: pulumi.Input[str]


class Appliances(pulumi.ComponentResource):
    """All servers. The first registers itself in the vCenter, and the others wait for it."""

    def __init__(
        self, name: str, args: AppliancesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:fabric:Appliances", name, None, opts)
        self._name, self._args = name, args
        first, *others = args.bitfusion.servers
        declared = {}
        for server in (first, *others):
            declared[server.name] = properties_of(args.bitfusion, server, args.site.fabric)
        try:
            descriptor = checked_descriptor(args.bitfusion, args.root)
            self._refuse_what_the_ova_rejects(declared, descriptor)
        except LabError as error:
            raise pulumi.RunError(str(error)) from None
        made = self._server(first, declared[first.name], descriptor, [])
        for server in others:
            self._server(server, declared[server.name], descriptor, [made])
        self.register_outputs({})

    def _refuse_what_the_ova_rejects(
        self, declared: Mapping[str, Mapping[str, str]], descriptor: Descriptor
    ) -> None:
        bitfusion = self._args.bitfusion
        faults: dict[str, None] = {}  # in order, each once: most are the same for all servers
        for server in bitfusion.servers:
            faults |= dict.fromkeys(
                faults_of(declared[server.name], self._password_key(server), descriptor)
            )
        if faults:
            raise LabError(
                "\n".join([f"bitfusion.ova {bitfusion.ova}:", *(f"  {fault}" for fault in faults)])
            )

    def _password_key(self, server: BitfusionServer) -> str | None:
        if server is self._args.bitfusion.servers[0]:
            return self._args.bitfusion.keys.vcenter_password
        return None

    def _server(
        self,
        server: BitfusionServer,
        declared: Mapping[str, str],
        descriptor: Descriptor,
        after: list[pulumi.Resource],
    ) -> vsphere.VirtualMachine:
        args, site = self._args, self._args.site
        if len(server.adapters) > 1 and (descriptor.hardware_version or 0) < SEVERAL_PVRDMA:
            pulumi.log.warn(
                f"{server.name} has {len(server.adapters)} PVRDMA adapters: the Bitfusion article "
                "allows three, VMware's KB 328676 (written for 6.5) one per VM. rocelab cannot "
                "tell which holds for your version"
            )
        host, network = site.host(server.host), args.bitfusion.management_network
        key = self._password_key(server)
        properties = {**spelled_out(declared, descriptor), **({key: args.password} if key else {})}
        additional_secret_outputs = ["vapp"] if key else None
        return vsphere.VirtualMachine(
            f"{self._name}-{server.name}",
            name=server.name,
            annotation=f"made by rocelab for lab {site.lab.name}",
            datacenter_id=site.datacenter,
            resource_pool_id=host.resource_pool_id,
            host_system_id=host.id,
            datastore_id=site.datastore(server.datastore),
            num_cpus=server.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=server.memory_mbytes,
            memory_reservation=server.memory_mbytes,
            memory_reservation_locked_to_max=True,
            # the OVA has the first; the provider adds the others before it powers the VM on
            network_interfaces=site.adapters(
                network, [adapter.rail for adapter in server.adapters]
            ),
            ovf_deploy=vsphere.VirtualMachineOvfDeployArgs(
                local_ovf_path=str((args.root / args.bitfusion.ova).absolute()),
                disk_provisioning="thin",
                ovf_network_map=dict.fromkeys(descriptor.networks, site.network(network)),
            ),
            vapp=vsphere.VirtualMachineVappArgs(properties=properties),
            wait_for_guest_net_timeout=site.guest_net_minutes(GUEST_NET_MINUTES),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*site.set_up([server.host]), *after],
                protect=site.protect,
                # a moved or replaced file must not replace servers; GPUs that were passed through
                # by hand stay; and vCenter does not return a password
                ignore_changes=[
                    "ovfDeploy",
                    "pciDeviceIds",
                    *([f'vapp.properties["{key}"]'] if key else []),
                ],
                additional_secret_outputs=additional_secret_outputs,
            ),
        )
