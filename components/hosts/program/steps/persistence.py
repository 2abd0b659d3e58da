"""What restores the settings after a reboot or a driver reload: a unit, this program, its document,
and drop-ins.

The unit does not stay active: systemd starts what a device wants only when it is not active
already, and each PF, RDMA device and soft-RoCE module that appears wants it (systemd.device(5),
SYSTEMD_WANTS).
"""

import json
import os
from typing import Dict, List, Set

from ..daemons import drop_ins
from ..host import Document, Host
from ..identity import lasting_pci_address
from ..places import (
    BOOT_LOCK_WAIT_S,
    DAEMON_FILES,
    DEADLINE_S,
    DOCUMENT_FILE,
    MARK,
    MODPROBE_FILE,
    MODULES_FILE,
    PROGRAM_FILE,
    REVERT_FILE,
    SYSCTL_FILE,
    UDEV_FILE,
    UNCONFIRMED_FILE,
    UNIT,
    UNIT_FILE,
    UNIT_LINK,
)
from ..step import Fields, Step
from .arp import ARP
from .namespaces import RdmaNamespaces

UNCONFIRMED = "enabled, network not confirmed"
AFTER = (
    "network-pre.target",
    "network.target",
    "systemd-udevd.service",
    "systemd-modules-load.service",
    "openibd.service",
)
UNIT_TEXT = f"""[Unit]
Description=VFs, MTU, addresses and RDMA links of this host (rocelab)
After={" ".join(AFTER)}
Before=kubelet.service containerd.service crio.service docker.service
Wants=network-pre.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
TimeoutStartSec={BOOT_LOCK_WAIT_S + DEADLINE_S + 60}
ExecStart=/usr/bin/env python3 -I {PROGRAM_FILE} boot

[Install]
WantedBy=multi-user.target
"""

APPEARS = f'ACTION!="remove", {{}}, TAG+="systemd", ENV{{{{SYSTEMD_WANTS}}}}+="{UNIT}"\n'
SOFT_ROCE_MODULE = "rdma_rxe"


class Persistence(Step):
    """The unit with its files, enabled at boot."""

    name = "unit"
    order = 810
    at_boot = True
    effects = {"unit": "none"}

    def target(self, document: Document) -> Fields:
        return {"unit": "enabled"}

    def observed(self, host: Host) -> Fields:
        wrong = host.machine.faults(self._files(host))
        wrong += [f"{path} is no longer needed" for path in self._left_over(host)]
        if host.machine.target(UNIT_LINK) != UNIT:
            wrong.append(f"{UNIT} not enabled")
        document_is_wrong = f"{DOCUMENT_FILE} " in " ".join(wrong)
        if (
            document_is_wrong
            and len(wrong) == 1
            and host.machine.content(UNCONFIRMED_FILE) == self._document(host)
        ):
            return {"unit": UNCONFIRMED}
        return {"unit": "; ".join(wrong) or "enabled"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine = host.machine
        for path, content in self._files(host).items():
            # an unconfirmed network must not come back after a power cycle
            place = (
                UNCONFIRMED_FILE if path == DOCUMENT_FILE and machine.exists(REVERT_FILE) else path
            )
            machine.ensure(place, content)
        for path in self._left_over(host):
            machine.remove(path)
        # the link is all that `systemctl enable` makes; no daemon-reload, since it detaches GPUs
        # from containers
        if machine.target(UNIT_LINK) != UNIT:
            machine.remove(UNIT_LINK)
            os.makedirs(os.path.dirname(machine.path(UNIT_LINK)), exist_ok=True)
            os.symlink(f"../{UNIT}", machine.path(UNIT_LINK))

    def files_to_write(self, host: Host) -> List[str]:
        paths = []
        for path, content in self._files(host).items():
            if host.machine.faults({path: content}):
                paths.append(path)
        enabled = host.machine.target(UNIT_LINK) == UNIT
        return paths + ([] if enabled else [UNIT_LINK])

    def _files(self, host: Host) -> Dict[str, bytes]:
        document = host.document
        sysctls = [
            f"net/ipv4/conf/{pf['interface']}/{key} = {ARP[key]}" for pf in host.pfs for key in ARP
        ]
        shared = int(RdmaNamespaces().at_next_boot(host) == "shared")
        return {
            MODULES_FILE: ("\n".join(document["modules"]) + "\n").encode(),
            SYSCTL_FILE: ("\n".join(sysctls) + "\n").encode(),
            UDEV_FILE: self._rules(host).encode(),
            MODPROBE_FILE: f"options ib_core netns_mode={shared}\n".encode(),
            UNIT_FILE: UNIT_TEXT.encode(),
            PROGRAM_FILE: host.program,
            DOCUMENT_FILE: self._document(host),
            **drop_ins(host),
        }

    def _rules(self, host: Host) -> str:
        """Rules by PCI address, so VFs, which the unit makes itself, do not start it again."""
        slots = []
        for slot in (lasting_pci_address(host, pf["interface"]) for pf in host.pfs):
            if slot:
                slots.append(slot)
        matches = [f'SUBSYSTEM=="net|infiniband", KERNELS=="{slot}"' for slot in slots]
        if SOFT_ROCE_MODULE in host.document["modules"]:
            matches.append(f'SUBSYSTEM=="module", KERNEL=="{SOFT_ROCE_MODULE}"')
        return MARK + "".join(APPEARS.format(match) for match in matches)

    def _left_over(self, host: Host) -> List[str]:
        """Files for network daemons that are no longer needed."""
        paths = []
        for path in DAEMON_FILES:
            if path not in drop_ins(host) and host.machine.exists(path):
                paths.append(path)
        return paths

    def _document(self, host: Host) -> bytes:
        """Encoded once until something changes: each step may look at it, and JSON with indentation
        is slow.
        """

        def encoded() -> bytes:
            return (json.dumps(host.document, indent=1, sort_keys=True) + "\n").encode()

        content: bytes = host.remembered(DOCUMENT_FILE, encoded)
        return content
