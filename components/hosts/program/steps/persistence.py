"""What brings all of it back after a reboot: a unit, this program, its document, and drop-ins for others."""

import json
import os
from typing import Dict, List, Set

from ..daemons import drop_ins
from ..host import Document, Host
from ..places import (
    DAEMON_FILES,
    DEADLINE_S,
    DOCUMENT_FILE,
    MODPROBE_FILE,
    MODULES_FILE,
    PROGRAM_FILE,
    REVERT_FILE,
    SYSCTL_FILE,
    UNCONFIRMED_FILE,
    UNIT,
    UNIT_FILE,
    UNIT_LINK,
)
from ..step import Fields, Step
from .arp import ARP
from .namespaces import RdmaNamespaces

UNCONFIRMED = "enabled, network not confirmed"
UNIT_TEXT = f"""[Unit]
Description=VFs, MTU, addresses and RDMA links of this host (rocelab)
After=network-pre.target systemd-udevd.service systemd-modules-load.service openibd.service
Before=kubelet.service containerd.service crio.service docker.service
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec={DEADLINE_S + 60}
ExecStart=/usr/bin/env python3 -I {PROGRAM_FILE} boot

[Install]
WantedBy=multi-user.target
"""


class Persistence(Step):
    """The unit's files as they have to be, and its link among those that start with the machine."""

    name = "unit"
    effects = {"unit": "none"}
    repairs = {"unit": "none"}

    def wanted(self, document: Document) -> Fields:
        return {"unit": "enabled"}

    def observed(self, host: Host) -> Fields:
        wrong = [
            f"{path} {'altered' if host.machine.exists(path) else 'missing'}"
            for path, content in self._files(host).items()
            if host.machine.content(path) != content
        ]
        wrong += [f"{path} is no longer needed" for path in self._left_over(host)]
        if host.machine.target(UNIT_LINK) != UNIT:
            wrong.append(f"{UNIT} not enabled")
        document_is_wrong = f"{DOCUMENT_FILE} " in " ".join(wrong)
        if document_is_wrong and len(wrong) == 1 and host.machine.content(UNCONFIRMED_FILE) == self._document(host):
            return {"unit": UNCONFIRMED}
        return {"unit": "; ".join(wrong) or "enabled"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine = host.machine
        for path, content in self._files(host).items():
            # a network that nobody has confirmed must not come back by itself after a power cycle
            place = UNCONFIRMED_FILE if path == DOCUMENT_FILE and machine.exists(REVERT_FILE) else path
            if machine.content(place) != content:
                machine.put(place, content)
        for path in self._left_over(host):
            machine.remove(path)
        # the link is all that `systemctl enable` makes; no daemon-reload, since it detaches GPUs from containers
        if machine.target(UNIT_LINK) != UNIT:
            machine.remove(UNIT_LINK)
            os.makedirs(os.path.dirname(machine.path(UNIT_LINK)), exist_ok=True)
            os.symlink(f"../{UNIT}", machine.path(UNIT_LINK))

    def _files(self, host: Host) -> Dict[str, bytes]:
        document = host.document
        sysctls = [f"net/ipv4/conf/{pf['interface']}/{key} = {ARP[key]}" for pf in host.pfs for key in ARP]
        shared = int(RdmaNamespaces().at_next_boot(host) == "shared")
        return {
            MODULES_FILE: ("\n".join(document["modules"]) + "\n").encode(),
            SYSCTL_FILE: ("\n".join(sysctls) + "\n").encode(),
            MODPROBE_FILE: f"options ib_core netns_mode={shared}\n".encode(),
            UNIT_FILE: UNIT_TEXT.encode(),
            PROGRAM_FILE: host.program,
            DOCUMENT_FILE: self._document(host),
            **drop_ins(host),
        }

    def _left_over(self, host: Host) -> List[str]:
        """Files for daemons that had to be told something once."""
        return [path for path in DAEMON_FILES if path not in drop_ins(host) and host.machine.exists(path)]

    def _document(self, host: Host) -> bytes:
        return (json.dumps(host.document, indent=1, sort_keys=True) + "\n").encode()
