"""What an ESXi host had before us, written into the state before anything of ours is set.

A resource of its own, so that a kill between looking and setting loses neither. The path of this module stands in the
state of every stack with a fabric: it never moves.
"""

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

from components.fabric import login
from components.fabric.vcenter import OPTION, RULESET, VCenter
from components.ssh.configured import Configured

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
