"""PVRDMA's two settings of an ESXi host: the vmkernel adapter that it uses, and its firewall
ruleset.
"""

from typing import Annotated

from components.fabric import login
from components.fabric.vcenter.client import OPTION, RULESET, VCenter
from components.provider import log
from components.provider.base import REPLACES, Failure, Properties, Resource, changed
from stacks.base import LabError


class SettingsInputs(Properties):
    host: Annotated[str, REPLACES]
    vmknic: str
    """The vmkernel adapter that PVRDMA uses, such as `vmk3`; ESXi chooses the number of a new
    adapter."""
    firewall_open: bool
    """Whether rocelab opens the ruleset pvrdma."""
    vmknic_before: str
    """The baseline: what a destroy restores."""
    firewall_open_before: bool
    allow_management: bool
    """Accepts an adapter that also carries management."""


class HostSettings(Resource[SettingsInputs, SettingsInputs]):
    """Both settings of one ESXi host; delete restores them."""

    async def check(self, old: SettingsInputs | None, new: SettingsInputs) -> list[Failure]:
        """Refuses, already in a preview, what would harm running VMs."""
        known = "vmknic" not in new.unknown  # it is until the adapter exists
        if not known and old is not None:
            return []
        failures = []
        with login.configured_session(self.config) as vcenter:
            if reason := refusal(vcenter, new):
                failures.append(Failure("vmknic", reason))
            if reason := shut(vcenter, new):
                failures.append(Failure("firewall_open", reason))
            if known and (text := warning(vcenter, new)):
                log.warn(text)
        return failures

    async def diff(self, old: SettingsInputs, new: SettingsInputs) -> list[str]:
        """The baseline is no setting, and permissions change nothing on the host."""
        names = [name for name in changed(old, new) if name in {"host", "vmknic", "firewall_open"}]
        for name in names:
            if name != "host" and name not in new.unknown:
                log.info(
                    f"{new.host}: {name} {getattr(old, name)!r} => {getattr(new, name)!r}: no "
                    "disruption"
                )
        return names

    async def create(self, new: SettingsInputs) -> SettingsInputs:
        with login.configured_session(self.config) as vcenter:
            put(vcenter, new)
        return new

    def identify(self, state: SettingsInputs) -> str:
        return state.host

    async def read(self, old: SettingsInputs) -> SettingsInputs:
        with login.configured_session(self.config) as vcenter:
            host = vcenter.host(old.host)
            # without fabric.pvrdma_firewall, the ruleset is not rocelab's
            firewall_open = old.firewall_open and vcenter.ruleset(host, RULESET).enabled
            vmknic = vcenter.option(host, OPTION)
        return old.model_copy(update={"vmknic": vmknic, "firewall_open": firewall_open})

    async def delete(self, old: SettingsInputs) -> None:
        """Restores the baseline."""
        with login.configured_session(self.config) as vcenter:
            restore(vcenter, old)


def refusal(vcenter: VCenter, settings: SettingsInputs) -> str:
    """Why the host cannot use this adapter; empty when it can.

    The number of a new adapter is unknown, but it is never one that VMs use now.
    """
    host, known = vcenter.host(settings.host), "vmknic" not in settings.unknown
    adapters = vcenter.vmkernel_names(host) if known else {}
    if known and settings.vmknic not in adapters:
        return (
            f"{host.name} has no vmkernel adapter {settings.vmknic}; it has "
            f"{', '.join(sorted(adapters)) or 'none'}"
        )
    now = vcenter.option(host, OPTION)
    unchanged = known and now == settings.vmknic
    if not now or unchanged or not (running := vcenter.running_pvrdma_vms(host)):
        return ""
    after = settings.vmknic if known else "a new adapter"
    return (
        f"{host.name}: {OPTION} is {now}, and {', '.join(running[:3])} use PVRDMA over it; power "
        f"them off before it becomes {after}, or keep it with vmkernel: {{existing: {now}}}"
    )


def shut(vcenter: VCenter, settings: SettingsInputs) -> str:
    """Why the ruleset cannot be opened; empty when it can, is open, or need not be."""
    if not settings.firewall_open:
        return ""
    host = vcenter.host(settings.host)
    ruleset = vcenter.ruleset(host, RULESET)
    if ruleset.enabled or not ruleset.locked:
        return ""
    return (
        f"{host.name}: firewall ruleset {RULESET} (TCP 28250 to 28761) is closed and locked; "
        "unlock it on the host, or set fabric.pvrdma_firewall: false"
    )


def warning(vcenter: VCenter, settings: SettingsInputs) -> str:
    """A warning about a permitted but unfavorable adapter; empty without one."""
    host, vmknic = vcenter.host(settings.host), settings.vmknic
    if settings.allow_management or vmknic not in vcenter.management_vmkernels(host):
        return ""
    return (
        f"{host.name}: {vmknic} also carries management; use another adapter, or set "
        "fabric.allow_management_vmkernel: true"
    )


def put(vcenter: VCenter, settings: SettingsInputs) -> None:
    if reason := refusal(vcenter, settings):
        raise LabError(reason)
    host = vcenter.host(settings.host)
    if vcenter.option(host, OPTION) != settings.vmknic:
        vcenter.set_option(host, OPTION, settings.vmknic)
    if settings.firewall_open:
        vcenter.set_ruleset(host, RULESET, enabled=True)


def restore(vcenter: VCenter, settings: SettingsInputs) -> None:
    """Restores the baseline, except values that another user has changed since.

    Raises:
        LabError: when running VMs use PVRDMA over these settings; those of the lab are gone by
            then.
    """
    host, before = vcenter.host(settings.host), settings.vmknic_before
    now = vcenter.option(host, OPTION)
    ours = now == settings.vmknic
    closes = settings.firewall_open and not settings.firewall_open_before
    changes = (ours and now != before) or (closes and vcenter.ruleset(host, RULESET).enabled)
    if changes and (running := vcenter.running_pvrdma_vms(host)):
        closing = " and close ruleset pvrdma" if closes else ""
        raise LabError(
            f"{host.name}: rocelab must set {OPTION} back to {before!r}{closing}, but "
            f"{', '.join(running[:3])} use PVRDMA there; power them off or move them away, then "
            "run again"
        )
    if not ours:
        log.warn(
            f"{host.name}: {OPTION} is {now!r}, not the {settings.vmknic!r} that rocelab set; left "
            "as it is"
        )
    elif now != before:
        vcenter.set_option(host, OPTION, before)
    if closes:
        vcenter.set_ruleset(host, RULESET, enabled=False)
