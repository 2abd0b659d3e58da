"""Reads what NCCL says of itself (`NCCL_DEBUG=INFO`): transport, adapters, paths of its channels, settings.

Wordings of 2.4 to 2.30. Judges nothing: a line that is missing is None or empty here, never a good sign.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from components.validation.parsers import lines_of

Transport = Literal["ib", "socket"]

_SAID = re.compile(
    r"^(?:\[[0-9][0-9 :.,-]{8,30}\] )?(?P<host>[^\s:\[\]]{1,253}):[0-9]+:[0-9]+ \[(?P<gpu>[0-9]+)\] "
    r"(?:\S{1,200}:[0-9]+ (?:\([^)]{0,200}\) )?)?NCCL (?:INFO|WARN) (?P<text>.*)$"
)
_USING = re.compile(r"^NET/IB ?: Using (?P<list>.*)$")
_ADAPTER = re.compile(r"\[(?P<index>[0-9]{1,3})\](?P<device>[A-Za-z][\w.-]{0,63}):[0-9]{1,3}/\w{1,12}")
_VIRTUAL = re.compile(r"^NET/IB ?: Made virtual device \[(?P<index>[0-9]{1,3})\] name=(?P<names>\S{1,400}) ")
"""NCCL fuses the ports of one NIC (NCCL_IB_MERGE_NICS) and joins their names by `+`, from 2.24 in this
line of src/transport/net_ib. It is NET alone, so logs of many ranks lack it."""
_NETWORK = re.compile(r"^(?:Using network|Assigned NET plugin|Initialized NET plugin) (?P<name>\S+)")
_SOCKET = re.compile(r"^NET/Socket ?: Using \[0\]")
_CHANNEL = re.compile(
    r"^(?:Ring|Channel) (?P<channel>[0-9]{1,4})(?:/(?P<connection>[0-9]{1,4}))? : "
    r"(?P<source>[0-9]{1,7})\[[0-9a-fA-F]+\] -> (?P<target>[0-9]{1,7})\[[0-9a-fA-F]+\] "
    r"\[(?P<direction>send|receive)\] via NET/(?P<net>\w{1,30})/(?P<index>[0-9]{1,3})(?:\([0-9]+\))?(?P<rest>\S*)\s*$"
)
_SET = re.compile(r"^(?P<name>NCCL_[A-Z0-9_]{1,40}) set (?:by environment )?to (?P<value>\S{1,400}?)\.?$")
_VERSION = re.compile(r"\bNCCL version (?P<version>[0-9]+\.[0-9]+\.[0-9]+\S{0,30})")
_DRIVER = re.compile(r"^cudaDriverVersion (?P<version>[0-9]{4,6})\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """One end of a connection over the network, from rank `source` to rank `target`."""

    number: int
    connection: int
    source: int
    target: int
    direction: Literal["send", "receive"]
    host: str
    """The host of this end; in a cluster a pod's name."""
    net: str
    """`IB`, `Socket` or a plugin's name."""
    device: str | None
    """`mlx5_0+mlx5_1` for fused ports; None when the log does not name the adapter, as for sockets."""
    gpu_direct: bool

    @property
    def connects(self) -> tuple[int, int, int, int]:
        """The key that both ends share."""
        return self.number, self.connection, self.source, self.target


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclNetwork:
    """The network that NCCL reports to use."""

    transport: Transport | None
    """`socket` as soon as anything runs over it; None if the log does not say."""
    channels: tuple[Channel, ...] = ()
    wanted_adapters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Devices by host that `NCCL_IB_HCA` allows, in its order; ports cut off."""
    algorithm: str | None = None
    """What `NCCL_ALGO` pins, such as `Ring`."""
    pinned_net: str | None = None
    """What `NCCL_NET` pins: with `IB` NCCL fails instead of using sockets."""
    version: str | None = None
    cuda_driver: str | None = None
    """Such as 13.0."""

    @property
    def gpu_direct(self) -> Literal["all", "some", "none"] | None:
        """How many of the RDMA channels reach GPU memory by themselves; None without such channels."""
        said = {channel.gpu_direct for channel in self.channels if channel.net == "IB"}
        if not said:
            return None
        return "some" if len(said) == 2 else "all" if said == {True} else "none"

    @property
    def used_devices(self) -> dict[str, tuple[str, ...]]:
        """Devices that channels run over, by host."""
        found: dict[str, list[str]] = {}
        for channel in self.channels:
            if channel.device and channel.device not in found.setdefault(channel.host, []):
                found[channel.host].append(channel.device)
        return {host: tuple(sorted(devices)) for host, devices in found.items()}


def parse_nccl_log(text: str) -> NcclNetwork:
    """Reads NCCL's own lines out of a log; other lines are ignored, and everything may be missing."""
    lines = lines_of(text)
    said = [match for each in lines if "NCCL" in each.text and (match := _SAID.match(each.text))]
    adapters: dict[str, dict[int, str]] = {}
    wanted: dict[str, tuple[str, ...]] = {}
    settings: dict[str, str] = {}
    names: set[str] = set()
    sockets: set[str] = set()
    for match in said:
        line = match["text"]
        if using := _USING.match(line):
            for adapter in _ADAPTER.finditer(using["list"]):
                adapters.setdefault(match["host"], {})[int(adapter["index"])] = adapter["device"]
        elif virtual := _VIRTUAL.match(line):
            adapters.setdefault(match["host"], {})[int(virtual["index"])] = virtual["names"]
        elif network := _NETWORK.match(line):
            names.add(network["name"])
        elif _SOCKET.match(line):
            sockets.add(match["host"])
        elif setting := _SET.match(line):
            settings[setting["name"]] = setting["value"]
            if setting["name"] == "NCCL_IB_HCA":
                wanted[match["host"]] = _devices(setting["value"])
    channels = tuple(channel for match in said if (channel := _channel(match, adapters)))
    names |= {channel.net for channel in channels}
    if sockets - adapters.keys():
        # NCCL up to 2.4 names them also where it goes on to use RDMA
        names.add("Socket")
    everything = "\n".join(each.text for each in lines if "NCCL version" in each.text)
    version = _VERSION.search(everything)
    driver = next((m["version"] for match in said if (m := _DRIVER.match(match["text"]))), None)
    return NcclNetwork(
        transport=_transport(names, adapters),
        channels=channels,
        wanted_adapters=wanted,
        algorithm=settings.get("NCCL_ALGO"),
        pinned_net=settings.get("NCCL_NET"),
        version=version["version"] if version else None,
        cuda_driver=f"{int(driver) // 1000}.{int(driver) % 1000 // 10}" if driver else None,
    )


def rails_by_order(network: NcclNetwork) -> dict[tuple[str, str], int]:
    """Rail of each adapter of each host, as its place in `NCCL_IB_HCA`: ranks of this program list them by rail."""
    return {
        (host, device): place
        for host, devices in network.wanted_adapters.items()
        for place, device in enumerate(devices)
    }


def rail_faults(network: NcclNetwork, rail_of: Mapping[tuple[str, str], int | str]) -> list[str]:
    """Channels that leave the rails, or cross from one to another: both carry data, and slowly.

    Args:
        network: as NCCL reports it.
        rail_of: rail of each adapter, by host and device. A host that is not in it is unknown, and accused of nothing.
    """
    faults: list[str] = []
    known = {host for host, _ in rail_of}
    ends: dict[tuple[int, int, int, int], dict[str, Channel]] = {}
    for channel in network.channels:
        if channel.device is None or channel.host not in known:
            continue
        ends.setdefault(channel.connects, {})[channel.direction] = channel
        off = [port for port in channel.device.split("+") if (channel.host, port) not in rail_of]
        faults += [f"{channel.host}: rank {_rank(channel)} uses {port}, which is on no rail" for port in off]
    for both in ends.values():
        if len(both) < 2:
            continue
        send, receive = both["send"], both["receive"]
        from_rails, to_rails = _rails(send, rail_of), _rails(receive, rail_of)
        if from_rails and to_rails and from_rails != to_rails:
            faults.append(
                f"rank {send.source} sends over {send.device} of {send.host} (rail {from_rails}) and rank "
                f"{send.target} receives over {receive.device} of {receive.host} (rail {to_rails})"
            )
    return list(dict.fromkeys(faults))


def _rails(end: Channel, rail_of: Mapping[tuple[str, str], int | str]) -> str:
    """The rails of an end, in the order of its fused ports: NCCL connects first with first."""
    rails = [rail_of.get((end.host, device)) for device in (end.device or "").split("+")]
    return "" if None in rails else "+".join(map(str, rails))


def unnamed_adapters(network: NcclNetwork) -> list[str]:
    """Hosts with a list of adapters whose channels use one that the log does not name."""
    hosts: list[str] = []
    for channel in network.channels:
        unnamed = channel.net == "IB" and not channel.device
        if unnamed and channel.host in network.wanted_adapters and channel.host not in hosts:
            hosts.append(channel.host)
    return hosts


def _rank(channel: Channel) -> int:
    return channel.source if channel.direction == "send" else channel.target


def _transport(names: set[str], adapters: Mapping[str, Mapping[int, str]]) -> Transport | None:
    """A plugin of another name runs over what adapters it found; sockets anywhere are a fallback."""
    if "Socket" in names:
        return "socket"
    return "ib" if "IB" in names or adapters else None


def _channel(said: re.Match[str], adapters: Mapping[str, Mapping[int, str]]) -> Channel | None:
    """A channel; an adapter is named by its number among those of its host."""
    match = _CHANNEL.match(said["text"])
    if match is None:
        return None
    return Channel(
        number=int(match["channel"]),
        connection=int(match["connection"] or 0),
        source=int(match["source"]),
        target=int(match["target"]),
        direction="send" if match["direction"] == "send" else "receive",
        host=said["host"],
        net=match["net"],
        device=adapters.get(said["host"], {}).get(int(match["index"])) if match["net"] != "Socket" else None,
        gpu_direct="/GDRDMA" in match["rest"],
    )


def _devices(value: str) -> tuple[str, ...]:
    """The devices in `=mlx5_0:1,mlx5_1:1`; an exclusion list, with `^`, names none."""
    if value.startswith("^"):
        return ()
    return tuple(word.lstrip("=").partition(":")[0] for word in value.split(",") if word)
