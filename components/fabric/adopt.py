"""An existing object of the vCenter: rocelab sets only its declared fields, and never removes it.

Importing it into the vSphere provider would not do: the engine refuses an import whose inputs
differ from what is there, and would set every field that has a default.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from components.fabric import login
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.objects import find
from components.provider import log
from components.provider.base import REPLACES, Properties, Resource, changed
from stacks.base import LabError

Fields = dict[str, str | int | bool]


class AdoptedInputs(Properties):
    kind: Annotated[Literal["switch", "group", "vmkernel"], REPLACES]
    path: Annotated[str, REPLACES]
    """`datacenter/switch`, `datacenter/switch/port group` or `host/vmk3`."""
    fields: Fields = Field(default_factory=dict)
    """What the lab file declares; empty: the object is only looked up."""
    ours: bool = False
    """The same stack creates and deletes it."""


class AdoptedState(AdoptedInputs):
    vcenter: str
    """Identity of the vCenter, the same under every address."""
    moid: str = ""
    """Managed object ID, or the name of a vmkernel adapter."""
    uuid: str = ""
    """Of a switch."""
    before: Fields = Field(default_factory=dict)
    """The declared fields before rocelab changed them."""
    now: Fields = Field(default_factory=dict)


class Adopted(Resource[AdoptedInputs, AdoptedState]):
    """An existing object that keeps its declared fields."""

    async def diff(self, old: AdoptedState, new: AdoptedInputs) -> list[str]:
        names = [name for name in changed(old, new) if name != "ours"]
        if "fields" in new.unknown:
            return names
        drifted = False
        for field, value in new.fields.items():
            if old.now.get(field) != value:
                drifted = True
                log.info(f"{new.path}: {field} {old.now.get(field)!r} => {value!r}")
        if drifted:
            names.append("now")
        return names

    async def create(self, new: AdoptedInputs) -> AdoptedState:
        with login.configured_session(self.config) as vcenter:
            return keep(vcenter, new, {})

    def identify(self, state: AdoptedState) -> str:
        return f"{state.vcenter}/{state.path}"

    async def read(self, old: AdoptedState) -> AdoptedState:
        with login.configured_session(self.config) as vcenter:
            existing = find(vcenter, old.kind, old.path)
            return old.model_copy(update={"now": existing.read(old.fields)})

    async def update(self, old: AdoptedState, new: AdoptedInputs) -> AdoptedState:
        with login.configured_session(self.config) as vcenter:
            return keep(vcenter, new, old.before)

    async def delete(self, old: AdoptedState) -> None:
        """Leaves the object and logs its earlier values, unless the stack deletes it anyway."""
        if old.ours:
            return
        differences = []
        for field, value in sorted(old.before.items()):
            if old.now.get(field) != value:
                differences.append(f"{field} was {value!r}")
        if differences:
            log.warn(
                f"{old.path} is left as it is; before rocelab changed it, {', '.join(differences)}"
            )


def keep(
    vcenter: VCenter, new: AdoptedInputs, before: Mapping[str, str | int | bool]
) -> AdoptedState:
    """Sets what differs and reads it back; the state has the earlier values.

    Raises:
        LabError: when the object does not exist, or has another value afterwards.
    """
    existing = find(vcenter, new.kind, new.path)
    at_first = existing.read(new.fields)
    changes = {field: value for field, value in new.fields.items() if at_first[field] != value}
    if changes:
        existing.put(changes)
    now = existing.read(new.fields)
    lost = []
    for field, value in new.fields.items():
        if now[field] != value:
            lost.append(f"{field} is {now[field]!r} instead of {value!r}")
    if lost:
        raise LabError(
            f"{existing.place}: {', '.join(lost)} after rocelab set it; another tool may manage it"
        )
    read = {"vcenter": vcenter.instance_uuid, "before": {**at_first, **before}, "now": now}
    return AdoptedState(**{**dict(new), **existing.ids, **read})
