"""PVRDMA's two settings of an ESXi host: the vmkernel adapter that it uses, and its firewall ruleset.

The state contains the path of this module, so it must not move.
"""

from dataclasses import dataclass

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    UpdateResult,
)

from components.fabric.baseline import Baseline
from components.fabric.login import VCenterProvider
from components.fabric.props import Props
from components.fabric.vcenter.client import OPTION, RULESET, VCenter
from stacks.base import LabError

SET = ("vmknic", "firewall_open")


class SettingsProvider(VCenterProvider):
    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuses, already in a preview, what would harm running VMs."""
        known = isinstance(news.get("vmknic"), str)  # unknown until the adapter exists
        if not known and _olds:
            return CheckResult(news, [])
        with self._vcenter() as vcenter:
            said = refusal(vcenter, news) if known else refusal_of_new(vcenter, news)
            failures = [CheckFailure("vmknic", said)] if said else []
            if said := shut(vcenter, news):
                failures.append(CheckFailure("firewall_open", said))
            if known and (warned := warning(vcenter, news)):
                pulumi.log.warn(warned)
        return CheckResult(news, failures)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        replaces = ["host"] if _olds.get("host") != _news.get("host") else []
        changed = [key for key in SET if _olds.get(key) != _news.get(key)]
        for key in changed:
            pulumi.log.info(f"{_news['host']}: {key} {_olds.get(key)!r} => {_news.get(key)!r}: no disruption")
        return DiffResult(changes=bool(replaces or changed), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        with self._vcenter() as vcenter:
            put(vcenter, props)
            return CreateResult(f"{vcenter.instance_uuid}/{props['host']}", props)

    def read(self, id_: str, props: Props) -> ReadResult:
        with self._vcenter() as vcenter:
            host = vcenter.host(str(props["host"]))
            now: Props = {"vmknic": vcenter.option(host, OPTION)}
            # without fabric.pvrdma_firewall, the ruleset is not rocelab's
            now["firewall_open"] = bool(props.get("firewall_open")) and vcenter.ruleset(host, RULESET).enabled
        return ReadResult(id_, {**props, **now})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        with self._vcenter() as vcenter:
            put(vcenter, _news)
        return UpdateResult(_news)

    def delete(self, _id: str, _props: Props) -> None:
        """Restores the baseline."""
        with self._vcenter() as vcenter:
            restore(vcenter, _props)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSettingsArgs:
    host: str
    vmknic: pulumi.Input[str]
    """Such as `vmk3`; ESXi chooses the number of a new adapter."""
    baseline: Baseline
    open_firewall: bool
    allow_management: bool


class HostSettings(Resource, module="fabric", name="HostSettings"):
    """Both settings of one ESXi host; delete restores them."""

    vmknic: pulumi.Output[str]
    """The vmkernel adapter that PVRDMA uses."""

    def __init__(self, name: str, args: HostSettingsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        props = {
            "host": args.host,
            "vmknic": args.vmknic,
            "firewall_open": args.open_firewall,
            "vmknic_before": args.baseline.vmknic,
            "firewall_open_before": args.baseline.firewall_open,
            "allow_management": args.allow_management,
        }
        super().__init__(SettingsProvider(), name, props, opts)


def refusal(vcenter: VCenter, props: Props) -> str:
    """Why the host cannot use this adapter; empty when it can."""
    host, vmknic = vcenter.host(str(props["host"])), str(props["vmknic"])
    adapters = vcenter.vmkernel_names(host)
    if vmknic not in adapters:
        return f"{host.name} has no vmkernel adapter {vmknic}; it has {', '.join(sorted(adapters)) or 'none'}"
    now = vcenter.option(host, OPTION)
    if now not in ("", vmknic) and (running := vcenter.running_pvrdma_vms(host)):
        return (
            f"{host.name}: {OPTION} is {now}, and {', '.join(running[:3])} use PVRDMA over it; "
            f"power them off before rocelab sets it to {vmknic}"
        )
    return ""


def refusal_of_new(vcenter: VCenter, props: Props) -> str:
    """Why the host cannot use an adapter that does not exist yet; empty when it can.

    Its number is unknown, but it is never one that VMs use now. This is checked before switch and adapter are created.
    """
    host = vcenter.host(str(props["host"]))
    now = vcenter.option(host, OPTION)
    running = vcenter.running_pvrdma_vms(host) if now else []
    if not running:
        return ""
    return (
        f"{host.name}: {OPTION} is {now}, and {', '.join(running[:3])} use PVRDMA over it; power them off before "
        f"a new adapter replaces it, or keep it with vmkernel: {{existing: {now}}}"
    )


def shut(vcenter: VCenter, props: Props) -> str:
    """Why the ruleset cannot be opened; empty when it can, is open, or need not be."""
    if not props.get("firewall_open"):
        return ""
    host = vcenter.host(str(props["host"]))
    found = vcenter.ruleset(host, RULESET)
    if found.enabled or (found.changeable and not found.required):
        return ""
    return (
        f"{host.name}: firewall ruleset {RULESET} is closed and locked, so PVRDMA's control traffic (TCP 28250 to "
        "28761) cannot come in; unlock it on the host, or set fabric.pvrdma_firewall: false to continue without it"
    )


def warning(vcenter: VCenter, props: Props) -> str:
    """A warning about a permitted but unfavorable adapter; empty without one."""
    host, vmknic = vcenter.host(str(props["host"])), str(props["vmknic"])
    if props.get("allow_management") or vmknic not in vcenter.management_vmkernels(host):
        return ""
    return (
        f"{host.name}: {vmknic} also carries management, so PVRDMA's traffic competes with it; use another "
        "adapter, or set fabric.allow_management_vmkernel: true to accept it"
    )


def put(vcenter: VCenter, props: Props) -> None:
    if said := refusal(vcenter, props):
        raise LabError(said)
    host = vcenter.host(str(props["host"]))
    if vcenter.option(host, OPTION) != props["vmknic"]:
        vcenter.set_option(host, OPTION, str(props["vmknic"]))
    if props["firewall_open"]:
        vcenter.set_ruleset(host, RULESET, enabled=True)


def restore(vcenter: VCenter, props: Props) -> None:
    """Restores the baseline, except values that another user has changed since.

    Raises:
        LabError: when running VMs use PVRDMA over these settings; those of the lab are gone by then.
    """
    host, before = vcenter.host(str(props["host"])), str(props["vmknic_before"])
    now = vcenter.option(host, OPTION)
    ours = now == props["vmknic"]
    closes = bool(props["firewall_open"] and not props["firewall_open_before"])
    changes = (ours and now != before) or (closes and vcenter.ruleset(host, RULESET).enabled)
    if changes and (running := vcenter.running_pvrdma_vms(host)):
        closing = " and close ruleset pvrdma" if closes else ""
        raise LabError(
            f"{host.name}: rocelab must set {OPTION} back to {before!r}{closing}, "
            f"but {', '.join(running[:3])} use PVRDMA there; power them off or move them away, then run again"
        )
    if not ours:
        pulumi.log.warn(
            f"{host.name}: {OPTION} is {now!r}, not the {props['vmknic']!r} that rocelab set; left as it is"
        )
    elif now != before:
        vcenter.set_option(host, OPTION, before)
    if closes:
        vcenter.set_ruleset(host, RULESET, enabled=False)
