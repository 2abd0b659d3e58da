"""Reads the log of a pod of the rail check, and the annotation that Multus wrote on it. Judges
nothing.
"""

import json
import re
from ipaddress import IPv4Address, IPv6Address

from pydantic import BaseModel, ConfigDict, ValidationError

MARK = "rocelab "
REPORTED, DONE = "reported", "done"


class AttachedNetwork(BaseModel):
    """One entry of `network-status` (Network Plumbing Working Group's specification)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = ""
    interface: str = ""
    ips: tuple[str, ...] = ()

    @property
    def address(self) -> IPv4Address | None:
        """Its IPv4 address."""
        for text in self.ips:
            try:
                return IPv4Address(text.partition("/")[0])
            except ValueError:
                continue
        return None


def networks_of(annotation: str) -> tuple[AttachedNetwork, ...]:
    """The entries of the annotation; none where it is missing or unreadable."""
    try:
        entries = json.loads(annotation or "[]")
        return (
            tuple(AttachedNetwork.model_validate(entry) for entry in entries)
            if isinstance(entries, list)
            else ()
        )
    except (ValueError, ValidationError):
        return ()


class Device(BaseModel):
    """An RDMA device with a RoCE v2 address on the interface."""

    model_config = ConfigDict(frozen=True)

    name: str
    slot: str
    """The function that it belongs to."""
    addresses: tuple[IPv6Address, ...] = ()
    usable: bool = False

    def has(self, address: IPv4Address) -> bool:
        """Whether queue pairs can use the address."""
        return any(gid.ipv4_mapped == address for gid in self.addresses)


class PodRailFacts(BaseModel):
    """One rail in a pod."""

    model_config = ConfigDict(frozen=True)

    interface: str = ""
    mtu_bytes: int = 0
    slot: str = ""
    devices: tuple[Device, ...] = ()
    link_local: IPv6Address | None = None


class PodFacts(BaseModel):
    """All that a pod printed."""

    model_config = ConfigDict(frozen=True)

    rails: dict[str, PodRailFacts] = {}
    given: dict[str, tuple[str, ...]] = {}
    """PCI addresses by resource, from the device plugin's variables."""
    rdma_cm: bool = False
    ping: bool = True
    reported: bool = False
    done: bool = False
    reached: dict[tuple[str, str], str] = {}
    """large, small or none by rail and peer."""
    touched: dict[tuple[str, str, str], bool] = {}
    """Whether the peer's interface answered on a rail: rail, peer, the peer's rail."""


def variable_of(resource: str) -> str:
    """How the SR-IOV device plugin calls a resource in a pod's environment (README.md of
    v3.11.0).
    """
    return re.sub(r"[./]", "_", resource).upper()


def parse_pod(log: str) -> PodFacts:
    """Reads the log as far as it goes."""
    printed: dict[str, list[list[str]]] = {}
    for line in log.splitlines():
        if line.startswith(MARK):
            kind, *words = line.removeprefix(MARK).split()
            printed.setdefault(kind, []).append(words)
    rails = {rail: PodRailFacts() for rail, _ in _of(printed, "no-interface", 2)}
    slots = dict(_of(printed, "slot", 2))
    links = dict(_of(printed, "link", 2))
    for rail, name, mtu in _of(printed, "interface", 3):
        mtu_bytes = int(mtu) if mtu.isdecimal() else 0
        link_local = _link(links[rail]) if rail in links else None
        rails[rail] = PodRailFacts(
            interface=name,
            mtu_bytes=mtu_bytes,
            slot=slots.get(rail, ""),
            devices=_devices(printed, rail),
            link_local=link_local,
        )
    touched = {}
    for rail, peer, other, answer in _of(printed, "apart", 4):
        touched[rail, peer, other] = answer != "none"
    return PodFacts(
        rails=rails,
        given={name: tuple(text.split(",")) for name, text in _of(printed, "given", 2)},
        rdma_cm="rdma_cm" in printed,
        ping="no-ping" not in printed,
        reported=REPORTED in printed,
        done=DONE in printed,
        reached={(rail, peer): answer for rail, peer, _, answer in _of(printed, "reach", 4)},
        touched=touched,
    )


def _of(printed: dict[str, list[list[str]]], kind: str, count: int) -> list[list[str]]:
    """The lines of a kind that are whole."""
    return [words for words in printed.get(kind, []) if len(words) == count]


def _devices(printed: dict[str, list[list[str]]], rail: str) -> tuple[Device, ...]:
    usable = {name for of, name in _of(printed, "verbs", 2) if of == rail}
    gids_of: dict[tuple[str, str], list[IPv6Address]] = {}
    for of, name, slot, gid in _of(printed, "gid", 4):
        if of == rail:
            gids_of.setdefault((name, slot), []).append(IPv6Address(gid))
    devices = []
    for (name, slot), gids in gids_of.items():
        device = Device(name=name, slot=slot, addresses=tuple(gids), usable=name in usable)
        devices.append(device)
    return tuple(devices)


def _link(text: str) -> IPv6Address:
    """An address of /proc/net/if_inet6: 32 digits without colons."""
    return IPv6Address(int(text, 16))
