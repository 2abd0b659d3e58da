"""The switch's forwarding rules. Pure, so that tests need no socket and no clock."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace

from simulator.switch.lldp import Heard, heard_in

AGEING_S = 300.0
"""Time without a frame after which a learned address is forgotten (IEEE 802.1Q default)."""
MOST_STATIONS = 16_384
LARGEST_MTU_BYTES = 9216
HEADER_BYTES = 14
TAG_BYTES = 4
_TPID = b"\x81\x00"


@dataclass(frozen=True)
class PortConfig:
    """Settings of a port and its cable."""

    native_vlan: int
    """VLAN of untagged frames; frames of it leave untagged."""
    tagged_vlans: frozenset[int] = frozenset()
    """VLANs whose frames pass with their tag, in both directions."""
    mtu_bytes: int = LARGEST_MTU_BYTES
    """Largest payload; a longer frame is dropped and counted, in both directions."""
    most_mtu_bytes: int = LARGEST_MTU_BYTES
    """Larger MTUs are accepted but silently reduced to this one: an injected fault, as with a port that is limited
    elsewhere."""
    plugged: bool = True
    """Whether the cable is plugged in."""
    loss_percent: float = 0.0
    """Percentage of frames that the cable loses in each direction."""
    delay_ms: float = 0.0
    """Delay of the cable in each direction."""

    def faults(self) -> list[str]:
        """Invalid values, each with its limit."""
        found = [
            f"VLAN {vlan}: 1 to 4094 are allowed"
            for vlan in sorted({self.native_vlan, *self.tagged_vlans})
            if not 1 <= vlan <= 4094
        ]
        if not 68 <= self.mtu_bytes <= LARGEST_MTU_BYTES:
            found.append(f"mtu {self.mtu_bytes}: 68 to {LARGEST_MTU_BYTES} bytes are allowed")
        if not 68 <= self.most_mtu_bytes <= LARGEST_MTU_BYTES:
            found.append(f"most mtu {self.most_mtu_bytes}: 68 to {LARGEST_MTU_BYTES} bytes are allowed")
        if not 0 <= self.loss_percent <= 100:
            found.append(f"loss {self.loss_percent}: 0 to 100 percent are allowed")
        if not 0 <= self.delay_ms <= 1000:
            found.append(f"delay {self.delay_ms}: 0 to 1000 ms are allowed")
        return found


@dataclass
class Counters:
    """Frames that passed or were dropped since start or reset. `in` is from the node."""

    in_frames: int = 0
    in_bytes: int = 0
    out_frames: int = 0
    out_bytes: int = 0
    dropped_unplugged: int = 0
    dropped_vlan: int = 0
    dropped_mtu: int = 0
    dropped_lost: int = 0
    dropped_full: int = 0
    """The node accepted no frames for so long that its queue was full."""

    def present(self) -> dict[str, int]:
        """The counters that are not zero."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(eq=False)
class Port:
    """One port: its NIC, its configuration, and the lab's configuration."""

    node: str
    nic: str
    home: PortConfig
    config: PortConfig = field(init=False)
    counters: Counters = field(default_factory=Counters)
    heard: Heard | None = None
    """The node's last LLDP announcement; forgotten when the cable is unplugged."""
    chance: Callable[[], float] = field(init=False)
    """The next random number below 1; seeded by the port's name, so that a run can be repeated."""

    def __post_init__(self) -> None:
        self.reset()

    @property
    def name(self) -> str:
        """Node and NIC, as in the name of the socket."""
        return f"{self.node}-{self.nic}"

    def reset(self) -> None:
        """Resets to the lab's configuration, with the cable plugged in and counters at zero."""
        self.config = self.home
        self.counters = Counters()
        self.heard = None
        self.chance = random.Random(self.name).random  # noqa: S311  # drops frames, makes no secrets

    def rehome(self, home: PortConfig) -> None:
        """Updates the port to a changed lab; fields that were set by hand stay."""
        self.config = replace(
            self.config,
            **{
                each.name: getattr(home, each.name)
                for each in fields(PortConfig)
                if getattr(self.config, each.name) == getattr(self.home, each.name)
            },
        )
        self.home = home

    def loses(self) -> bool:
        """Whether the cable loses this frame."""
        return self.config.loss_percent > 0 and self.chance() * 100 < self.config.loss_percent

    def fits(self, length: int, tagged: bool) -> bool:
        """Whether a frame of that length on the wire is within the port's MTU."""
        return length <= self.config.mtu_bytes + HEADER_BYTES + (TAG_BYTES if tagged else 0)


@dataclass(frozen=True)
class Delivery:
    """One frame that leaves through one port, after both cables' delays."""

    port: Port
    frame: bytes
    delay_s: float


class Forwarding:
    """A learning VLAN bridge."""

    def __init__(self) -> None:
        self.ports: dict[str, Port] = {}
        self._learned: dict[tuple[int, bytes], tuple[Port, float]] = {}

    def add(self, port: Port) -> None:
        """Adds a port."""
        self.ports[port.name] = port

    def forget(self, port: Port) -> None:
        """Forgets the addresses learned on a port, because its cable was unplugged or its VLANs changed."""
        self._learned = {key: entry for key, entry in self._learned.items() if entry[0] is not port}

    def learned(self, port: Port) -> list[tuple[int, str]]:
        """VLAN and address of the stations learned on a port."""
        return sorted((vlan, mac.hex(":")) for (vlan, mac), entry in self._learned.items() if entry[0] is port)

    def forward(self, ingress: Port, frame: bytes, now_s: float) -> list[Delivery]:
        """Where a received frame goes; drops are counted at the port that drops."""
        counters, config = ingress.counters, ingress.config
        tagged = frame[12:14] == _TPID
        if not config.plugged:
            counters.dropped_unplugged += 1
            return []
        if ingress.loses():
            counters.dropped_lost += 1
            return []
        if not ingress.fits(len(frame), tagged):
            counters.dropped_mtu += 1
            return []
        vlan = _vlan_of(frame, tagged, config)
        if vlan is None:
            counters.dropped_vlan += 1
            return []
        counters.in_frames += 1
        counters.in_bytes += len(frame)
        if heard := heard_in(frame):  # for the bridge itself; never forwarded (IEEE 802.1AB)
            ingress.heard = heard
            return []
        self._learn(vlan, frame[6:12], ingress, now_s)
        return list(self._deliver(ingress, frame, vlan, now_s))

    def _learn(self, vlan: int, mac: bytes, port: Port, now_s: float) -> None:
        key = (vlan, mac)
        if mac[0] & 1 or (key not in self._learned and len(self._learned) >= MOST_STATIONS):
            return  # group addresses are not learned; without room, frames are flooded
        self._learned[key] = (port, now_s)

    def _deliver(self, ingress: Port, frame: bytes, vlan: int, now_s: float) -> Iterator[Delivery]:
        for port in self._egress(ingress, frame, vlan, now_s):
            config = port.config
            out_tagged = vlan != config.native_vlan
            out = _with_tag(frame, vlan) if out_tagged else _without_tag(frame)
            if not config.plugged:
                port.counters.dropped_unplugged += 1
            elif not port.fits(len(out), out_tagged):
                port.counters.dropped_mtu += 1
            elif port.loses():
                port.counters.dropped_lost += 1
            else:
                yield Delivery(port, out, (ingress.config.delay_ms + config.delay_ms) / 1000)

    def _egress(self, ingress: Port, frame: bytes, vlan: int, now_s: float) -> Iterable[Port]:
        """The ports that a frame leaves through, never the one that received it."""
        entry = self._learned.get((vlan, frame[0:6]))
        if entry is not None and now_s - entry[1] <= AGEING_S:
            known = entry[0]
            return (known,) if known is not ingress and _carries(known, vlan) else ()
        return [port for port in self.ports.values() if port is not ingress and _carries(port, vlan)]


def _carries(port: Port, vlan: int) -> bool:
    return vlan == port.config.native_vlan or vlan in port.config.tagged_vlans


def _vlan_of(frame: bytes, tagged: bool, config: PortConfig) -> int | None:
    """The frame's VLAN; None if its port does not carry it, or if it is not an Ethernet frame."""
    if len(frame) < HEADER_BYTES + (TAG_BYTES if tagged else 0):
        return None
    if not tagged:
        return config.native_vlan
    vlan = int.from_bytes(frame[14:16], "big") & 0x0FFF
    if vlan == 0:  # a priority tag: no VLAN
        return config.native_vlan
    return vlan if vlan == config.native_vlan or vlan in config.tagged_vlans else None


def _with_tag(frame: bytes, vlan: int) -> bytes:
    """The frame tagged with that VLAN; an existing tag keeps its priority."""
    if frame[12:14] != _TPID:
        return frame[:12] + _TPID + vlan.to_bytes(2, "big") + frame[12:]
    if int.from_bytes(frame[14:16], "big") & 0x0FFF == vlan:
        return frame
    priority = int.from_bytes(frame[14:16], "big") & 0xF000
    return frame[:14] + (priority | vlan).to_bytes(2, "big") + frame[16:]


def _without_tag(frame: bytes) -> bytes:
    return frame[:12] + frame[16:] if frame[12:14] == _TPID else frame
