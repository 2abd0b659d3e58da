"""What a release of ESXi knows: which distributed switches it can join, and which virtual hardware it can run. Pure."""

from collections.abc import Mapping

Release = tuple[int, ...]

SWITCH_NEEDS: Mapping[str, Release] = {
    "6.5.0": (6, 5, 0),
    "6.6.0": (6, 7, 0),
    "7.0.0": (7, 0, 0),
    "7.0.2": (7, 0, 2),
    "7.0.3": (7, 0, 3),
    "8.0.0": (8, 0, 0),
    "8.0.3": (8, 0, 3),
    "9.0.0": (9, 0, 0),
}
"""Oldest ESXi that can be a member, by the switch's version.

A host cannot join a switch that is newer than itself (Broadcom's KB 434420). The versions are those that the provider
takes (dvsVersions in its source); PowerCLI of 8.0 U1 lists the same up to 8.0.0. Each bears the number of the release
that it came with, but for 6.6.0, the newest that ESXi 6.7 knows (terraform-provider-vsphere, issue 1291).
"""
HARDWARE_NEEDS: Mapping[int, Release] = {
    13: (6, 5, 0),
    14: (6, 7, 0),
    15: (6, 7, 0),
    17: (7, 0, 0),
    18: (7, 0, 1),
    19: (7, 0, 2),
    20: (8, 0, 0),
    21: (8, 0, 2),
    22: (9, 0, 0),
}
"""Oldest ESXi that runs a virtual hardware version (Broadcom's KB 315655, formerly VMware's 2007240).

govmomi's vim25/types/esxi_version.go and the table of features in "vSphere Virtual Machine Administration" 8.0 say the
same up to 21; 22 came with 9.0. 15 came with 6.7 U2, which calls itself 6.7.0 too; 16 was never one of ESXi.
"""


def release_of(version: str) -> Release | None:
    """An ESXi version such as `7.0.3` as numbers; None when it is no such text."""
    words = version.split(".")[:3]
    if not all(word.isdigit() for word in words):
        return None
    return (*(int(word) for word in words), *([0] * (3 - len(words))))


def joins(esxi: str, switch: str) -> bool:
    """Whether a host can be a member of a switch; true where either version is one that we do not know."""
    found, needed = release_of(esxi), SWITCH_NEEDS.get(switch)
    return found is None or needed is None or found >= needed


def newest_switch(esxi: str) -> str:
    """The newest switch version that a host can join; empty when it can join none."""
    return max((version for version in SWITCH_NEEDS if joins(esxi, version)), default="")


def newest_hardware(esxi: str) -> int | None:
    """The newest virtual hardware that a host runs; None when its version is one that we do not know."""
    found = release_of(esxi)
    if found is None:
        return None
    return max((version for version, needed in HARDWARE_NEEDS.items() if found >= needed), default=0)
