"""Keeps cloud-init from overwriting at each boot what a step has set."""

from typing import NamedTuple

from .machine import Machine

FOLDER = "/etc/cloud/cloud.cfg.d"


class CloudSetting(NamedTuple):
    """A file of rocelab among cloud-init's own; only where there is cloud-init."""

    path: str
    text: str

    def is_kept(self, machine: Machine) -> bool:
        return not machine.exists(FOLDER) or not machine.faults({self.path: self.text})

    def keep(self, machine: Machine) -> None:
        if machine.exists(FOLDER):
            machine.put(self.path, self.text)
