"""The networks and properties that the descriptor of an OVA or OVF file declares."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from stacks.base import LabError
from stacks.files import opened_tar
from stacks.frozen import frozen

OVF = "{http://schemas.dmtf.org/ovf/envelope/1}"
VSSD = "{http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData}"
VMW = "{http://www.vmware.com/schema/ovf}"
MOST_BYTES = 4_000_000
"""Largest descriptor; real ones are text of some kilobytes."""


@frozen
class Property:
    key: str
    type: str
    """OVF type: string, boolean, uint16, ip and so on."""
    default: str
    configurable: bool
    required: bool
    """Its qualifiers need more characters than its default has."""
    label: str


@frozen
class Descriptor:
    """What can be known before a deployment."""

    networks: tuple[str, ...]
    """Names that the deployment maps to networks of the vCenter."""
    properties: dict[str, Property]
    hardware_version: int | None = None
    """The newest vSphere virtual hardware that it names."""
    guest_id: str = ""
    """vSphere's name of the guest system; empty: none is declared."""


def read_descriptor(path: Path) -> Descriptor:
    """Reads the descriptor of an .ova or .ovf file.

    Raises:
        LabError: when there is no valid OVF.
    """
    try:
        if path.suffix == ".ova":
            text = _from_ova(path)
        else:
            text = path.read_bytes()[: MOST_BYTES + 1]
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > MOST_BYTES:
        raise LabError(f"{path}: its descriptor exceeds {MOST_BYTES} bytes; not a valid OVF")
    return parse_descriptor(text, str(path))


def parse_descriptor(text: bytes, name: str) -> Descriptor:
    """The descriptor of that text.

    Raises:
        LabError: when it is not an OVF 1.x envelope.
    """
    if b"<!ENTITY" in text:
        raise LabError(f"{name}: its descriptor defines XML entities; not a valid OVF")
    try:
        root = ET.fromstring(text)  # noqa: S314  # without entities there is nothing to blow up
    except (
        ET.ParseError,
        LookupError,
        ValueError,
    ) as error:  # the last two: an encoding that expat does not know
        raise LabError(f"{name}: its descriptor is not XML: {error}") from None
    if root.tag != f"{OVF}Envelope":
        raise LabError(f"{name}: its descriptor is {root.tag}, not an OVF 1.x envelope")
    networks = [element.get(f"{OVF}name", "") for element in root.iter(f"{OVF}Network")]
    properties = [_property(element) for element in root.iter(f"{OVF}Property")]
    types = " ".join(
        element.text or "" for element in root.iter(f"{VSSD}VirtualSystemType")
    )  # several, with blanks between
    system = root.find(f".//{OVF}OperatingSystemSection")
    guest_id = ""
    if system is not None:
        guest_id = system.get(f"{VMW}osType", "")
    return Descriptor(
        networks=tuple(networks),
        properties={element.key: element for element in properties},
        hardware_version=max(map(int, re.findall(r"\bvmx-(\d+)\b", types)), default=None),
        guest_id=guest_id,
    )


def _from_ova(path: Path) -> bytes:
    with opened_tar(path, f"{path} is not a tar archive, so not a valid OVA") as archive:
        for member in archive:
            if (
                member.name.endswith(".ovf")
                and (content := archive.extractfile(member)) is not None
            ):
                return content.read(MOST_BYTES + 1)
    raise LabError(f"{path} contains no .ovf file; not a valid OVA")


def _property(node: ET.Element) -> Property:
    default = node.get(f"{OVF}value", "")
    label = node.findtext(f"{OVF}Label") or ""
    least = re.search(r"MinLen\((\d+)\)", node.get(f"{OVF}qualifiers", ""))
    return Property(
        key=node.get(f"{OVF}key", ""),
        type=node.get(f"{OVF}type", "string"),
        default=default,
        configurable=node.get(f"{OVF}userConfigurable", "false").lower() == "true",
        required=least is not None and int(least[1]) > len(default),
        label=label,
    )
