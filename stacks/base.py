"""The base of all sections, and the vocabulary of types with their units and ranges."""

from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Effect = Literal["none", "link", "pods", "reboot", "replace"]
"""What a change does to a running node: nothing, a link flap, pods lose their VFs, a reboot, a new
machine."""


T = TypeVar("T", int, str)
LocalPath = TypeVar("LocalPath", str, Path)
Addressed = TypeVar("Addressed", IPv4Address, IPv4Interface, IPv4Network)


class Section(BaseModel):
    """A part of the lab file: it refuses unknown keys and is frozen after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class LabError(Exception):
    """A lab that cannot be built as it is described; the text says what, where, why and how to fix
    it.
    """


class UnreachableError(LabError):
    """Something outside rocelab could not be read or reached, so its content is unknown."""


def repeated(values: Iterable[T]) -> list[T]:
    """The values that appear more than once, sorted."""
    return sorted(value for value, count in Counter(values).items() if count > 1)


def members(union: object, field: str) -> dict[str, type[BaseModel]]:
    """The models of a tagged union by their tag, which is the value of `field`."""
    if get_origin(union) is Annotated:
        union = get_args(union)[0]
    models = {}
    for model in get_args(union):
        for tag in get_args(model.model_fields[field].annotation):
            models[tag] = model
    return models


Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
"""A DNS label (RFC 1035), short enough that Kubernetes can append to it."""


def _not_loopback(interface: str) -> str:
    if interface == "lo":
        raise ValueError("the loopback interface, not a NIC; write the NIC's name from `ip link`")
    return interface


InterfaceName = Annotated[
    str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_.-]*$", max_length=15), AfterValidator(_not_loopback)
]
"""A network device as Linux names it: IFNAMSIZ leaves 15 characters."""

PciAddress = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$")]
"""Domain, bus, device and function, as sysfs and `lspci -D` write them: `0000:19:00.0`."""

ResourceName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9_]*[a-z0-9])?$", max_length=63)]
"""A device-plugin resource without its prefix. No hyphen: older SR-IOV operators refuse it."""

InventoryName = Annotated[str, Field(pattern=r"^[^/\\%\x00-\x1f]+$", max_length=80)]
"""A name in vCenter's inventory. Slash, backslash and percent are stored escaped there, so they are
refused."""


def _unicast(value: Addressed) -> Addressed:
    ends = (value[0], value[-1]) if isinstance(value, IPv4Network) else (value,)
    if not all(1 <= end.packed[0] <= 223 for end in ends):
        raise ValueError(
            "outside 1.0.0.0 to 223.255.255.255, the range for machines; choose another"
        )
    return value


HostAddress = Annotated[IPv4Address, AfterValidator(_unicast)]
"""An address that a machine can have: not 0.0.0.0, multicast or broadcast."""


def _with_prefix_length(value: object) -> object:
    if isinstance(value, str) and "/" not in value:
        raise ValueError(f"has no prefix length; write it as in {value}/24")
    return value


def _without_host_bits(value: object) -> object:
    if isinstance(value, str):
        try:
            network = IPv4Network(value, strict=False)
        except ValueError:
            return value  # refused by its type
        if str(network.network_address) != value.partition("/")[0]:
            raise ValueError(f"has host bits set; write {network}")
    return value


_WithPrefixLength = Annotated[
    Addressed,
    BeforeValidator(_with_prefix_length),
    AfterValidator(_unicast),
    Field(json_schema_extra={"pattern": "/"}),
]

Network = Annotated[_WithPrefixLength[IPv4Network], BeforeValidator(_without_host_bits)]
"""A subnet as `address/prefix length`: Python reads an address alone as a subnet of one address."""

InterfaceAddress = _WithPrefixLength[IPv4Interface]
"""An address with the prefix length of its subnet."""

VlanId = Annotated[int, Field(ge=1, le=4094)]
"""IEEE 802.1Q tag: 0 means untagged and 4095 is reserved."""

MtuBytes = Annotated[int, Field(ge=1500, le=9216)]
"""Ethernet MTU. 9216 is what Spectrum, Tomahawk and igb carry at most; RoCE wants at least 4200."""


def without_home_folder(path: LocalPath) -> LocalPath:
    """Refuses `~`, which only a shell expands."""
    if str(path).startswith("~"):
        raise ValueError("`~` is not expanded, and differs per user; use an absolute path")
    return path


LocalFile = Annotated[
    Path, AfterValidator(without_home_folder), Field(json_schema_extra={"pattern": "^[^~]"})
]
"""A file of this machine, absolute or relative to the checkout."""

Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[int, Field(ge=1, le=86_400)]
Ratio = Annotated[float, Field(gt=0, le=1)]
