"""Reads of the vCenter API that stay narrow: single properties of many objects, in one call."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pyVmomi import vim, vmodl
from pyVmomi.Version import IsChildVersion

from stacks.base import LabError
from stacks.words import some

Found = dict[str, Any]  # by path; what the API leaves unset is missing
Kind = TypeVar("Kind", bound=vim.ManagedEntity)
MOST_NAMES = 20
_collector = vmodl.query.PropertyCollector


def known(owner: object, path: str) -> Any:  # everything in the API is optional
    """A property by its path.

    Raises:
        LabError: when it is not set, as on a host that is not connected.
    """
    value = owner
    for step in path.split("."):
        value = getattr(value, step)
        if value is None:
            name = getattr(owner, "name", "the vCenter")
            raise LabError(
                f"{name} does not report its {path}; check that it is connected and that "
                "fabric.user may see it"
            )
    return value


def collect(
    content: vim.ServiceInstanceContent, objects: Sequence[vim.ManagedEntity], paths: Sequence[str]
) -> list[Found]:
    """Properties of the given objects, in their order: whole objects may hold what pyVmomi cannot
    read.

    A property that this vCenter is too old to know is left out.
    """
    if not objects:
        return []
    specs = [_collector.ObjectSpec(obj=item) for item in objects]
    values = {
        item.obj: _values(item) for item in _retrieve(content, type(objects[0]), specs, paths)
    }
    return [values.get(item, {}) for item in objects]


def collect_all(
    content: vim.ServiceInstanceContent,
    kind: type[Kind],
    paths: Sequence[str],
    below: vim.ManagedEntity | None = None,
) -> list[tuple[Kind, Found]]:
    """Properties of all objects of a kind, everywhere or below one, in one call.

    fabric.user sees no others.

    A property that this vCenter is too old to know is left out.
    """
    view = known(content, "viewManager").CreateContainerView(
        below or content.rootFolder, [kind], True
    )
    try:
        members = _collector.TraversalSpec(
            name="members", path="view", skip=False, type=vim.view.ContainerView
        )
        specs = [_collector.ObjectSpec(obj=view, skip=True, selectSet=[members])]
        return [(item.obj, _values(item)) for item in _retrieve(content, kind, specs, paths)]
    except vmodl.query.InvalidProperty as fault:
        rest = [path for path in paths if path != fault.name]
        if len(rest) == len(paths):
            raise
        return collect_all(content, kind, rest, below)
    finally:
        view.Destroy()


def named(
    content: vim.ServiceInstanceContent,
    kind: type[Kind],
    name: str,
    below: vim.ManagedEntity | None = None,
    paths: Sequence[str] = (),
) -> tuple[Kind, Found]:
    """The object of a kind that has this name, with these properties.

    Raises:
        LabError: when there is none, or more than one; the text lists those that exist.
    """
    rows = collect_all(content, kind, ["name", *paths], below)
    matching = [row for row in rows if row[1].get("name") == name]
    if len(matching) == 1:
        return matching[0]
    others = sorted({str(properties.get("name")) for _, properties in rows})
    raise LabError(
        f"fabric.user sees {len(matching)} {kind.__name__} with the name {name}; it sees "
        f"{some(others, MOST_NAMES) or 'none'}"
    )


def knows(version: str, kind: type, path: str) -> bool:
    """Whether an API version such as `vim.version.version14` has a property; true when pyVmomi does
    not know.

    A vCenter refuses the whole call for one property that it is too old to know.
    """
    owner: Any = kind
    for step in path.split("."):
        try:
            described = owner._GetPropertyInfo(step)
        except AttributeError:
            return True
        if not IsChildVersion(version, described.version):
            return False
        owner = described.type
    return True


def _retrieve(
    content: vim.ServiceInstanceContent, kind: type, specs: Sequence[object], paths: Sequence[str]
) -> Any:
    collector = known(content, "propertyCollector")
    there = []
    for path in paths:
        if knows(collector._stub.version, kind, path):
            there.append(path)
    spec = _collector.FilterSpec(
        objectSet=list(specs),
        propSet=[_collector.PropertySpec(type=kind, all=False, pathSet=there)],
    )
    return collector.RetrieveContents([spec])


def _values(content: Any) -> Found:
    return {entry.name: entry.val for entry in content.propSet}
