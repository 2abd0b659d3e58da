"""The role that a lab's vCenter user needs, and no more: `python -m components.fabric.role [--stack X] [--as govc]`.

It prints; with --create it makes the role in the vCenter, logged in as an administrator whose password is asked for.
"""

import argparse
import getpass
import sys
from collections.abc import Sequence

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.privileges import NEEDS, Need, needs_of, privileges
from components.fabric.vcenter.refusals import doing
from components.fabric.vcenter.session import Endpoint
from components.stack_cli import add_stack_options, lab_of
from stacks.base import LabError
from stacks.fabric import Fabric
from stacks.lab import Lab

ROLE = "rocelab"


def main(arguments: list[str] | None = None) -> int:
    """Prints the role of one lab, or makes it."""
    parser = argparse.ArgumentParser(prog="python -m components.fabric.role", description=__doc__)
    add_stack_options(parser, default="lab-pvrdma")
    parser.add_argument(
        "--as",
        dest="form",
        choices=("list", "govc", "powercli", "markdown"),
        default="list",
        help="privileges alone, commands that make the role, or a table with the reasons (default: %(default)s)",
    )
    parser.add_argument("--name", default=ROLE, help="name of the role (default: %(default)s)")
    parser.add_argument("--create", metavar="ADMIN", help="log in as this administrator, and make or update the role")
    asked = parser.parse_args(arguments)
    try:
        lab = lab_of(asked)
        fabric = _fabric_of(lab)
        needs = needs_of(lab, fabric)
        if asked.create:
            password = getpass.getpass(f"password of {asked.create}: ") if sys.stdin.isatty() else sys.stdin.readline()
            sys.stdout.write(make(fabric, asked.create, password.strip(), asked.name, privileges(needs)))
        else:
            sys.stdout.write(render(asked.form, asked.name, needs))
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def render(form: str, name: str, needs: Sequence[Need]) -> str:
    """The role as text."""
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
        ours = [need for need in needs if need.privilege == privilege]
        places = ", ".join(sorted({need.where for need in ours}))
        parts = ", ".join(dict.fromkeys(f"{need.part}{f' ({need.why})' if need.why else ''}" for need in ours))
        calls = ", ".join(dict.fromkeys(f"`{need.method}`" for need in ours))
        rows.append(f"| {privilege} | {places} | {parts} | {calls} |")
    return "\n".join(rows) + "\n"


def make(fabric: Fabric, administrator: str, password: str, name: str, ids: Sequence[str]) -> str:
    """Makes the role, or brings it to these privileges; what it says for people.

    Raises:
        LabError: when the vCenter or the administrator's rights do not allow it.
    """
    endpoint = Endpoint(
        address=fabric.vcenter,
        port=fabric.port,
        user=administrator,
        password=password,
        ca_file=fabric.ca_file,
        thumbprint_sha256=fabric.thumbprint_sha256,
    )
    with session(endpoint) as vcenter:
        done = _put(vcenter, name, list(ids))
    return (
        f"role {name} {done} with {len(ids)} privileges. Give it to {fabric.user} on datacenter {fabric.datacenter}, "
        "with propagation\n"
    )


def _fabric_of(lab: Lab) -> Fabric:
    if lab.fabric is None:
        raise LabError(f"lab {lab.name} has no fabric, so that it needs no vCenter user")
    return lab.fabric


def _put(vcenter: VCenter, name: str, ids: list[str]) -> str:
    manager = vcenter.content.authorizationManager
    if manager is None:
        raise LabError("this is no vCenter: a single host has no roles of this kind")
    with doing(f"role {name}", "set its privileges"):
        for role in manager.roleList:
            if role.name == name:
                manager.UpdateAuthorizationRole(role.roleId, name, ids)
                return "updated"
        manager.AddAuthorizationRole(name, ids)
    return "made"


if __name__ == "__main__":
    sys.exit(main())
