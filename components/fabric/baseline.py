"""The settings of an ESXi host before rocelab changed them, in the state before anything is set.

A resource of its own, so that a kill between looking and setting loses neither. The state contains the path of this
module, so it must not move.
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
        """Warns of values that were not restored: an interrupted run may have set them without recording it."""
        try:
            with self._vcenter() as vcenter:
                said = kept(vcenter, props)
        except LabError:
            return  # the host may be gone, and any other failure is reported by the settings
        if said:
            pulumi.log.warn(said)


class Baseline(Resource, module="fabric", name="Baseline"):
    """Option and ruleset of one ESXi host before rocelab changed them."""

    vmknic: pulumi.Output[str]
    """Value of `Net.PVRDMAVmknic`; empty by default."""
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
