"""vGPUs and RoCE version of one VM as a resource.

The state contains the path of this module, so it must not move.
"""

from collections.abc import Sequence
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

from components.fabric.login import VCenterProvider
from components.fabric.props import Props, strings
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.power import is_on
from components.fabric.vms.halfway import refuse_unready
from components.fabric.vms.hardware import (
    Hardware,
    HardwareChange,
    find,
    observe,
    put,
    refuse_unknown_profiles,
    restart_text,
    satisfied,
)

SET = ("vgpus", "roce_version")


class HardwareProvider(VCenterProvider):
    """Thin: `refusal` has the rules, `hardware.put` the change."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuses in a preview profiles that a host does not offer, and restarts that are not permitted."""
        if not strings(news, "vgpus") and not _declaration_changed(_olds, news):
            return CheckResult(news, [])  # nothing to look up
        with self._vcenter() as vcenter:
            said = refusal(vcenter, _olds, news)
        return CheckResult(news, [CheckFailure("vgpus", said)] if said else [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        replaces = ["machine"] if _olds.get("machine") != _news.get("machine") else []
        changed = [key for key in SET if _differs(_olds, _news, key)]
        for key in changed:
            pulumi.log.info(f"{_news['name']}: {key} {_olds.get(key)!r} => {_news.get(key)!r}: restarts the machine")
        return DiffResult(changes=bool(replaces or changed), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        self._put(props, new=True)
        return CreateResult(str(props["machine"]), props)

    def read(self, id_: str, props: Props) -> ReadResult:
        with self._vcenter() as vcenter:
            found = observe(vcenter, str(props["machine"]))
        if found is None:
            return ReadResult("", {})
        # without a declared version, vCenter's own is no drift
        version = found.roce_version if props.get("roce_version") else ""
        return ReadResult(id_, {**props, "vgpus": list(found.vgpus), "roce_version": version})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sets what differs; a VM that may not be restarted keeps what it has."""
        with self._vcenter() as vcenter:
            kept = keep_running(vcenter, _news)
        if kept is None:
            self._put(_news, new=False)
            return UpdateResult(_news)
        return UpdateResult({**_news, "vgpus": list(kept.vgpus), "roce_version": kept.roce_version})

    def delete(self, _id: str, _props: Props) -> None:
        """Removes the vGPUs. A RoCE version stays: the VM is deleted next, so it is not restarted for that."""
        with self._vcenter() as vcenter:
            if find(vcenter, str(_props["machine"])) is None:
                return
            change = HardwareChange(new=False, may_restart=True, guest_s=0)
            put(vcenter, str(_props["machine"]), str(_props["name"]), Hardware(vgpus=(), roce_version=""), change)

    def _put(self, props: Props, *, new: bool) -> None:
        change = HardwareChange(
            new=new, may_restart=bool(props["may_restart"]), guest_s=int(float(str(props["guest_s"])))
        )
        with self._vcenter() as vcenter:
            if new:
                refuse_unready(vcenter, str(props["machine"]), str(props["name"]), change.guest_s)
            put(vcenter, str(props["machine"]), str(props["name"]), _wanted(props), change)


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineHardwareArgs:
    name: str
    machine: pulumi.Input[str]
    """UUID of the VM."""
    hosts: Sequence[str]
    """The ESXi hosts that it may run on."""
    vgpus: Sequence[str]
    roce_version: str
    may_restart: bool
    guest_s: int


class MachineHardware(Resource, module="fabric", name="MachineHardware"):
    """vGPUs and RoCE version of one VM. With neither declared, it detects what is added by hand."""

    def __init__(self, name: str, args: MachineHardwareArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        props = {
            "name": args.name,
            "machine": args.machine,
            "hosts": list(args.hosts),
            "vgpus": sorted(args.vgpus),
            "roce_version": args.roce_version,
            "may_restart": args.may_restart,
            "guest_s": args.guest_s,
        }
        super().__init__(HardwareProvider(), name, props, opts)


def refusal(vcenter: VCenter, olds: Props, news: Props) -> str:
    """Why the VM cannot get this hardware; empty when it can."""
    wanted = _wanted(news)
    hosts = strings(news, "hosts")
    if said := refuse_unknown_profiles(vcenter, str(news["name"]), wanted.vgpus, hosts):
        return said
    asked = _declaration_changed(olds, news) and not news["may_restart"]
    machine = find(vcenter, str(news["machine"])) if asked else None
    if machine is None or not is_on(vcenter, machine):
        return ""
    found = observe(vcenter, str(news["machine"]))
    return "" if found is None or satisfied(found, wanted) else f"{news['name']} is running, but {restart_text(wanted)}"


def keep_running(vcenter: VCenter, props: Props) -> Hardware | None:
    """The hardware that a running VM keeps because it may not be restarted; None when it may."""
    machine = find(vcenter, str(props["machine"]))
    if props["may_restart"] or machine is None or not is_on(vcenter, machine):
        return None
    found = observe(vcenter, str(props["machine"]))
    if found is None or satisfied(found, _wanted(props)):
        return None
    pulumi.log.warn(f"{props['name']} was changed by hand: {restart_text(_wanted(props))}")
    return found


def _declaration_changed(olds: Props, news: Props) -> bool:
    """Whether the lab file changed for the same VM; a change by hand does not count."""
    return olds.get("machine") == news.get("machine") and _wanted(olds) != _wanted(news)


def _wanted(props: Props) -> Hardware:
    return Hardware(
        vgpus=tuple(sorted(strings(props, "vgpus"))),
        roce_version=str(props.get("roce_version") or ""),
    )


def _differs(olds: Props, news: Props, key: str) -> bool:
    if key == "roce_version" and not news.get(key):
        return False
    return olds.get(key) != news.get(key)
