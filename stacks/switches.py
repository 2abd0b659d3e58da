"""The switches that the rails run through: how each is reached, and which of its ports each PF is
cabled to.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Field

from stacks.base import HostAddress, InterfaceName, MtuBytes, Name, Port, Section, VlanId

MARKER = "rocelab:"
"""Begin of the description of every port that some lab owns."""
HEADER_BYTES = 22
"""Ethernet header, VLAN tag and checksum: what a switch may count that a NIC's MTU does not (14 + 4
+ 4)."""
DEFAULT_VLAN = 1
"""VLAN of untagged frames on an unconfigured port."""

HOST_KEYS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")
"""Host keys of switches that may be pinned, the best first: older systems have no ed25519, and sign
by rsa-sha2."""

OnyxPort = Annotated[str, Field(pattern=r"^\d{1,2}/\d{1,3}(/\d)?$")]
"""A port as Onyx numbers it: slot/port, and /lane of a split one."""
NvuePort = Annotated[str, Field(pattern=r"^swp\d{1,3}(s\d)?$")]
"""A port of Cumulus Linux, `s0` and up when it is split."""
SonicPort = Annotated[str, Field(pattern=r"^Ethernet\d{1,4}$")]
"""A port of SONiC, counted in lanes: Ethernet0, Ethernet4, …"""
EosPort = Annotated[str, Field(pattern=r"^Ethernet\d{1,3}(/\d{1,2}){0,2}$")]
"""A port of Arista EOS."""


class SwitchBase(Section):
    """What the switches of every OS have in common. Each model below adds its OS, its ports and its
    own settings.
    """

    SIMULATED: ClassVar[bool] = False
    """Whether the simulator's switch has this OS, so that a virtual lab may apply to it."""
    HAS_DEFAULT_VLAN: ClassVar[bool] = True
    """Whether untagged frames of an unconfigured port are in VLAN 1."""
    LOSSLESS_IS_GLOBAL: ClassVar[bool] = False
    """Whether a port pauses only priorities that a switch-wide command has made lossless."""
    PORT_WATCHDOG: ClassVar[Mapping[str, bool]] = {}
    """By `qos.mode`, whether the PFC watchdog of each port is on. In a mode that is not here, it
    stays as it is."""

    name: Name
    """Name of the switch, and of its text."""
    address: HostAddress
    """Management address, where SSH answers. It is never on a rail."""
    ssh_port: Port = 22
    user: str = Field(default="admin", pattern=r"^[a-z_][a-z0-9_-]*$", max_length=32)
    """Login name. It opens with the lab's key (`access.identity`): a switch's password is never
    asked for."""
    native_vlans: Mapping[Name, VlanId] = Field(default_factory=dict)
    """By rail, the VLAN of the hosts' untagged frames. Other rails use VLAN 1, as in the DeepOps
    RoCE guide."""
    apply: bool = False
    """Whether the text is sent to the switch. False: it is an output of the stack, to be applied by
    hand."""
    allow_global: bool = False
    """Whether commands that concern ports of others are part of it: switch-wide QoS. Never without
    being asked."""
    save: bool = True
    """Whether an applied and verified configuration is written so that it survives the switch's
    reboot. Cumulus Linux writes it by itself from 5.9 on: rocelab refuses `false` until the
    switch's auto save is off."""
    confirm_s: int = Field(default=300, ge=60, le=3600)
    """Time after which the switch itself takes an unconfirmed change back, where its system can do
    that."""

    def native_vlan(self, rail: str) -> int:
        """VLAN of the untagged frames of a rail's hosts."""
        return self.native_vlans.get(rail, DEFAULT_VLAN)


class OnyxSwitch(SwitchBase):
    """NVIDIA Spectrum with Onyx, as in the DeepOps RoCE guide."""

    SIMULATED = True
    LOSSLESS_IS_GLOBAL = True

    os: Literal["onyx"]
    mtu_bytes: MtuBytes = 9216
    """MTU of the mapped ports; 9216 is Spectrum's largest."""
    ports: Mapping[Name, Mapping[InterfaceName, OnyxPort]]
    """The cables: by node and PF interface, the switch port."""


class NvueSwitch(SwitchBase):
    """NVIDIA Spectrum with Cumulus Linux and NVUE."""

    PORT_WATCHDOG: ClassVar[Mapping[str, bool]] = {"lossless": True, "lossy": False}

    os: Literal["nvue"]
    mtu_bytes: MtuBytes = 9216
    """MTU of the mapped ports."""
    bridge: str = Field(default="br_default", pattern=r"^[a-z][a-z0-9_]*$", max_length=15)
    """Bridge that the ports are members of."""
    ports: Mapping[Name, Mapping[InterfaceName, NvuePort]]
    """The cables: by node and PF interface, the switch port."""


class SonicSwitch(SwitchBase):
    """Any switch with SONiC."""

    HAS_DEFAULT_VLAN = False
    PORT_WATCHDOG: ClassVar[Mapping[str, bool]] = {"lossless": True}

    os: Literal["sonic"]
    mtu_bytes: MtuBytes = 9216
    """MTU of the mapped ports; SONiC's own default is 9100."""
    ports: Mapping[Name, Mapping[InterfaceName, SonicPort]]
    """The cables: by node and PF interface, the switch port."""


class EosSwitch(SwitchBase):
    """Arista with EOS."""

    os: Literal["eos"]
    mtu_bytes: Annotated[int, Field(ge=1500, le=9214)] = 9214
    """MTU of the mapped ports; 9214 is the most that EOS takes."""
    queue_word: Literal["uc-tx-queue", "tx-queue"] = "uc-tx-queue"
    """What the platform calls a queue of a port: `tx-queue` on those with deep buffers (7280R,
    7500R, 7800R)."""
    ports: Mapping[Name, Mapping[InterfaceName, EosPort]]
    """The cables: by node and PF interface, the switch port."""


Switch = OnyxSwitch | NvueSwitch | SonicSwitch | EosSwitch
"""A switch by its OS: `components/switches/os/` has a file for each."""
Switches = tuple[Annotated[Switch, Field(discriminator="os")], ...]
"""All switches of a lab."""


def marker_of(lab: str, rail: str) -> str:
    """The description of a port that a lab owns; any other text is another owner's."""
    return MARKER + f"{lab}:{rail}"


def port_type(model: type[BaseModel]) -> Any:
    """What a port is called on the switches of a model."""
    _, by_interface = get_args(model.model_fields["ports"].annotation)
    return get_args(by_interface)[1]


def cables(switch: Switch) -> Iterator[tuple[str, str, str]]:
    """Node, PF interface and switch port of each cable, in the order of the file."""
    for node, ports in switch.ports.items():
        for interface, port in ports.items():
            yield node, interface, port
