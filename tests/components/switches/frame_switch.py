"""A frame switch in memory, as `simulator.switch.panel.Frames`."""

from dataclasses import replace

from simulator.switch.client import PortState
from simulator.switch.ports import PortConfig


class FrameSwitch:
    """Four ports with factory settings; `stuck` ports never take an MTU."""

    def __init__(self) -> None:
        plain = PortConfig(native_vlan=1, mtu_bytes=1500)
        self.configs = {(node, nic): plain for node in ("gpu01", "gpu02") for nic in ("enp5s0", "enp132s0")}
        self.stuck: set[tuple[str, str]] = set()
        self.lldp: dict[tuple[str, str], dict[str, str]] = {}

    def show(self) -> list[PortState]:
        return [
            PortState(node, nic, config, False, {}, (), self.lldp.get((node, nic)))
            for (node, nic), config in self.configs.items()
        ]

    def set(self, node: str, nic: str, **change: object) -> PortState:
        if "tagged_vlans" in change:
            change["tagged_vlans"] = frozenset(change["tagged_vlans"])
        if (node, nic) in self.stuck:
            change.pop("mtu_bytes", None)
        self.configs[node, nic] = replace(self.configs[node, nic], **change)
        return self.show()[0]
