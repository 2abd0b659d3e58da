"""Tries all ways of a lab's port matrix: over SSH, from here, and by asking its vCenter."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from components.ports.api import Place, server_of
from components.ports.check import Answer, tried
from components.ports.matrix import port_matrix
from components.ports.targets import Unproven, probes
from components.ssh.credentials import Setting, kubeconfig, login_to
from stacks.base import LabError
from stacks.lab import Lab


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came of it."""

    answers: list[Answer]
    left: list[Unproven]
    unreached: bool
    """The kubeconfig could not be read, or the vCenter could not be asked."""


def try_all(lab: Lab, root: Path, setting: Setting) -> Trial:
    """Tries them.

    Raises:
        LabError: when a key is not where the lab says.
    """
    login = login_to(lab, root, setting)
    api, api_unread = _api(lab, setting, root)
    some, left = probes(lab, api)
    hosts, left, vcenter_unreached = _of_hosts(lab, setting, root, left)
    answers = [*hosts, *asyncio.run(tried(some, login.endpoints, login.keys))]
    return Trial(answers=answers, left=left, unreached=api_unread or vcenter_unreached)


def _api(lab: Lab, setting: Setting, root: Path) -> tuple[Place | str, bool]:
    """Where the API server answers that is no node's, or why nobody knows; and whether that is a fault."""
    if not any("api" in (row.source, row.target) for row in port_matrix(lab)):
        return "", False
    try:
        return server_of(kubeconfig(lab, setting, root) or ""), False
    except LabError as error:
        return f"{error}", True


def _of_hosts(
    lab: Lab, setting: Setting, root: Path, left: list[Unproven]
) -> tuple[list[Answer], list[Unproven], bool]:
    """What ESXi hosts and their vCenter tell, what of the rest then is not proven, and whether they did not answer."""
    if lab.fabric is None:
        return [], left, False
    from components.fabric.vcenter.client import session  # noqa: PLC0415  # pyVmomi takes a second: for this alone
    from components.fabric.vcenter.endpoint import endpoint_of  # noqa: PLC0415
    from components.ports.esxi import ASKED, asked  # noqa: PLC0415

    try:
        with session(endpoint_of(lab.fabric, setting, root)) as vcenter:
            answers = asked(lab, lab.fabric, vcenter)
    except LabError as error:
        whys = [f"{error}" if one.row.way in ASKED else one.why for one in left]
        return [], [replace(one, why=why) for one, why in zip(left, whys, strict=True)], True
    proven = {answer.probe.row for answer in answers}
    return answers, [one for one in left if one.row not in proven], False
