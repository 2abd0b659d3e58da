"""Reads what NCCL says of itself (`NCCL_DEBUG=INFO`): transport, adapters, paths of its channels,
settings.

Wordings of 2.4 to 2.30. Judges nothing: a line that is missing is None or empty here, never a good
sign.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from components.validation.parsers import lines_of
from stacks.frozen import frozen

Transport = Literal["ib", "socket"]

_SAID = re.compile(
    r"^(?:\[[0-9][0-9 :.,-]{8,30}\] )?(?P<host>[^\s:\[\]]{1,253}):[0-9]+:[0-9]+ "
    r"\[(?P<gpu>[0-9]+)\] "
    r"(?:\S{1,200}:[0-9]+ (?:\([^)]{0,200}\) )?)?NCCL (?:INFO|WARN) (?P<text>.*)$"
)
_USING = re.compile(r"^NET/IB ?: Using (?P<list>.*)$")
_ADAPTER = re.compile(
    r"\[(?P<index>[0-9]{1,3})\](?P<device>[A-Za-z][\w.-]{0,63}):[0-9]{1,3}/\w{1,12}"
)
_VIRTUAL = re.compile(
    r"^NET/IB ?: Made virtual device \[(?P<index>[0-9]{1,3})\] name=(?P<names>\S{1,400}) "
)
"""NCCL fuses the ports of one NIC (NCCL_IB_MERGE_NICS) and joins their names by `+`, from 2.24 in
this line of src/transport/net_ib. It is NET alone, so logs of many ranks lack it."""
_NETWORK = re.compile(
    r"^(?:Using network|Assigned NET plugin|Initialized NET plugin) (?P<name>\S+)"
)
_SOCKET = re.compile(r"^NET/Socket ?: Using \[0\]")
_CHANNEL = re.compile(
    r"^(?:Ring|Channel) (?P<channel>[0-9]{1,4})(?:/(?P<connection>[0-9]{1,4}))? : "
    r"(?P<source>[0-9]{1,7})\[[0-9a-fA-F]+\] -> (?P<target>[0-9]{1,7})\[[0-9a-fA-F]+\] "
    r"\[(?P<direction>send|receive)\] via "
    r"NET/(?P<net>\w{1,30})/(?P<index>[0-9]{1,3})(?:\([0-9]+\))?(?P<rest>\S*)"
    r"(?: comm 0x[0-9a-f]{1,16} nRanks [0-9]{1,7})?\s*$"
)
"""RCCL adds communicator and ranks."""
_VERBS = re.compile(r"IB(?:ext(?:_v[0-9]{1,3})?)?")
"""NCCL's own transport over verbs, and that of NVIDIA's plugin in HPC-X and the NGC images."""
_SET = re.compile(
    r"^(?P<name>NCCL_[A-Z0-9_]{1,40}) set (?:by environment )?to (?P<value>\S{1,400}?)\.?$"
)
_VERSION = re.compile(r"\bNCCL version (?P<version>[0-9]+\.[0-9]+\.[0-9]+\S{0,30})")
_DRIVER = re.compile(r"^cudaDriverVersion (?P<version>[0-9]{4,6})\s*$")


@frozen
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
    """`mlx5_0+mlx5_1` for fused ports; None when the log does not name the adapter, as for
    sockets."""
    gpu_direct: bool

    @property
    def over_verbs(self) -> bool:
        """Whether it runs over RDMA adapters."""
        return _VERBS.fullmatch(self.net) is not None

    @property
    def connects(self) -> tuple[int, int, int, int]:
        """The key that both ends share."""
        return self.number, self.connection, self.source, self.target


@frozen
class NcclNetwork:
    """The network that NCCL reports to use."""

    transport: Transport | None
    """`socket` as soon as anything runs over it; None if the log does not say."""
    channels: tuple[Channel, ...] = ()
    wanted_adapters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Devices by host that `NCCL_IB_HCA` allows, in its order; ports cut off."""
    algorithm: str | None = None
    pinned_net: str | None = None
    """What `NCCL_NET` pins: with `IB` NCCL fails instead of using sockets."""
    version: str | None = None
    cuda_driver: str | None = None

    @property
    def gpu_direct(self) -> Literal["all", "some", "none"] | None:
        """How many of the RDMA channels reach GPU memory by themselves; None without such
        channels.
        """
        paths = set()
        for channel in self.channels:
            if channel.over_verbs:
                paths.add(channel.gpu_direct)
        if not paths:
            return None
        if len(paths) == 2:
            return "some"
        return "all" if paths == {True} else "none"

    @property
    def used_devices(self) -> dict[str, tuple[str, ...]]:
        """Devices that channels run over, by host."""
        used: dict[str, list[str]] = {}
        for channel in self.channels:
            if channel.device and channel.device not in used.setdefault(channel.host, []):
                used[channel.host].append(channel.device)
        return {host: tuple(sorted(devices)) for host, devices in used.items()}


@dataclass(slots=True)
class _Reported:
    """What the ranks said so far, by host."""

    adapters: dict[str, dict[int, str]] = field(default_factory=dict)
    allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    networks: set[str] = field(default_factory=set)
    sockets: set[str] = field(default_factory=set)
    cuda_driver: str | None = None

    def take(self, host: str, line: str) -> None:
        adapters = self.adapters.setdefault(host, {})
        if using := _USING.match(line):
            for adapter in _ADAPTER.finditer(using["list"]):
                adapters[int(adapter["index"])] = adapter["device"]
        elif virtual := _VIRTUAL.match(line):
            adapters[int(virtual["index"])] = virtual["names"]
        elif network := _NETWORK.match(line):
            self.networks.add(network["name"])
        elif _SOCKET.match(line):
            self.sockets.add(host)
        elif driver := _DRIVER.match(line):
            number = int(driver["version"])
            self.cuda_driver = self.cuda_driver or f"{number // 1000}.{number % 1000 // 10}"
        elif setting := _SET.match(line):
            self._set(host, setting["name"], setting["value"])

    def _set(self, host: str, name: str, value: str) -> None:
        self.settings[name] = value
        if name == "NCCL_IB_HCA":
            self.allowed[host] = _devices(value)


def parse_nccl_log(text: str) -> NcclNetwork:
    """Reads NCCL's own lines out of a log; other lines are ignored, and everything may be
    missing.
    """
    reported, printed, version = _Reported(), [], None
    for line in lines_of(text):
        match = _SAID.match(line.text) if "NCCL" in line.text else None
        if match:
            printed.append(match)
            reported.take(match["host"], match["text"])
        if "NCCL version" in line.text:
            version = version or _VERSION.search(line.text)
    channels = [_channel(match, reported.adapters) for match in printed]
    known = tuple(channel for channel in channels if channel)
    with_adapters = set()
    for host, adapters in reported.adapters.items():
        if adapters:
            with_adapters.add(host)
    networks = reported.networks | {channel.net for channel in known}
    if reported.sockets - with_adapters:
        # NCCL up to 2.4 names them also where it goes on to use RDMA
        networks.add("Socket")
    return NcclNetwork(
        transport=_transport(networks, with_adapters),
        channels=known,
        wanted_adapters=reported.allowed,
        algorithm=reported.settings.get("NCCL_ALGO"),
        pinned_net=reported.settings.get("NCCL_NET"),
        version=version and version["version"],
        cuda_driver=reported.cuda_driver,
    )


def rails_by_order(network: NcclNetwork) -> dict[tuple[str, str], int]:
    """Rail of each adapter, as its place in `NCCL_IB_HCA`: rocelab's ranks list them by rail."""
    places = {}
    for host, devices in network.wanted_adapters.items():
        for place, device in enumerate(devices):
            places[host, device] = place
    return places


def rail_faults(network: NcclNetwork, rail_of: Mapping[tuple[str, str], int | str]) -> list[str]:
    """Channels that leave the rails, or cross from one to another: both carry data, and slowly.

    Args:
        network: as NCCL reports it.
        rail_of: rail of each adapter, by host and device. A host that is not in it is unknown, and
            accused of nothing.
    """
    faults: list[str] = []
    known = {host for host, _ in rail_of}
    ends: dict[tuple[int, int, int, int], dict[str, Channel]] = {}
    for channel in network.channels:
        if channel.device is None or channel.host not in known:
            continue
        ends.setdefault(channel.connects, {})[channel.direction] = channel
        off = [port for port in channel.device.split("+") if (channel.host, port) not in rail_of]
        who = f"{channel.host}: rank {_rank(channel)}"
        faults += [f"{who} uses {port}, which is on no rail" for port in off]
    for both in ends.values():
        if len(both) < 2:
            continue
        send, receive = both["send"], both["receive"]
        from_rails, to_rails = _rails(send, rail_of), _rails(receive, rail_of)
        if from_rails and to_rails and from_rails != to_rails:
            faults.append(
                f"rank {send.source} sends over {send.device} of {send.host} (rail {from_rails}) "
                f"and rank {send.target} receives over {receive.device} of {receive.host} "
                f"(rail {to_rails})"
            )
    return list(dict.fromkeys(faults))


def _rails(end: Channel, rail_of: Mapping[tuple[str, str], int | str]) -> str:
    """The rails of an end, in the order of its fused ports: NCCL connects first with first."""
    rails = []
    for device in (end.device or "").split("+"):
        rails.append(rail_of.get((end.host, device)))
    return "" if None in rails else "+".join(map(str, rails))


def unnamed_adapters(network: NcclNetwork) -> list[str]:
    """Hosts with a list of adapters whose channels use one that the log does not name."""
    hosts: list[str] = []
    for channel in network.channels:
        unnamed = channel.over_verbs and not channel.device
        if unnamed and channel.host in network.wanted_adapters and channel.host not in hosts:
            hosts.append(channel.host)
    return hosts


def _rank(channel: Channel) -> int:
    if channel.direction == "send":
        return channel.source
    return channel.target


def _transport(names: set[str], adapters: set[str]) -> Transport | None:
    """A plugin of another name runs over what adapters it found; sockets anywhere are a
    fallback.
    """
    if "Socket" in names:
        return "socket"
    return "ib" if "IB" in names or adapters else None


def _channel(printed: re.Match[str], adapters: Mapping[str, Mapping[int, str]]) -> Channel | None:
    """A channel; an adapter is named by its number among those of its host."""
    match = _CHANNEL.match(printed["text"])
    if match is None:
        return None
    direction: Literal["send", "receive"] = "receive"
    if match["direction"] == "send":
        direction = "send"
    device = None
    if match["net"] != "Socket":
        device = adapters.get(printed["host"], {}).get(int(match["index"]))
    return Channel(
        number=int(match["channel"]),
        connection=int(match["connection"] or 0),
        source=int(match["source"]),
        target=int(match["target"]),
        direction=direction,
        host=printed["host"],
        net=match["net"],
        device=device,
        gpu_direct="/GDRDMA" in match["rest"],
    )


def _devices(value: str) -> tuple[str, ...]:
    """The devices in `=mlx5_0:1,mlx5_1:1`; an exclusion list, with `^`, names none."""
    if value.startswith("^"):
        return ()
    return tuple(word.lstrip("=").partition(":")[0] for word in value.split(",") if word)
