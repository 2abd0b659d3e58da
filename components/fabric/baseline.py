"""The settings of an ESXi host before rocelab changed them, in the state before anything is set.

A resource of its own, so that a kill between reading and setting loses neither.
"""

from typing import Annotated

from components.fabric import login
from components.fabric.vcenter.client import OPTION, RULESET, VCenter
from components.provider import log
from components.provider.base import REPLACES, Properties, Resource
from stacks.base import LabError


class BaselineInputs(Properties):
    host: Annotated[str, REPLACES]


class BaselineState(BaselineInputs):
    vcenter: str
    """Identity of the vCenter, the same under every address."""
    vmknic: str
    """Value of `Net.PVRDMAVmknic`; empty by default."""
    firewall_open: bool
    """Whether the ruleset pvrdma is open."""


class Baseline(Resource[BaselineInputs, BaselineState]):
    """Option and ruleset of one ESXi host before rocelab changed them, read once."""

    async def create(self, new: BaselineInputs) -> BaselineState:
        with login.configured_session(self.config) as vcenter:
            return look(vcenter, new.host)

    def identify(self, state: BaselineState) -> str:
        return f"{state.vcenter}/{state.host}"

    async def delete(self, old: BaselineState) -> None:
        """Warns of values that were not restored: an interrupted run may have set them without
        recording it.
        """
        try:
            with login.configured_session(self.config) as vcenter:
                now = look(vcenter, old.host)
        except LabError:
            return  # the host may be gone, and any other failure is reported by the settings
        if text := unrestored(old, now):
            log.warn(text)


def look(vcenter: VCenter, name: str) -> BaselineState:
    host = vcenter.host(name)
    return BaselineState(
        host=name,
        vcenter=vcenter.instance_uuid,
        vmknic=vcenter.option(host, OPTION),
        firewall_open=vcenter.ruleset(host, RULESET).enabled,
    )


def unrestored(before: BaselineState, now: BaselineState) -> str:
    """What the host has instead of the baseline; empty when nothing differs."""
    differences = []
    if now.vmknic != before.vmknic:
        differences.append(f"{OPTION} is {now.vmknic!r}, but was {before.vmknic!r}")
    if now.firewall_open != before.firewall_open:
        is_now, was = ("open", "closed") if now.firewall_open else ("closed", "open")
        differences.append(f"ruleset {RULESET} is {is_now}, but was {was}")
    if not differences:
        return ""
    return (
        f"{before.host}: {'; '.join(differences)} before this stack; rocelab leaves it. If an "
        "interrupted run of this stack set it, set it back by hand"
    )
