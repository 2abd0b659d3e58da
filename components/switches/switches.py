"""The switches of a lab: their text as an output, and a resource for each with `apply`."""

from collections.abc import Mapping

import pulumi
from pydantic import JsonValue

from components.provider.program import Declaration
from components.switches.records import switch_record
from components.switches.settings import cables_of
from components.switches.switch_config import SwitchConfig
from components.switches.text import digest_of, switch_text
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.load import Credentials
from stacks.switches import Switch

Facts = Mapping[str, Mapping[str, object]]


@frozen
class SwitchesArgs:
    lab: Lab
    credentials: Credentials


class Switches(pulumi.ComponentResource):
    """All switches of a lab. Without `apply` a switch is text only, and nothing connects to it."""

    summary: pulumi.Output[Mapping[str, JsonValue]]
    """By switch: system, ports, whether it is applied, and the digest of the text that
    `rocelab switches` prints. The text itself would not fit into a small output."""

    def __init__(
        self, name: str, args: SwitchesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:switches:Switches", name, None, opts)
        # releasing the ports of a real lab takes a deliberate step: pulumi state unprotect
        child = pulumi.ResourceOptions(parent=self, protect=not args.lab.simulated)
        self._applied: dict[str, Declaration] = {}
        for switch in args.lab.switches:
            if not switch.apply:
                continue
            record = switch_record(args.lab, switch, args.credentials.switch_keys[switch.name])
            ports = {}
            for cable in cables_of(args.lab, switch):
                ports[cable.port] = cable.settings
            inputs = {"record": record, "ports": ports}
            self._applied[switch.name] = Declaration(
                SwitchConfig, f"{name}-{switch.name}", inputs, child
            )
        self.summary = pulumi.Output.all(
            **{switch.name: self._summary(args.lab, switch) for switch in args.lab.switches}
        )
        self.register_outputs({"summary": self.summary})

    def joined(self, facts: pulumi.Input[Facts]) -> pulumi.Output[Facts]:
        """Facts of the hosts and of the switches between them; known when the switches are
        configured.

        What is measured depends on both, so a change on a switch asks for a new measurement.
        """
        changes = {name: config.changes for name, config in self._applied.items()}
        return pulumi.Output.all(facts, changes).apply(
            lambda known: {
                **known[0],
                **{f"switch {name}": {"repairs": count} for name, count in known[1].items()},
            }
        )

    def _summary(self, lab: Lab, switch: Switch) -> pulumi.Output[Mapping[str, JsonValue]]:
        plain: dict[str, JsonValue] = {
            "os": switch.os,
            "ports": len(cables_of(lab, switch)),
            "applied": switch.apply,
            "simulated": lab.simulated,
            "text_sha256": digest_of(switch_text(lab, switch)),
        }
        config = self._applied.get(switch.name)
        if config is None:
            return pulumi.Output.from_input(plain)
        return pulumi.Output.all(config.backup, config.neighbours).apply(
            lambda known: {**plain, "backup": known[0], "cables": _heard(known[1])}
        )


def _heard(neighbours: Mapping[str, str]) -> str:
    """How many cables LLDP confirms; a wrong one fails before anything is changed."""
    heard = []
    for port, neighbour in neighbours.items():
        if neighbour:
            heard.append(port)
    return f"{len(heard)} of {len(neighbours)} by LLDP"
