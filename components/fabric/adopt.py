"""An existing object of the vCenter: rocelab sets only its declared fields, and never removes it.

Importing it into the vSphere provider would not do: the engine refuses an import whose inputs differ from what is
there, and would set every field that has a default. The state contains the path of this module, so it must not move.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, UpdateResult

from components.fabric.login import VCenterProvider
from components.fabric.props import Props, mapping
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.objects import find
from stacks.base import LabError

Kind = Literal["switch", "group", "vmkernel"]


class AdoptedProvider(VCenterProvider):
    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        replaces = [key for key in ("kind", "path") if _olds.get(key) != _news.get(key)]
        now, wanted = mapping(_olds.get("now")), mapping(_news.get("wanted"))
        changed = {key: value for key, value in wanted.items() if now.get(key) != value}
        for key, value in changed.items():
            pulumi.log.info(f"{_news['path']}: {key} {now.get(key)!r} => {value!r}")
        same = _olds.get("wanted") == _news.get("wanted")
        return DiffResult(changes=bool(replaces or changed or not same), replaces=replaces)

    def create(self, props: Props) -> CreateResult:
        with self._vcenter() as vcenter:
            return CreateResult(f"{vcenter.instance_uuid}/{props['path']}", keep(vcenter, props, {}))

    def read(self, id_: str, props: Props) -> ReadResult:
        with self._vcenter() as vcenter:
            found = find(vcenter, str(props["kind"]), str(props["path"]))
            return ReadResult(id_, {**props, "now": found.read(mapping(props.get("wanted")))})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        with self._vcenter() as vcenter:
            return UpdateResult(keep(vcenter, _news, mapping(_olds.get("before"))))

    def delete(self, _id: str, _props: Props) -> None:
        """Leaves the object as it is, and logs its earlier values, unless the stack deletes it anyway."""
        if _props.get("ours"):
            return
        before = mapping(_props.get("before"))
        changed = [
            f"{key} was {value!r}" for key, value in sorted(before.items()) if mapping(_props["now"]).get(key) != value
        ]
        if changed:
            pulumi.log.warn(f"{_props['path']} is left as it is; before rocelab changed it, {', '.join(changed)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptedArgs:
    kind: Kind
    path: str
    """`datacenter/switch`, `datacenter/switch/port group` or `host/vmk3`."""
    wanted: Mapping[str, pulumi.Input[str | int | bool]] = field(default_factory=dict)
    """By field; empty: the object is only looked up."""
    ours: bool = False
    """The same stack creates and deletes it."""


class Adopted(Resource, module="fabric", name="Adopted"):
    """An existing object that keeps its declared fields."""

    moid: pulumi.Output[str]
    """Managed object ID, or the name of a vmkernel adapter."""
    uuid: pulumi.Output[str]
    """Of a switch."""
    before: pulumi.Output[dict[str, object]]
    """The declared fields before rocelab changed them."""

    def __init__(self, name: str, args: AdoptedArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        outputs = dict.fromkeys(("moid", "uuid", "before", "now"))
        props = {"kind": args.kind, "path": args.path, "wanted": dict(args.wanted), **outputs}
        props |= {"ours": True} if args.ours else {}
        super().__init__(AdoptedProvider(), name, props, opts)


def keep(vcenter: VCenter, props: Props, before: Mapping[str, object]) -> Props:
    """Sets what differs and reads it back; returns the properties with the earlier values.

    Raises:
        LabError: when the object does not exist, or has another value afterwards.
    """
    existing = find(vcenter, str(props["kind"]), str(props["path"]))
    wanted = mapping(props.get("wanted"))
    found = existing.read(wanted)
    if changes := {key: value for key, value in wanted.items() if found[key] != value}:
        existing.put(changes)
    now = existing.read(wanted)
    if lost := [f"{key} is {now[key]!r} instead of {value!r}" for key, value in wanted.items() if now[key] != value]:
        raise LabError(f"{existing.place}: {', '.join(lost)} after rocelab set it; another tool may manage it")
    asked: Props = {key: props[key] for key in ("kind", "path", "wanted", "ours") if key in props}
    return {**asked, "uuid": "", **existing.ids, "before": {**found, **before}, "now": now}
