"""The switch's control protocol: one JSON object per line in each direction, over `.sim/switch/control.sock`."""

import json
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import cast

from simulator.switch.ports import Forwarding, Port, PortConfig

Answer = dict[str, object]


class CommandError(Exception):
    """A command that cannot be executed; its sender receives the text."""


class Commands:
    """Executes the verbs `show`, `ensure`, `set` and `reset`."""

    def __init__(
        self, forwarding: Forwarding, plug_in: Callable[[Port], None], drop_queue: Callable[[Port], None]
    ) -> None:
        self._forwarding = forwarding
        self._plug_in = plug_in
        self._drop_queue = drop_queue

    def answer(self, line: bytes) -> bytes:
        """The answer to one line, which may be an error."""
        try:
            request = json.loads(line)
            verb = request.pop("verb")
            act = {"show": self._show, "ensure": self._ensure, "set": self._set, "reset": self._reset}[verb]
            answer = act(request)
        except CommandError as error:
            answer = {"error": str(error)}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            answer = {"error": f"not a command: {type(error).__name__} {error}"}
        return json.dumps(answer).encode()

    def _show(self, _: Answer) -> Answer:
        return {"ports": [self._describe(port) for port in self._forwarding.ports.values()]}

    def _ensure(self, request: Answer) -> Answer:
        """Adds new ports, and updates known ports to a changed lab."""
        added = []
        for entry in cast("list[Answer]", request["ports"]):
            home = config_of(cast("Answer", entry["home"]))
            port = self._forwarding.ports.get(f"{entry['node']}-{entry['nic']}")
            if port is None:
                port = Port(str(entry["node"]), str(entry["nic"]), home)
                self._plug_in(port)
                added.append(port.name)
            elif port.home != home:
                port.rehome(home)
                self._forwarding.forget(port)
        return {"added": added}

    def _set(self, request: Answer) -> Answer:
        port = self._port(request)
        config = replace(port.config, **config_changes(cast("Answer", request["change"])))  # type: ignore[arg-type]
        if faults := config.faults():
            raise CommandError(f"{port.node} {port.nic}: " + "; ".join(faults))
        port.config = replace(config, mtu_bytes=min(config.mtu_bytes, config.most_mtu_bytes))
        self._forwarding.forget(port)
        if not config.plugged:
            port.heard = None
            self._drop_queue(port)
        return {"ports": [self._describe(port)]}

    def _reset(self, _: Answer) -> Answer:
        for port in self._forwarding.ports.values():
            port.reset()
            self._forwarding.forget(port)
        return {}

    def _port(self, request: Answer) -> Port:
        ports = self._forwarding.ports
        name = f"{request['node']}-{request['nic']}"
        if name not in ports:
            known = ", ".join(f"{port.node} {port.nic}" for port in ports.values()) or "none"
            raise CommandError(f"no port for {request['node']} {request['nic']}; existing ports: {known}")
        return ports[name]

    def _describe(self, port: Port) -> Answer:
        return {
            "node": port.node,
            "nic": port.nic,
            "config": config_as_json(port.config),
            "changed": port.config != port.home,
            "counters": port.counters.present(),
            "lldp": asdict(port.heard) if port.heard else None,
            "stations": [f"{mac} vlan {vlan}" for vlan, mac in self._forwarding.learned(port)],
        }


def config_as_json(config: PortConfig) -> Answer:
    """A configuration as JSON."""
    return {**asdict(config), "tagged_vlans": sorted(config.tagged_vlans)}


def config_changes(values: Answer) -> Answer:
    """The fields of a configuration in a command, with their types.

    Raises:
        CommandError: for an unknown field.
    """
    if unknown := sorted(set(values) - {field.name for field in fields(PortConfig)}):
        raise CommandError(f"unknown: {', '.join(unknown)}")
    changes = dict(values)
    if "tagged_vlans" in changes:
        changes["tagged_vlans"] = frozenset(cast("list[int]", changes["tagged_vlans"]))
    return changes


def config_of(values: Answer) -> PortConfig:
    """A configuration from JSON."""
    config = PortConfig(**config_changes(values))  # type: ignore[arg-type]  # checked by faults
    if faults := config.faults():
        raise CommandError("; ".join(faults))
    return config
