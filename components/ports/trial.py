"""Ports of a lab: `python -m components.ports [--stack lab | --config-file FILE] [--json] [--check]`."""

import argparse
import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from components.ports.api import Place, server_of
from components.ports.check import Answer, faults, table, tried
from components.ports.matrix import port_matrix
from components.ports.targets import Unproven, probes, thinned
from components.ports.text import as_json, as_markdown
from components.ssh.credentials import Setting, kubeconfig, login_to
from components.stack_cli import add_stack_options, lab_of, stack_secret
from stacks.base import LabError
from stacks.lab import Lab
from stacks.words import plural


def main(arguments: list[str] | None = None) -> int:
    """Prints the matrix; with --check tries it, and returns 1 when a way is not open."""
    parser = argparse.ArgumentParser(prog="python -m components.ports", description=__doc__)
    add_stack_options(parser)
    parser.add_argument("--json", action="store_true", help="for programs instead of people")
    parser.add_argument("--check", action="store_true", help="try each way over SSH, from where it has to be open")
    asked = parser.parse_args(arguments)
    try:
        lab = lab_of(asked)
        if asked.check:
            return _check(lab, asked)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(as_json(lab) if asked.json else as_markdown(lab))
    return 0


def _check(lab: Lab, asked: argparse.Namespace) -> int:
    setting = partial(stack_secret, asked)
    login = login_to(lab, Path.cwd(), setting)
    some, left = probes(lab, _api(lab, setting))
    hosts, left = _of_hosts(lab, setting, left)
    answers = [*hosts, *asyncio.run(tried(some, login.endpoints, login.keys))]
    sys.stdout.write(table(answers, left))
    sys.stdout.write("".join(f"{line}\n" for line in thinned(lab)))
    wrong = faults(answers)
    sys.stdout.write("".join(f"FAULT {line}\n" for line in wrong))
    sys.stdout.write(f"{plural(len(answers), 'way')} tried, {plural(len(wrong), 'fault')}, {len(left)} not checkable\n")
    return 1 if wrong else 0


def _api(lab: Lab, setting: Setting) -> Place | str:
    """Where the API server answers that is no node's, or why nobody knows."""
    if not any("api" in (row.source, row.target) for row in port_matrix(lab)):
        return ""
    try:
        return server_of(kubeconfig(lab, setting, Path.cwd()) or "")
    except LabError as error:
        return f"{error}"


def _of_hosts(lab: Lab, setting: Setting, left: list[Unproven]) -> tuple[list[Answer], list[Unproven]]:
    """What ESXi hosts and their vCenter tell, and what of the rest then is not proven."""
    if lab.fabric is None:
        return [], left
    from components.fabric.vcenter.client import session  # noqa: PLC0415  # pyVmomi takes a second: for this alone
    from components.fabric.vcenter.endpoint import endpoint_of  # noqa: PLC0415
    from components.ports.esxi import ASKED, asked  # noqa: PLC0415

    try:
        with session(endpoint_of(lab.fabric, setting, Path.cwd())) as vcenter:
            answers = asked(lab, lab.fabric, vcenter)
    except LabError as error:
        whys = [f"{error}" if one.row.way in ASKED else one.why for one in left]
        return [], [replace(one, why=why) for one, why in zip(left, whys, strict=True)]
    proven = {answer.probe.row for answer in answers}
    return answers, [one for one in left if one.row not in proven]


if __name__ == "__main__":
    sys.exit(main())
