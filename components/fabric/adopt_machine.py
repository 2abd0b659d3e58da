"""An existing VM as a resource: it gets its declared fields, and its earlier values on delete.

The state contains the path of this module, so it must not move.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
from pydantic import TypeAdapter

from components.fabric.login import VCenterProvider
from components.fabric.machine_baseline import MachineBaseline, led_elsewhere
from components.fabric.props import Props, mapping, string_map
from components.fabric.vcenter.client import VCenter
from components.fabric.vms.existing import ADAPTER, ExistingVm, by_instance, by_name, still_there
from components.fabric.vms.lending import Terms, changed_lines, give, give_back, refusal, take_over, to_return
from components.ssh.credentials import configured_lab
from stacks.base import LabError
from stacks.machines import ExistingMachine
from stacks.nodes import VsphereVm

TERMS = TypeAdapter(Terms)
OLD_GROUP = " (the port group before)"
"""Suffix of a rail's name for the port group that it had at the last run."""


class AdoptedMachineProvider(VCenterProvider):
    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Shows what a new VM will get, and refuses in a preview what is not permitted."""
        changed_declaration = _declaration_changed(_olds, news)
        same = all(mapping(_olds.get(key)) == mapping(news.get(key)) for key in ("wanted", "terms"))
        if same and not changed_declaration and _olds.get("path") == news.get("path"):
            return CheckResult(news, [])
        try:
            with self._vcenter() as vcenter:
                vm = _meant(vcenter, _olds, news)
                last = _olds if vm.instance == _olds.get("instance") else {}
                terms = _terms_after(last, news)
                returned, _ = to_return(vm, _given_before(last, news))
                said = refusal(vcenter, vm, terms, returned, changes=changed_declaration)
                if not said and vm.instance != _olds.get("instance"):
                    for line in changed_lines(vm, _terms(news)):
                        pulumi.log.info(line)
        except LabError as error:
            said = str(error)
        return CheckResult(news, [CheckFailure("path", said)] if said else [])

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Compares the VM with its declared fields; a renamed VM is the same VM."""
        replaces = ["path"] if led_elsewhere(self._setting, _olds, _news) else []
        now, wanted = mapping(_olds.get("now")), mapping(_news.get("wanted"))
        changed = {key: value for key, value in wanted.items() if now.get(key) != value}
        given = _given_before(_olds, _news)
        # fields that another user has changed since stay
        ours = [key for key, value in given.wanted.items() if now.get(key) == value and key in given.before]
        changed |= {key: given.before[key] for key in ours if given.before[key] != now.get(key)}
        for key, value in sorted(changed.items()):
            pulumi.log.info(f"{_news['path']}: {key} {now.get(key)!r} => {value!r}")
        asked = ("path", "wanted", "networks", "allow_power_off", "terms")
        same = all(_olds.get(key) == _news.get(key) for key in asked)
        if held_off := bool(_olds.get("held_off")):
            pulumi.log.info(f"{_news['path']} was shut down by an interrupted run; this run starts it again")
        return DiffResult(changes=bool(replaces or changed or held_off or not same), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        with self._vcenter() as vcenter:
            vm = still_there(vcenter, str(props["instance"]), str(props["path"]))
            given = take_over(vcenter, vm, _terms(props), was_on=bool(props.get("was_on")))
            return CreateResult(f"{vcenter.instance_uuid}/{vm.instance}", {**props, "now": given.now})

    def read(self, id_: str, props: Props) -> ReadResult:
        with self._vcenter() as vcenter:
            vm = by_instance(vcenter, str(props["instance"]))
            if vm is None:
                return ReadResult("", {})
            seen: Props = {**props, "now": vm.read(mapping(props.get("wanted")), string_map(props, "networks"))}
            seen.pop("held_off", None)  # only present while true: otherwise it would show as drift
            return ReadResult(id_, {**seen, "held_off": True} if vm.marked and not vm.on else seen)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Sets what differs, and restores fields that are no longer declared."""
        with self._vcenter() as vcenter:
            vm = still_there(vcenter, str(_news["instance"]), str(_news["path"]))
            returned, others = to_return(vm, _given_before(_olds, _news))
            given = give(vcenter, vm, _terms_after(_olds, _news), returned, refuse=_declaration_changed(_olds, _news))
        for line in others:
            pulumi.log.warn(line)
        if given.left:
            pulumi.log.warn(f"{_news['path']} was changed by hand: {given.left}")
        return UpdateResult({**_news, "now": given.now})

    def delete(self, _id: str, _props: Props) -> None:
        """Restores the earlier values, and leaves the VM."""
        with self._vcenter() as vcenter:
            vm = by_instance(vcenter, str(_props["instance"]))
            if vm is None:
                pulumi.log.warn(f"{_props['path']} no longer exists in the vCenter, so nothing is restored")
                return
            for line in give_back(vcenter, vm, _terms({**_props, "allow_power_off": self._allowed(_props)})):
                pulumi.log.warn(line)

    def _allowed(self, props: Props) -> bool:
        """What the lab file says now; the state has the value of the last run."""
        named = str(props["path"]).partition("/")[2]
        nodes = [node for node in configured_lab(self._setting).nodes if isinstance(node, VsphereVm)]
        machines = [node.machine for node in nodes if isinstance(node.machine, ExistingMachine)]
        said = [machine.allow_power_off for machine in machines if machine.existing == named]
        return said[0] if said else bool(props["allow_power_off"])


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptedMachineArgs:
    path: str
    """`datacenter/name`."""
    wanted: Mapping[str, str | int | bool]
    """By field, as `ExistingVm.read` names them."""
    networks: Mapping[str, pulumi.Input[str]]
    """Managed object ID of the port group by rail."""
    baseline: MachineBaseline
    allow_power_off: bool
    terms: Mapping[str, object]
    """Fields of `Terms` with a default, except `allow_power_off`."""


class AdoptedMachine(Resource, module="fabric", name="AdoptedMachine"):
    """An existing VM that keeps its declared fields, and gets its earlier values back on delete."""

    now: pulumi.Output[dict[str, object]]

    def __init__(self, name: str, args: AdoptedMachineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        props = {
            "path": args.path,
            "wanted": dict(args.wanted),
            "networks": dict(args.networks),
            "instance": args.baseline.instance,
            "before": args.baseline.found,
            "was_on": args.baseline.was_on,
            "allow_power_off": args.allow_power_off,
            "terms": dict(args.terms),
            "now": None,
        }
        super().__init__(AdoptedMachineProvider(), name, props, opts)


def _terms(props: Props) -> Terms:
    known = {key: mapping(props.get(key)) for key in ("wanted", "before")}
    return TERMS.validate_python(
        {**props, **mapping(props.get("terms")), **known, "networks": string_map(props, "networks")}
    )


def _declaration_changed(olds: Props, news: Props) -> bool:
    """Whether the declaration changed; a port group that is still unknown counts as the old one."""
    wanted, networks = (mapping(olds.get("wanted")), string_map(olds, "networks"))
    return wanted != mapping(news.get("wanted")) or networks != {**networks, **string_map(news, "networks")}


def _left(olds: Props, news: Props) -> dict[str, str]:
    """The previous port group of each rail whose port group changed."""
    now = string_map(news, "networks")
    return {rail: old for rail, old in string_map(olds, "networks").items() if now.get(rail, old) != old}


def _terms_after(olds: Props, news: Props) -> Terms:
    """The declaration with the VM's earlier port groups, by which adapters are found and removed."""
    olds_too = {**string_map(olds, "networks"), **string_map(news, "networks")}
    left = {rail + OLD_GROUP: old for rail, old in _left(olds, news).items()}
    return replace(_terms(news), networks={**olds_too, **left})


def _given_before(olds: Props, news: Props) -> Terms:
    """Fields that are no longer declared, and adapters on port groups that their rails have left."""
    before, wanted, asked = mapping(olds.get("before")), mapping(olds.get("wanted")), mapping(news.get("wanted"))
    terms = _terms_after(olds, news)
    gone = {key: value for key, value in wanted.items() if key not in asked}
    left = [rail for rail in _left(olds, news) if wanted.get(ADAPTER + rail) and not before.get(ADAPTER + rail)]
    moved = {ADAPTER + rail + OLD_GROUP: True for rail in left}
    return replace(terms, wanted={**moved, **gone}, before={**before, **dict.fromkeys(moved, False)})


def _meant(vcenter: VCenter, olds: Props, news: Props) -> ExistingVm:
    """The VM of the resource, whatever its name; by name if its UUID is still unknown."""
    vm = _known(vcenter, olds) if olds.get("path") == news.get("path") else None
    return vm or _known(vcenter, news) or by_name(vcenter, str(news["path"]))


def _known(vcenter: VCenter, props: Props) -> ExistingVm | None:
    instance = props.get("instance")
    return by_instance(vcenter, instance) if isinstance(instance, str) and instance else None
