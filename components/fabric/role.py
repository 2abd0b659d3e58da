"""The minimal role of a lab's vCenter user: as text, or created in the vCenter by an administrator."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.privileges import NEEDS, Need, privileges
from components.fabric.vcenter.refusals import doing
from components.fabric.vcenter.session import peer_of
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.lab import Lab

ROLE = "rocelab"


def render(form: str, name: str, needs: Sequence[Need]) -> str:
    ids = privileges(needs)
    if form == "govc":
        lines = " \\\n  ".join(ids)
        return f"govc role.create {name} \\\n  {lines}\n"
    if form == "powercli":
        quoted = ", ".join(f"'{one}'" for one in ids)
        return f"New-VIRole -Name '{name}' -Privilege (Get-VIPrivilege -Id {quoted})\n"
    if form == "markdown":
        return table(needs)
    return "".join(f"{one}\n" for one in ids)


def table(needs: Sequence[Need] = NEEDS) -> str:
    """All calls with their privileges, for people."""
    rows = ["| privilege | on | for | call |", "|---|---|---|---|"]
    for privilege in privileges(needs):
        rows_of = [need for need in needs if need.privilege == privilege]
        places = ", ".join(sorted({need.where for need in rows_of}))
        parts = ", ".join(dict.fromkeys(f"{need.part}{f' ({need.why})' if need.why else ''}" for need in rows_of))
        calls = ", ".join(dict.fromkeys(f"`{need.method}`" for need in rows_of))
        rows.append(f"| {privilege} | {places} | {parts} | {calls} |")
    return "\n".join(rows) + "\n"


def make(fabric: Fabric, administrator: str, password: str, name: str, ids: Sequence[str]) -> str:
    """Creates the role, or updates its privileges; returns a sentence for the user.

    Raises:
        LabError: when the vCenter does not allow it.
    """
    with session(replace(peer_of(fabric, Path.cwd()), user=administrator, password=password)) as vcenter:
        done = _put(vcenter, name, list(ids))
    return (
        f"role {name} {done} with {len(ids)} privileges. Give it to {fabric.user} on datacenter {fabric.datacenter}, "
        "with propagation\n"
    )


def fabric_of(lab: Lab) -> Fabric:
    """The lab's fabric.

    Raises:
        LabError: when it has none.
    """
    if lab.fabric is None:
        raise LabError(f"lab {lab.name} has no fabric, so it needs no vCenter user")
    return lab.fabric


def _put(vcenter: VCenter, name: str, ids: list[str]) -> str:
    manager = vcenter.content.authorizationManager
    if manager is None:
        raise LabError("this is a single ESXi host, which has no roles; name a vCenter as fabric.vcenter")
    with doing(f"role {name}", "set its privileges"):
        for role in manager.roleList:
            if role.name == name:
                manager.UpdateAuthorizationRole(role.roleId, name, ids)
                return "updated"
        manager.AddAuthorizationRole(name, ids)
    return "created"
