"""What an ESXi host had before us, written into the state before anything of ours is set.

A resource of its own, so that a kill between looking and setting loses neither. The path of this module stands in the
state of every stack with a fabric: it never moves.
"""

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

from components.fabric import login
from components.fabric.vcenter.client import OPTION, RULESET, VCenter
from components.ssh.configured import Configured
from stacks.base import LabError

Props = dict[str, object]


class BaselineProvider(Configured, ResourceProvider):
    """Looks once; what it saw stays as it was seen."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another host is another baseline; time changes nothing."""
        replaces = ["host"] if _olds.get("host") != _news.get("host") else []
        return DiffResult(changes=bool(replaces), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        """Looks at the host."""
        with login.configured_session(self._setting) as vcenter:
            return CreateResult(
                f"{vcenter.instance_uuid}/{props['host']}", {**props, **look(vcenter, str(props["host"]))}
            )

    def delete(self, _id: str, props: Props) -> None:
        """Tells what was not given back. That is the settings' own work; a killed run may have set them unrecorded."""
        try:
            with login.configured_session(self._setting) as vcenter:
                said = kept(vcenter, props)
        except LabError:
            return  # a host that has left is nobody's to put right, and whatever else fails here fails for the settings
        if said:
            pulumi.log.warn(said)


class Baseline(Resource, module="fabric", name="Baseline"):
    """Option and ruleset of one host as they were found."""

    vmknic: pulumi.Output[str]
    """Value of `Net.PVRDMAVmknic`; empty on a host that was never asked."""
    firewall_open: pulumi.Output[bool]

    def __init__(self, name: str, host: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(BaselineProvider(), name, {"host": host, "vmknic": None, "firewall_open": None}, opts)


def look(vcenter: VCenter, name: str) -> Props:
    """What the host has now."""
    host = vcenter.host(name)
    return {"vmknic": vcenter.option(host, OPTION), "firewall_open": vcenter.ruleset(host, RULESET).enabled}


def kept(vcenter: VCenter, props: Props) -> str:
    """What the host has instead of what was found; empty when it is the same."""
    name, now = str(props["host"]), look(vcenter, str(props["host"]))
    differ = [
        text
        for key, text in (
            ("vmknic", f"{OPTION} is {now['vmknic']!r}, and was {props.get('vmknic')!r}"),
            ("firewall_open", f"ruleset {RULESET} is {_open(now)}, and was {_open(props)}"),
        )
        if now[key] != props.get(key)
    ]
    if not differ:
        return ""
    return (
        f"{name}: {'; '.join(differ)} before this stack. Left alone: somebody else has set it since, or a run of "
        "ours that was killed before it could write that down. In the latter case set it back by hand"
    )


def _open(props: Props) -> str:
    return "open" if props.get("firewall_open") else "closed"
