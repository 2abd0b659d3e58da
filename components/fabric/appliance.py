"""The OVF properties of a Bitfusion server, rendered from the lab and checked against its OVA."""

import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from components.fabric.ovf import Descriptor, Property, read_descriptor
from stacks.base import LabError
from stacks.bitfusion import ADAPTER, Bitfusion, BitfusionServer
from stacks.fabric import Fabric
from stacks.machines import LINUX_64

CHUNK_BYTES = 1 << 20
LEAST_HARDWARE = 13
"""Virtual hardware that PVRDMA came with; vCenter refuses the adapter below it, when the OVA is up already."""


def properties_of(bitfusion: Bitfusion, server: BitfusionServer, fabric: Fabric) -> dict[str, str]:
    """The properties of a server, without the password."""
    keys, first = bitfusion.keys, bitfusion.servers[0]
    told = dict(bitfusion.properties)
    addresses = [server.address, *(adapter.address for adapter in server.adapters)]
    for number, address in enumerate(addresses, start=1):
        whole = str(address.ip) if keys.prefix_length else str(address)
        told[keys.address.replace(ADAPTER, str(number))] = whole
        if keys.prefix_length:
            told[keys.prefix_length.replace(ADAPTER, str(number))] = str(address.network.prefixlen)
    mtus = {switch.rail: switch.mtu_bytes for switch in fabric.switches}
    if keys.mtu:
        for number, adapter in enumerate(server.adapters, start=2):
            told[keys.mtu.replace(ADAPTER, str(number))] = str(mtus[adapter.rail])
    single = {
        keys.hostname: server.name,
        keys.gateway: str(server.gateway or ""),
        keys.dns: ",".join(map(str, bitfusion.dns_servers)),
    }
    if server is first:  # only the first enters its plug-in into the vCenter
        single |= {
            keys.vcenter: fabric.vcenter,
            keys.vcenter_user: fabric.user,
            keys.vcenter_thumbprint: fabric.thumbprint_sha256 or "",
        }
    else:
        single |= {keys.first_server: str(first.address.ip)}
    return told | {key: value for key, value in single.items() if key is not None and value}


def spelled_out(told: Mapping[str, str], descriptor: Descriptor) -> dict[str, str]:
    """The same as the provider reads it back: what has no value gets a blank from it, and defaults are left out.

    Anything else would come back as a difference at every run.
    """
    asked = [one for one in descriptor.properties.values() if one.configurable]
    blank = {one.key: " " for one in asked if not one.default}
    defaults = {one.key: one.default for one in asked if one.default}
    return blank | {key: value for key, value in told.items() if defaults.get(key) != value}


def faults_of(told: Mapping[str, str], password_key: str | None, descriptor: Descriptor) -> Iterator[str]:
    """Properties that the OVA would reject or miss; it would report them only in its guest, after power-on."""
    known = descriptor.properties
    given = {**told, **({password_key: "?"} if password_key else {})}
    for key, value in given.items():
        if key not in known:
            names = ", ".join(sorted(one.key for one in known.values() if one.configurable)) or "nothing"
            yield f"the OVA has no property {key}; it has {names}"
        elif not known[key].configurable:
            yield f"the OVA's {key} is fixed (userConfigurable is false); remove it"
        elif key != password_key and (wrong := _type_fault(known[key], value)):
            yield f"{key}: {value!r} is {wrong}"
    missing = sorted(one.key for one in known.values() if one.required and one.configurable and not given.get(one.key))
    if missing:
        yield f"the OVA requires {', '.join(missing)}; set it in bitfusion.keys or bitfusion.properties"
    if (version := descriptor.hardware_version) is not None and version < LEAST_HARDWARE:
        yield (
            f"the OVA has virtual hardware {version}, but PVRDMA needs {LEAST_HARDWARE} or newer; use a newer OVA, "
            "since rocelab cannot raise it"
        )
    if descriptor.guest_id and not LINUX_64.match(descriptor.guest_id):
        yield f"the OVA's guest is {descriptor.guest_id}, but PVRDMA has drivers only for 64-bit Linux; use another OVA"
    if len(descriptor.networks) > 1:
        yield (
            f"the OVA has {len(descriptor.networks)} networks ({', '.join(descriptor.networks)}), but declares "
            "no order of adapters; use an OVA with one network, to which rocelab adds the other adapters"
        )


def checked_descriptor(bitfusion: Bitfusion, root: Path) -> Descriptor:
    """The descriptor of the lab's OVA.

    Raises:
        LabError: when it cannot be read, or is another file than the lab names.
    """
    path = root / bitfusion.ova
    try:
        found = _sha256(path) if bitfusion.sha256 else None
    except OSError as error:
        raise LabError(f"bitfusion.ova: {bitfusion.ova} cannot be read ({error.strerror})") from None
    if found != bitfusion.sha256:
        raise LabError(
            f"bitfusion.ova: {bitfusion.ova} has sha256 {found}, but the lab file sets {bitfusion.sha256}; "
            "nothing was deployed. Get the right file, or correct bitfusion.sha256"
        )
    return read_descriptor(path)


def _type_fault(asked: Property, value: str) -> str:
    if asked.type == "ip" or asked.type.startswith("ip:"):
        try:
            IPv4Address(value)
        except ValueError:
            return "no IPv4 address"
    elif asked.type == "boolean" and value not in ("True", "False", "true", "false"):
        return "neither True nor False"
    elif asked.type.startswith(("uint", "sint")) and not value.lstrip("-").isdigit():
        return f"no number ({asked.type})"
    return ""


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
