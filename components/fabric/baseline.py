"""What an ESXi host had before us, written into the state before anything of ours is set.

A resource of its own, so that a kill between looking and setting loses neither. The path of this module stands in the
state of every stack with a fabric: it never moves.
"""

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from components.fabric.login import VCenterProvider
from components.fabric.props import Props
from components.fabric.vcenter.client import OPTION, RULESET, VCenter
from stacks.base import LabError


class BaselineProvider(VCenterProvider):
    """Reads the host once, and keeps those values."""

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Only another host makes another baseline."""
        replaces = ["host"] if _olds.get("host") != _news.get("host") else []
        return DiffResult(changes=bool(replaces), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        with self._vcenter() as vcenter:
            return CreateResult(
                f"{vcenter.instance_uuid}/{props['host']}", {**props, **look(vcenter, str(props["host"]))}
            )

    def delete(self, _id: str, props: Props) -> None:
        """Tells what was not given back. That is the settings' own work; a killed run may have set them unrecorded."""
        try:
            with self._vcenter() as vcenter:
                said = kept(vcenter, props)
        except LabError:
            return  # a host that has left is nobody's to put right, and whatever else fails here fails for the settings
        if said:
            pulumi.log.warn(said)


class Baseline(Resource, module="fabric", name="Baseline"):
    """Option and ruleset of one ESXi host before rocelab changed them."""

    vmknic: pulumi.Output[str]
    """Value of `Net.PVRDMAVmknic`; empty on a host that was never asked."""
    firewall_open: pulumi.Output[bool]

    def __init__(self, name: str, host: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(BaselineProvider(), name, {"host": host, "vmknic": None, "firewall_open": None}, opts)


def look(vcenter: VCenter, name: str) -> Props:
    host = vcenter.host(name)
    return {"vmknic": vcenter.option(host, OPTION), "firewall_open": vcenter.ruleset(host, RULESET).enabled}


def kept(vcenter: VCenter, props: Props) -> str:
    """What the host has instead of the baseline; empty when nothing differs."""
    name, now = str(props["host"]), look(vcenter, str(props["host"]))
    differ = [
        text
        for key, text in (
            ("vmknic", f"{OPTION} is {now['vmknic']!r}, but was {props.get('vmknic')!r}"),
            ("firewall_open", f"ruleset {RULESET} is {_open(now)}, but was {_open(props)}"),
        )
        if now[key] != props.get(key)
    ]
    if not differ:
        return ""
    return (
        f"{name}: {'; '.join(differ)} before this stack. rocelab leaves it as it is: another user may have set "
        "it since. If an interrupted run of this stack set it, set it back by hand"
    )


def _open(props: Props) -> str:
    return "open" if props.get("firewall_open") else "closed"
