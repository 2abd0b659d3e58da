"""Whether the guests' vGPU driver is of the branch of the ESXi hosts' driver. Pure.

A guest's driver speaks to that of its host, and NVIDIA releases both together: 535.154.02 on the host and 535.154.05 in
the guest are one branch. A newer host takes guests of the branch before as well, so another branch is a warning.
"""

import re
from collections.abc import Iterable, Iterator

from components.fabric.preflight.facts import HostFacts
from stacks.lab import Lab
from stacks.nodes import VsphereVm
from stacks.words import some

MOST_NAMES = 3


def other_branches(lab: Lab, hosts: Iterable[HostFacts]) -> Iterator[str]:
    """A line for each branch on hosts that is not the one of `gpu.driver.version`, which each guest is held to.

    Args:
        lab: what it asks of its guests.
        hosts: those that machines with a vGPU may run on.
    """
    guest = lab.gpu.driver.version if lab.gpu else None
    if guest is None or not any(isinstance(node, VsphereVm) and node.vgpu for node in lab.nodes):
        return
    by_branch: dict[str, list[str]] = {}
    for host in hosts:
        branches = {branch_of(package.split()[-1]) for package in host.vgpu_driver.split(", ") if package.strip()}
        known = branches - {""}
        if known and branch_of(guest) not in known:
            by_branch.setdefault(max(known), []).append(host.name)
    for branch, names in sorted(by_branch.items()):
        yield (
            f"vGPU driver of branch {branch} on {some(names, MOST_NAMES)}, and gpu.driver.version asks for {guest} in "
            "the guests: take both from one release of vGPU (nvidia-smi on the host shows its)"
        )


def branch_of(version: str) -> str:
    """The branch of a driver's version, as `535` of `535.154.02-1OEM.800.1.0`; empty where it is no such version."""
    found = re.match(r"(\d{3,4})\.\d", version)
    return found[1] if found else ""
