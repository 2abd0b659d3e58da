"""The program that runs on a host: it makes the host what one JSON document says, and puts back what was there.

One file, standard library only, Python 3.8 or newer, started with `python3 -I` as root. It reads a document on stdin
(`boot` and `revert` read files of their own) and prints one line of JSON; all else goes to stderr. A step that fails
and a reboot that is needed are data in that line, and the exit code is 0. It never builds a line for a shell.

Verbs: apply, probe, confirm, revert, undo, boot. Why Python: docs/decisions/0002-host-program-in-python.md.
"""

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

Value = Union[str, int, List[str]]
Fields = Dict[str, Value]
Document = Dict[str, Any]

SCHEMA = 1
LOCK_WAIT_S = 60
VF_WAIT_S = 120
DEADLINE_S = 420
"""Bound of a whole run: two PFs that each take the full VF wait, and the rest."""
BOOT_DEVICE_WAIT_S = 60

STATE = "/var/lib/rocelab"
RUN = "/run/rocelab"
LIBRARY = "/usr/local/lib/rocelab"
PROGRAM_FILE = LIBRARY + "/host.py"
DOCUMENT_FILE = STATE + "/document.json"
UNCONFIRMED_FILE = STATE + "/document.unconfirmed.json"
BASELINE_FILE = STATE + "/baseline.json"
REVERT_FILE = RUN + "/revert.json"
REVERTED_FILE = RUN + "/reverted.json"
REBOOT_FILE = RUN + "/needs-reboot"
"""The RDMA namespace mode that waits for a reboot, which takes this file away."""
LOCK_FILE = "/run/rocelab.lock"
COPIED_PROGRAM = ".rocelab-host.py"
"""Where the stack's copy of this program lies, in the home of the user who logs in."""

UNIT = "rocelab-rdma.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
UNIT_LINK = "/etc/systemd/system/multi-user.target.wants/" + UNIT
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
MODULES_FILE = "/etc/modules-load.d/rocelab.conf"
SYSCTL_FILE = "/etc/sysctl.d/60-rocelab.conf"
MODPROBE_FILE = "/etc/modprobe.d/rocelab.conf"
SYSTEM_FILES = (UNIT_LINK, UNIT_FILE, MODULES_FILE, SYSCTL_FILE, MODPROBE_FILE)

ARP = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}
"""Each rail answers for its own address only: several NICs of one host must not share their ARP."""
NETWORK_FILESYSTEMS = re.compile(r"^(nfs4?|cifs|smb3|ceph|lustre|glusterfs|beegfs|9p)$")
NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


class StepError(Exception):
    """A step that cannot be done: what was found, and what to do about it."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class Done(NamedTuple):
    """A program that has ended."""

    code: int
    out: str
    err: str


class Machine:
    """Files and programs of the host. Tests give it another root and other answers."""

    def __init__(self, root: str = "") -> None:
        self.root = root

    def path(self, path: str) -> str:
        """Where a file of the host lies under the root."""
        return self.root + path

    def exists(self, path: str) -> bool:
        """Whether there is such a file, folder or link, dangling ones included."""
        return os.path.lexists(self.path(path))

    def read(self, path: str) -> str:
        """The text without the blanks around it; empty when it cannot be read."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def write(self, path: str, value: str) -> None:
        """Sets an attribute of the kernel, which takes it in one write and answers by the error."""
        descriptor = os.open(self.path(path), os.O_WRONLY)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        """Installs a file whole: after a crash there is the old one or the new one."""
        target = self.path(path)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        with open(target + ".new", "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(target + ".new", target)

    def remove(self, path: str) -> bool:
        """Removes a file, a link or an empty folder; whether there was one."""
        target = self.path(path)
        try:
            os.rmdir(target) if os.path.isdir(target) and not os.path.islink(target) else os.remove(target)
        except OSError:
            return False
        return True

    def names(self, path: str) -> List[str]:
        """What a folder holds; nothing when there is no such folder."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def target(self, path: str) -> str:
        """Last part of what a link points to; empty when it is none."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return ""

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        """Runs a program with a bound on its time; one that is missing ends with 127."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "LC_ALL": "C"}
        try:
            ended = subprocess.run(
                words, input=stdin, capture_output=True, text=True, timeout=timeout_s, env=environment, check=False
            )
        except FileNotFoundError:
            return Done(127, "", f"{words[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Done(124, "", f"{words[0]} did not end within {timeout_s:.0f} s")
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def must(self, *words: str, stdin: str = "", timeout_s: float = 30) -> str:
        """Runs a program that has to succeed; what it printed."""
        done = self.run(*words, stdin=stdin, timeout_s=timeout_s)
        if done.code:
            said = " / ".join((done.err or done.out).strip().splitlines()[-3:])
            raise StepError(f"{' '.join(words)} failed ({done.code}): {said}", f"run it on the host; input: {stdin!r}")
        return done.out

    def now_s(self) -> float:
        """Seconds since the machine started; they go on over a change of its clock."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def wait(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it became so in time."""
        end = self.now_s() + timeout_s
        while not ready():
            if self.now_s() > end:
                return False
            self.pause(0.1)
        return True


class Vf(NamedTuple):
    """A virtual function, found through its PF's `virtfn` link: its netdev may be in a pod."""

    number: int
    path: str
    pci_address: str
    driver: str
    netdev: str


class Host:
    """One run on one host: the document, the machine, and what was found and done so far."""

    def __init__(self, machine: Machine, document: Document, program: str) -> None:
        self.machine, self.document, self.program = machine, document, program
        self.pfs: List[Dict[str, Any]] = document["pfs"]
        self.changed: List[str] = []
        self.needs_reboot: List[str] = []
        self.armed = self.booting = False
        self._links: Optional[Dict[str, Dict[str, Any]]] = None
        self._opened: Tuple[bool, Optional[Set[str]]] = (False, None)

    def links(self) -> Dict[str, Dict[str, Any]]:
        """Every netdev of the first namespace by name, as `ip` describes it."""
        if self._links is None:
            found = json.loads(self.machine.must("ip", "-j", "addr", "show"))
            self._links = {link["ifname"]: link for link in found if link.get("ifname")}
        return self._links

    def forget(self) -> None:
        """Looks again from here on: something has changed, or an old answer would be dangerous."""
        self._links, self._opened = None, (False, None)

    def ip_batch(self, lines: Sequence[str]) -> None:
        """Several changes of the network by one program."""
        if lines:
            self.forget()
            self.machine.must("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def addresses(self, netdev: str) -> List[str]:
        """Its IPv4 addresses with prefix length, sorted; those of one link only are left out."""
        infos = self.links().get(netdev, {}).get("addr_info", [])
        return sorted(
            f"{info['local']}/{info['prefixlen']}"
            for info in infos
            if info["family"] == "inet" and info.get("scope") != "link"
        )

    def is_up(self, netdev: str) -> bool:
        """Whether it is set up; a cable is another matter."""
        return "UP" in self.links().get(netdev, {}).get("flags", [])

    def vfs(self, pf: str) -> List[Vf]:
        """The VFs of a PF in their order."""
        device, machine = f"/sys/class/net/{pf}/device", self.machine
        found = []
        for name in machine.names(device):
            if name.startswith("virtfn"):
                path = f"{device}/{name}"
                netdev = (machine.names(path + "/net") or [""])[0]
                found.append(Vf(int(name[6:]), path, machine.target(path), machine.target(path + "/driver"), netdev))
        return sorted(found)

    def rdma_parents(self) -> Dict[str, str]:
        """The netdev under each soft-RoCE device. Devices of a NIC have no such attribute and are left out."""
        root = "/sys/class/infiniband"
        found = {name: self.machine.read(f"{root}/{name}/parent") for name in self.machine.names(root)}
        return {name: parent for name, parent in found.items() if parent}

    def rdma_devices(self, pf: str) -> List[str]:
        """RDMA devices of a PF: the NIC's own, and soft-RoCE over its netdev."""
        own = self.machine.names(f"/sys/class/net/{pf}/device/infiniband")
        return sorted({*own, *(name for name, parent in self.rdma_parents().items() if parent == pf)})

    def uses(self, pf: str) -> Dict[int, str]:
        """Why each VF in use must be left alone, by its index. What cannot be known counts as in use."""
        vfs = self.vfs(pf)
        allocated = self._allocated_devices() if vfs else set()
        devices = {vf.number: self._rdma_devices_of(vf) for vf in vfs}
        open_on = self.opened_devices() if any(devices.values()) else set()
        found = {vf.number: self._use(vf, allocated, devices[vf.number], open_on) for vf in vfs}
        return {index: reason for index, reason in found.items() if reason}

    def _use(self, vf: Vf, allocated: Optional[Set[str]], devices: List[str], open_on: Optional[Set[str]]) -> str:
        above = [name[6:] for name in self.machine.names(f"{vf.path}/net/{vf.netdev}") if name.startswith("upper_")]
        busy = devices if open_on is None else [name for name in devices if name in open_on]
        reasons = (
            (vf.driver.startswith("vfio"), f"bound to {vf.driver}"),
            (vf.driver and not vf.netdev, "its netdev is in another network namespace"),
            (allocated is None, "kubelet's checkpoint cannot be read, so a pod may have it"),
            (vf.pci_address in (allocated or ()), "allocated to a pod"),
            (vf.netdev and above, f"{' '.join(above)} is built on it"),
            (busy and open_on is None, "who uses its RDMA device cannot be listed"),
            (busy, f"a process has {' '.join(busy)} open"),
        )
        return next((reason for holds, reason in reasons if holds), "")

    def _rdma_devices_of(self, vf: Vf) -> List[str]:
        soft = [name for name, parent in self.rdma_parents().items() if vf.netdev and parent == vf.netdev]
        return self.machine.names(vf.path + "/infiniband") + soft

    def _allocated_devices(self) -> Optional[Set[str]]:
        """PCI addresses that kubelet has given to pods; None when its list is there and cannot be read."""
        if not self.machine.exists(CHECKPOINT):
            return set()
        try:
            entries = json.loads(self.machine.read(CHECKPOINT))["Data"]["PodDeviceEntries"] or []
            given: Set[str] = set()
            for entry in entries:
                devices = entry["DeviceIDs"]  # by NUMA node since Kubernetes 1.20, a plain list before
                for part in devices.values() if isinstance(devices, dict) else [devices]:
                    given.update(part)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return given

    def opened_devices(self) -> Optional[Set[str]]:
        """RDMA devices that a process has open; None when that cannot be listed.

        Open is enough, without a queue pair: the kernel waits for the last process when such a device is removed,
        and who removes it hangs beyond any signal (seen with soft-RoCE on a VF).
        """
        known, found = self._opened
        if not known:
            done = self.machine.run("rdma", "-j", "resource", "show")
            try:
                devices = None if done.code else json.loads(done.out or "[]")
                found = None if devices is None else {device["ifname"] for device in devices if _is_open(device)}
            except (ValueError, KeyError, TypeError):
                found = None
            self._opened = (True, found)
        return found


def _is_open(device: Dict[str, Any]) -> bool:
    # kernels before 5.8 do not count contexts; one queue pair is the kernel's own
    return bool(device.get("ctx", device["qp"] > 1) or device["cm_id"])


class Step:
    """One aspect of a host. `wanted` and `observed` have the same fields, so that equal means conforming."""

    name = ""

    def wanted(self, document: Document) -> Fields:
        """What the document asks for."""
        raise NotImplementedError

    def observed(self, host: Host) -> Fields:
        """What is."""
        raise NotImplementedError

    def apply(self, host: Host, wrong: Set[str]) -> None:
        """Makes the fields that are wrong right."""
        raise NotImplementedError

    def undo(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        """Puts PFs back to what the baseline recorded."""


class Arp(Step):
    """Kernel settings that keep each rail's ARP to itself."""

    name = "arp"

    def wanted(self, document: Document) -> Fields:
        return {f"{pf['interface']}.arp": " ".join(f"{key}={ARP[key]}" for key in ARP) for pf in document["pfs"]}

    def observed(self, host: Host) -> Fields:
        return {f"{pf['interface']}.arp": self._found(host, pf["interface"]) for pf in host.pfs}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for field in wrong:
            for key, value in ARP.items():
                host.machine.write(f"/proc/sys/net/ipv4/conf/{_interface(field)}/{key}", str(value))

    def undo(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        for pf, before in pfs.items():
            for key, value in before["sysctls"].items():
                host.machine.write(f"/proc/sys/net/ipv4/conf/{pf}/{key}", value)

    def _found(self, host: Host, pf: str) -> str:
        return " ".join(f"{key}={host.machine.read(f'/proc/sys/net/ipv4/conf/{pf}/{key}')}" for key in ARP)


class Modules(Step):
    """Kernel modules that RDMA needs beside the NIC's driver."""

    name = "modules"

    def wanted(self, document: Document) -> Fields:
        return {"modules": sorted(document["modules"])}

    def observed(self, host: Host) -> Fields:
        return {"modules": [name for name in sorted(host.document["modules"]) if _loaded(host, name)]}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        missing = [name for name in host.document["modules"] if not _loaded(host, name)]
        host.machine.must("modprobe", "-a", *missing)

    def remove_ours(self, host: Host, ours: Iterable[str]) -> None:
        """Unloads what we loaded, where nothing uses it by now."""
        for name in ours:
            if host.machine.read(f"/sys/module/{name}/refcnt") == "0":
                host.machine.run("modprobe", "-r", name)


class RdmaNamespaces(Step):
    """Whether all network namespaces see each RDMA device, or only the one that owns it."""

    name = "rdma_namespaces"

    def wanted(self, document: Document) -> Fields:
        return {"rdma_namespaces": document["rdma_namespaces"]}

    def observed(self, host: Host) -> Fields:
        return {"rdma_namespaces": namespaces_mode(host)}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        mode = host.document["rdma_namespaces"]
        done = host.machine.run("rdma", "system", "set", "netns", mode)
        if done.code and "busy" not in done.err.lower():
            raise StepError(f"rdma system set netns {mode} failed: {done.err.strip()}", "is iproute2 older than 5.2?")
        if done.code:  # the kernel changes it only while there is one network namespace: before the first pod
            host.machine.put(REBOOT_FILE, mode + "\n")


class Link(Step):
    """MTU, administrative state and IPv4 address of each PF. The PF is ours: other addresses on it are removed."""

    name = "link"

    def wanted(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            name = pf["interface"]
            fields.update(
                {f"{name}.mtu_bytes": pf["mtu_bytes"], f"{name}.link": "up", f"{name}.address": pf["address"]}
            )
        return fields

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            name = pf["interface"]
            fields[f"{name}.mtu_bytes"] = host.links().get(name, {}).get("mtu", 0)
            fields[f"{name}.link"] = "up" if host.is_up(name) else "down"
            fields[f"{name}.address"] = " ".join(host.addresses(name)) or "none"
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        lines = []
        concerned = {_interface(field) for field in wrong}
        for pf in host.pfs:
            name = pf["interface"]
            if name in concerned:
                wanted = {"mtu_bytes": pf["mtu_bytes"], "up": True, "addresses": [pf["address"]]}
                chosen = {key: wanted[key] for key, field in LINK_FIELDS.items() if f"{name}.{field}" in wrong}
                lines += link_changes(host, name, {**link_state(host, name), **chosen})
        arm_revert(host, concerned)
        host.ip_batch(lines)

    def undo(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        # not armed: what comes back is the state in which the host was reached before we first changed it
        host.ip_batch([line for pf, before in pfs.items() for line in link_changes(host, pf, before)])


class Vfs(Step):
    """Number of VFs, and the address of each idle one. A VF in use is never removed and never changed.

    While the number is wrong it is all that is wrong: addresses and MTU come with the VFs.
    """

    name = "vfs"

    def wanted(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            fields[f"{pf['interface']}.vfs"] = pf["vfs"]
            if pf["vfs"]:
                fields[f"{pf['interface']}.vf_macs"] = OWN_MACS
        return fields

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            name, vfs = pf["interface"], host.vfs(pf["interface"])
            fields[f"{name}.vfs"] = len(vfs)
            if pf["vfs"]:
                odd = self._with_foreign_address(host, name) if len(vfs) == pf["vfs"] else []
                fields[f"{name}.vf_macs"] = ", ".join(f"VF {vf.number} {self._mac(host, vf)}" for vf in odd) or OWN_MACS
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pfs = {pf["interface"]: pf["vfs"] for pf in host.pfs}
        resized = [name for name in pfs if f"{name}.vfs" in wrong]
        for name in resized:
            refuse_vfs_in_use(host, name, pfs[name])
        for name in resized:
            create_vfs(host, name, pfs[name])
        self._give_addresses(host, [name for name in pfs if name in resized or f"{name}.vf_macs" in wrong])

    def undo(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        for pf, before in pfs.items():
            if len(host.vfs(pf)) != before["vfs"]:
                refuse_vfs_in_use(host, pf, before["vfs"])
                create_vfs(host, pf, before["vfs"])
                bind_vfs(host, host.vfs(pf))

    def _mac(self, host: Host, vf: Vf) -> str:
        return host.machine.read(f"{vf.path}/net/{vf.netdev}/address") if vf.netdev else "no driver"

    def _with_foreign_address(self, host: Host, pf: str) -> List[Vf]:
        """Idle VFs that have not the address of this host's document. One in use has what its pod wants."""
        uses = host.uses(pf)
        idle = [vf for vf in host.vfs(pf) if vf.number not in uses]
        return [vf for vf in idle if self._mac(host, vf) != vf_mac(host.document, pf, vf.number)]

    def _give_addresses(self, host: Host, pfs: Iterable[str]) -> None:
        # the PF's table is asked when a VF's driver starts, so the address comes first and the driver after it
        lines, starting = [], []
        for name in pfs:
            for vf in self._with_foreign_address(host, name):
                lines.append(f"link set dev {name} vf {vf.number} mac {vf_mac(host.document, name, vf.number)}")
                starting.append(vf)
        host.ip_batch(lines)
        for vf in starting:
            if vf.driver:
                host.machine.write(f"{vf.path}/driver/unbind", vf.pci_address)
        bind_vfs(host, starting)


class VfMtu(Step):
    """MTU of idle VFs: it does not follow the PF's, and a pod's interface keeps what the VF has."""

    name = "vf_mtu"

    def wanted(self, document: Document) -> Fields:
        return {f"{pf['interface']}.vf_mtu_bytes": pf["vf_mtu_bytes"] for pf in document["pfs"] if pf["vfs"]}

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            if pf["vfs"]:
                complete = len(host.vfs(pf["interface"])) == pf["vfs"]
                paths = self._idle(host, pf["interface"]) if complete else []
                odd = {int(host.machine.read(path) or 0) for path in paths} - {pf["vf_mtu_bytes"]}
                fields[f"{pf['interface']}.vf_mtu_bytes"] = min(odd) if odd else pf["vf_mtu_bytes"]
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for pf in host.pfs:
            if f"{pf['interface']}.vf_mtu_bytes" in wrong:
                for path in self._idle(host, pf["interface"]):
                    host.machine.write(path, str(pf["vf_mtu_bytes"]))

    def _idle(self, host: Host, pf: str) -> List[str]:
        uses = host.uses(pf)
        return [f"{vf.path}/net/{vf.netdev}/mtu" for vf in host.vfs(pf) if vf.netdev and vf.number not in uses]


class RdmaDevice(Step):
    """The RDMA device of each PF: the NIC's own, or a soft-RoCE link that stands in for one."""

    name = "rdma_device"

    def wanted(self, document: Document) -> Fields:
        return {f"{pf['interface']}.rdma_device": pf["rdma_device"] for pf in document["pfs"]}

    def observed(self, host: Host) -> Fields:
        return {
            f"{pf['interface']}.rdma_device": " ".join(host.rdma_devices(pf["interface"])) or "none" for pf in host.pfs
        }

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pfs = [pf for pf in host.pfs if f"{pf['interface']}.rdma_device" in wrong]
        for pf in pfs:
            if not pf["soft_roce"]:
                found = " ".join(host.rdma_devices(pf["interface"])) or "none"
                raise StepError(
                    f"{pf['interface']} has RDMA device {found}, not {pf['rdma_device']}",
                    "none: is mlx5_ib loaded? another name: write it as rdma_device of this PF",
                )
        parents = host.rdma_parents()
        interfaces, devices = {pf["interface"] for pf in pfs}, {pf["rdma_device"] for pf in pfs}
        for name, parent in parents.items():
            if parent in interfaces or name in devices:
                delete_soft_link(host, name)
        for pf in pfs:
            host.machine.must("rdma", "link", "add", pf["rdma_device"], "type", "rxe", "netdev", pf["interface"])

    def undo(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        for name, parent in host.rdma_parents().items():
            if parent in pfs and name not in pfs[parent]["rdma_devices"]:
                delete_soft_link(host, name)


class Persistence(Step):
    """What brings all of it back after a reboot: a unit, this program, its document, and three drop-ins."""

    name = "unit"

    def wanted(self, document: Document) -> Fields:
        return {"unit": "enabled"}

    def observed(self, host: Host) -> Fields:
        wrong = [
            f"{path} {'altered' if host.machine.exists(path) else 'missing'}"
            for path, text in self._files(host).items()
            if host.machine.read(path) != text.strip()
        ]
        if host.machine.target(UNIT_LINK) != UNIT:
            wrong.append(f"{UNIT} not enabled")
        document_is_wrong = f"{DOCUMENT_FILE} " in " ".join(wrong)
        if (
            document_is_wrong
            and len(wrong) == 1
            and host.machine.read(UNCONFIRMED_FILE) == self._document(host).strip()
        ):
            return {"unit": UNCONFIRMED}
        return {"unit": "; ".join(wrong) or "enabled"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine = host.machine
        for path, text in self._files(host).items():
            # a network that nobody has confirmed must not come back by itself after a power cycle
            place = UNCONFIRMED_FILE if path == DOCUMENT_FILE and machine.exists(REVERT_FILE) else path
            if machine.read(place) != text.strip():
                machine.put(place, text)
        # the link is all that `systemctl enable` makes; no daemon-reload, since it detaches GPUs from containers
        if machine.target(UNIT_LINK) != UNIT:
            machine.remove(UNIT_LINK)
            os.makedirs(os.path.dirname(machine.path(UNIT_LINK)), exist_ok=True)
            os.symlink(f"../{UNIT}", machine.path(UNIT_LINK))

    def _files(self, host: Host) -> Dict[str, str]:
        document = host.document
        sysctls = [f"net/ipv4/conf/{pf['interface']}/{key} = {ARP[key]}" for pf in host.pfs for key in ARP]
        shared = int(document["rdma_namespaces"] == "shared")
        return {
            MODULES_FILE: "\n".join(document["modules"]) + "\n",
            SYSCTL_FILE: "\n".join(sysctls) + "\n",
            MODPROBE_FILE: f"options ib_core netns_mode={shared}\n",
            UNIT_FILE: UNIT_TEXT,
            PROGRAM_FILE: host.program,
            DOCUMENT_FILE: self._document(host),
        }

    def _document(self, host: Host) -> str:
        return json.dumps(host.document, indent=1, sort_keys=True) + "\n"


OWN_MACS = "own"
"""Each VF has the address that `vf_mac` gives it."""
UNCONFIRMED = "enabled, network not confirmed"
LINK_FIELDS = {"mtu_bytes": "mtu_bytes", "up": "link", "addresses": "address"}
MODULES, NAMESPACES, PERSISTENCE = Modules(), RdmaNamespaces(), Persistence()
STEPS: Tuple[Step, ...] = (MODULES, NAMESPACES, Arp(), Link(), Vfs(), VfMtu(), RdmaDevice(), PERSISTENCE)
"""In this order; undone the other way round."""


def wanted_fields(document: Document) -> Fields:
    """What a conforming host answers to `probe`: pure, so that a preview can compare without a connection."""
    fields: Fields = {}
    for step in STEPS:
        fields.update(step.wanted(document))
    return fields


def vf_mac(document: Document, pf: str, number: int) -> str:
    """Address of a VF: locally administered, and the same after each reboot, so that no neighbour is surprised."""
    digest = hashlib.sha256(f"{document['lab']}/{document['host']}/{pf}/{number}".encode()).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])


def _interface(field: str) -> str:
    return field.rpartition(".")[0]


def _loaded(host: Host, module: str) -> bool:
    return host.machine.exists(f"/sys/module/{module}")


def namespaces_mode(host: Host) -> str:
    """The mode that holds now. The kernel's parameter follows `rdma system set`."""
    return {"Y": "shared", "N": "exclusive"}.get(host.machine.read(NETNS_MODE), "ib_core not loaded")


# -- links


def link_state(host: Host, pf: str) -> Dict[str, Any]:
    """What a revert or an undo of a PF's link needs."""
    mtu = host.links().get(pf, {}).get("mtu", 0)
    return {"mtu_bytes": mtu, "up": host.is_up(pf), "addresses": host.addresses(pf)}


def link_changes(host: Host, pf: str, wanted: Dict[str, Any]) -> List[str]:
    """Lines for `ip -batch` that lead from what is to what is wanted."""
    now = link_state(host, pf)
    lines = [f"address del {address} dev {pf}" for address in now["addresses"] if address not in wanted["addresses"]]
    if now["mtu_bytes"] != wanted["mtu_bytes"]:
        lines.append(f"link set dev {pf} mtu {wanted['mtu_bytes']}")
    if now["up"] != wanted["up"]:
        lines.append(f"link set dev {pf} {'up' if wanted['up'] else 'down'}")
    if lines or now["addresses"] != wanted["addresses"]:
        # replace: with the first address of a subnet the kernel may drop the others, the wanted one among them
        lines += [f"address replace {address} dev {pf}" for address in wanted["addresses"]]
    return lines


def delete_soft_link(host: Host, name: str) -> None:
    """Removes a soft-RoCE device that nobody uses."""
    host.forget()
    busy = host.opened_devices()
    if busy is None or name in busy:
        raise StepError(f"a process has {name} open, or that cannot be listed", "end what uses it, then run again")
    host.machine.must("rdma", "link", "delete", name)


# -- VFs


def refuse_vfs_in_use(host: Host, pf: str, wanted: int) -> None:
    """The kernel changes a count only by removing every VF first, so one in use forbids it."""
    host.forget()
    device, uses = f"/sys/class/net/{pf}/device", host.uses(pf)
    if uses:
        index = min(uses)
        raise StepError(
            f"{pf} has {len(host.vfs(pf))} VFs and {wanted} are wanted, but VF {index} is in use: {uses[index]}",
            "drain the node or delete the pods that use its VFs, then run again",
        )
    most = int(host.machine.read(device + "/sriov_totalvfs") or 0)
    if wanted > most:
        raise StepError(
            f"{pf} offers {most} VFs and {wanted} are wanted",
            "enable SR-IOV in the firmware of machine and NIC (mlxconfig SRIOV_EN, NUM_OF_VFS), or lower vfs",
        )


def create_vfs(host: Host, pf: str, count: int) -> None:
    """Sets the number of VFs and leaves them without driver, so that each starts once, with its address."""
    machine, device = host.machine, f"/sys/class/net/{pf}/device"
    autoprobe = machine.exists(device + "/sriov_drivers_autoprobe")
    try:
        if autoprobe:
            machine.write(device + "/sriov_drivers_autoprobe", "0")
        if host.vfs(pf):
            machine.write(device + "/sriov_numvfs", "0")  # the kernel refuses to go from one count to another
        if count:
            machine.write(device + "/sriov_numvfs", str(count))
    except OSError as error:
        raise StepError(
            f"{pf} refuses {count} VFs: {error.strerror}", "its driver's limit may be lower; dmesg says more"
        ) from None
    finally:
        if autoprobe:
            machine.write(device + "/sriov_drivers_autoprobe", "1")
    if not machine.wait(lambda: len(host.vfs(pf)) == count, VF_WAIT_S):
        raise StepError(f"{pf} has {len(host.vfs(pf))} of {count} VFs after {VF_WAIT_S} s", "dmesg says why")


def bind_vfs(host: Host, vfs: Iterable[Vf]) -> None:
    """Starts the driver of VFs and waits for their netdevs under their final names."""
    machine, paths = host.machine, []
    for vf in vfs:
        autoprobe = f"{vf.path}/physfn/sriov_drivers_autoprobe"
        if machine.read(autoprobe) == "0":
            machine.write(autoprobe, "1")  # off: a run before this one was killed between its two writes
        if not machine.target(f"{vf.path}/driver"):
            machine.write("/sys/bus/pci/drivers_probe", vf.pci_address)
        paths.append(vf.path)
    if not paths:
        return
    if not machine.wait(lambda: all(machine.names(path + "/net") for path in paths), VF_WAIT_S):
        late = [path for path in paths if not machine.names(path + "/net")]
        raise StepError(f"no netdev for {', '.join(late)} after {VF_WAIT_S} s", "is the VFs' driver loaded? See dmesg")
    machine.run("udevadm", "settle", "--timeout=30")  # udev renames them


# -- what must never be touched


def refuse_what_carries_the_host(host: Host, pfs: Iterable[str]) -> None:
    """Refuses a PF over which the host is managed, routed, logged in to, or has files mounted."""
    carriers = _carriers(host)
    for pf in pfs:
        if pf in carriers:
            raise StepError(
                f"{pf} is refused as a rail: {carriers[pf]}",
                "its changes could cut this host off; name another NIC in the lab file, or set the node to drained",
            )
        if pf not in host.links():
            known = ", ".join(sorted(name for name in host.links() if name != "lo"))
            raise StepError(f"{pf} is no network device of this host; it has {known}", "mend interface of this PF")


def _carriers(host: Host) -> Dict[str, str]:
    """Devices that must not be touched, each with the reason; with what is under and above them."""
    machine, found = host.machine, {host.document["management_interface"]: "it is the management interface"}
    for line in machine.read("/proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            found.setdefault(words[0], "the default route leaves by it")
    for line in machine.read("/proc/net/ipv6_route").splitlines():
        words = line.split()
        if len(words) > 9 and words[1] == "00" and words[9] != "lo":
            found.setdefault(words[9], "the default IPv6 route leaves by it")
    session = _session_address(machine)
    for name, link in host.links().items():
        if session and session in [info.get("local") for info in link.get("addr_info", [])]:
            found.setdefault(name, "this SSH session arrives on it")
    for server, place in _file_servers(machine):
        route = re.search(r"\bdev (\S+)", machine.run("ip", "route", "get", server).out)
        if route:
            found.setdefault(route[1], f"{place} is mounted over it")
    todo = list(found)
    while todo:
        name = todo.pop()
        for entry in machine.names(f"/sys/class/net/{name}"):
            kind, _, other = entry.partition("_")
            if kind in ("lower", "upper") and other and other not in found:
                found[other] = f"it belongs together with {name}, and {found[name]}"
                todo.append(other)
    return found


def _session_address(machine: Machine) -> str:
    """This side's address of the SSH session. sudo hides the variable, so the parents are asked too."""
    value, pid = os.environ.get("SSH_CONNECTION", ""), os.getpid()
    while not value and pid > 1:
        given = re.search(r"(?:^|\0)SSH_CONNECTION=([^\0]*)", machine.read(f"/proc/{pid}/environ"))
        value = given[1] if given else ""
        parent = re.search(r"^PPid:\s*(\d+)", machine.read(f"/proc/{pid}/status"), re.MULTILINE)
        pid = int(parent[1]) if parent else 0
    words = value.split()
    return words[2] if len(words) == 4 else ""


def _file_servers(machine: Machine) -> List[Tuple[str, str]]:
    """IPv4 address and mount point of each mounted network filesystem."""
    found = []
    for line in machine.read("/proc/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and NETWORK_FILESYSTEMS.match(words[2]):
            addresses = re.findall(
                r"\d+\.\d+\.\d+\.\d+", words[0] + " " + " ".join(re.findall(r"\baddr=\S+", words[3]))
            )
            found += [(address, words[1]) for address in sorted(set(addresses))]
    return found


# -- baseline


def load_json(machine: Machine, path: str) -> Dict[str, Any]:
    """A file of ours; empty when it is missing."""
    text = machine.read(path)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        raise StepError(f"{path} is damaged", "move it away; what it recorded is lost") from None
    return found if isinstance(found, dict) else {}


def record_baseline(host: Host) -> None:
    """Writes down what was there before us, before anything changes. What is recorded already stays."""
    baseline = load_json(host.machine, BASELINE_FILE)
    if not baseline:
        ours = [name for name in host.document["modules"] if not _loaded(host, name)]
        baseline = {"schema": SCHEMA, "loaded_by_us": ours, "rdma_namespaces": namespaces_mode(host), "pfs": {}}
    new = [pf["interface"] for pf in host.pfs if pf["interface"] not in baseline["pfs"]]
    for name in new:
        sysctls = {key: host.machine.read(f"/proc/sys/net/ipv4/conf/{name}/{key}") for key in ARP}
        found = {"vfs": len(host.vfs(name)), "sysctls": sysctls, "rdma_devices": host.rdma_devices(name)}
        baseline["pfs"][name] = {**link_state(host, name), **found}
    if new:
        host.machine.put(BASELINE_FILE, json.dumps(baseline, indent=1, sort_keys=True) + "\n")


def give_back(host: Host, names: Iterable[str]) -> None:
    """Puts PFs back to the baseline and forgets them there."""
    baseline = load_json(host.machine, BASELINE_FILE)
    failed: List[StepError] = []
    for name in names:
        before = baseline["pfs"][name]
        try:
            if name in host.links():
                refuse_what_carries_the_host(host, [name])
                for step in reversed(STEPS):
                    step.undo(host, {name: before})
                host.changed.append(name)
            del baseline["pfs"][name]
        except (StepError, OSError) as error:
            failed.append(error if isinstance(error, StepError) else StepError(f"{name}: {error}"))
    host.machine.put(BASELINE_FILE, json.dumps(baseline, indent=1, sort_keys=True) + "\n")
    if failed:
        raise failed[0]


# -- the revert


def arm_revert(host: Host, pfs: Iterable[str]) -> None:
    """Makes the host put these links back by itself unless a new connection confirms them in time."""
    if host.booting:
        return  # what is applied at boot was confirmed before
    machine, after_s = host.machine, host.document["revert_after_s"]
    pending = load_json(machine, REVERT_FILE)
    links = pending.get("links", {})
    for pf in pfs:
        links.setdefault(pf, link_state(host, pf))  # while one is pending, its older values are the proven ones
    machine.put(REVERT_FILE, json.dumps({"deadline_s": machine.now_s() + after_s, "links": links}) + "\n")
    machine.remove(REVERTED_FILE)
    if host.armed:
        return
    host.armed = True
    copy = RUN + "/host.py"
    machine.put(copy, host.program)
    command = ["python3", "-I", copy, "revert"]
    if machine.exists("/run/systemd/system"):
        timer = [f"--unit=rocelab-revert-{os.getpid()}", f"--on-active={after_s}", "--timer-property=AccuracySec=1s"]
        machine.must("systemd-run", "--quiet", "--collect", *timer, "--", "/usr/bin/env", *command)
    else:
        subprocess.Popen(  # it sleeps until the deadline by itself
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def revert(machine: Machine) -> int:
    """Waits for the deadline, which a running apply may move, and puts the links back."""
    while True:
        with locked(machine, wait_s=DEADLINE_S):
            pending = load_json(machine, REVERT_FILE)
            left_s = pending["deadline_s"] - machine.now_s() if pending else 0
            if not pending:
                return 0
            if left_s <= 0:
                host = Host(machine, {"pfs": []}, "")
                host.ip_batch(
                    [line for pf, before in pending["links"].items() for line in link_changes(host, pf, before)]
                )
                machine.put(REVERTED_FILE, json.dumps(sorted(pending["links"])) + "\n")
                machine.remove(UNCONFIRMED_FILE)
                machine.remove(REVERT_FILE)
                return 0
        machine.pause(min(left_s + 0.2, 30))


class locked:  # noqa: N801  # read as a word of a sentence: with locked(...)
    """One run at a time on a host; the second waits, and a killed one leaves nothing behind."""

    def __init__(self, machine: Machine, wait_s: float = LOCK_WAIT_S) -> None:
        self.machine, self.wait_s, self.descriptor = machine, wait_s, -1

    def __enter__(self) -> None:
        if not self.machine.wait(self._taken, self.wait_s):
            raise StepError(
                f"another run holds {LOCK_FILE} for more than {self.wait_s:.0f} s", "wait until it ends, then run again"
            )

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def _taken(self) -> bool:
        path = self.machine.path(LOCK_FILE)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # undo removes the file: a lock on the removed one would keep nobody out
            if os.stat(path).st_ino == os.fstat(self.descriptor).st_ino:
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(self.descriptor)
        return False


# -- verbs


def wrong_fields(host: Host, step: Step, only: Optional[Set[str]] = None) -> Dict[str, Tuple[Value, Value]]:
    """Found and wanted of each field of a step that does not conform, as far as it may be repaired."""
    observed = step.observed(host)
    return {
        field: (observed[field], value)
        for field, value in step.wanted(host.document).items()
        if observed[field] != value and (only is None or field in only)
    }


def apply(host: Host, only: Optional[Set[str]]) -> Optional[Dict[str, str]]:
    """Does each step whose fields are wrong; the first failure, after all steps were tried."""
    refuse_what_carries_the_host(host, [pf["interface"] for pf in host.pfs])
    for pf in host.pfs:
        driver = host.machine.target(f"/sys/class/net/{pf['interface']}/device/driver")
        if driver != pf["driver"]:
            raise StepError(f"{pf['interface']} runs on {driver or 'no'} driver, not {pf['driver']}", "mend driver")
    record_baseline(host)
    gone = set(load_json(host.machine, BASELINE_FILE)["pfs"]) - {pf["interface"] for pf in host.pfs}
    if gone:
        give_back(host, sorted(gone))
    failed = None
    for step in STEPS:
        try:
            apply_step(host, step, only)
        except StepError as error:
            # the other steps do not build on this one, and a host half made is mended sooner
            failed = failed or failure(step.name, error)
    if host.armed:
        arm_revert(host, [])  # the time to confirm counts from the end of the work
    return failed


def apply_step(host: Host, step: Step, only: Optional[Set[str]]) -> None:
    """Check, apply, verify."""
    wrong = wrong_fields(host, step, only)
    if not wrong or (awaits_confirmation(wrong) and host.machine.exists(REVERT_FILE)):
        return
    try:
        step.apply(host, set(wrong))
    except OSError as error:
        raise StepError(f"{error.filename or step.name}: {error.strerror or error}", "dmesg may say more") from None
    still = wrong_fields(host, step, only)
    if step is NAMESPACES and still:
        return  # reported as a needed reboot
    if still and not awaits_confirmation(still):
        field = min(still)
        found, wanted = still[field]
        raise StepError(f"{field} is {found} after it was set to {wanted}", "something else on this host sets it too")
    host.changed += sorted(wrong)


def awaits_confirmation(wrong: Dict[str, Tuple[Value, Value]]) -> bool:
    """Whether all is in place, and only the word of a new connection is missing."""
    return "unit" in wrong and wrong["unit"][0] == UNCONFIRMED


def confirm(host: Host) -> None:
    """A new connection has come in, so the network that it came over stays."""
    machine = host.machine
    if machine.remove(REVERT_FILE):
        host.changed.append("confirmed")
    if machine.exists(UNCONFIRMED_FILE):
        machine.put(DOCUMENT_FILE, machine.read(UNCONFIRMED_FILE) + "\n")
        machine.remove(UNCONFIRMED_FILE)


def undo(host: Host) -> None:
    """Leaves the host as it was before us. Packages stay."""
    machine = host.machine
    machine.remove(REVERT_FILE)
    runs = machine.names("/run/systemd/transient") + machine.names("/run/systemd/units")
    if any("rocelab-" in name for name in runs):
        machine.run("systemctl", "stop", UNIT, "rocelab-revert-*.timer")
    host.changed += [path for path in SYSTEM_FILES if machine.remove(path)]
    for path in (
        PROGRAM_FILE,
        LIBRARY,
        DOCUMENT_FILE,
        UNCONFIRMED_FILE,
        RUN + "/host.py",
        REVERTED_FILE,
        REBOOT_FILE,
        RUN,
    ):
        machine.remove(path)
    _remove_copied_program(machine)
    baseline = load_json(machine, BASELINE_FILE)
    if baseline:
        give_back(host, sorted(baseline["pfs"]))
        if baseline["rdma_namespaces"] not in ("ib_core not loaded", namespaces_mode(host)):
            machine.run("rdma", "system", "set", "netns", baseline["rdma_namespaces"])  # else at the next boot
        MODULES.remove_ours(host, reversed(baseline["loaded_by_us"]))
        machine.remove(BASELINE_FILE)
    machine.remove(STATE)
    machine.remove(LOCK_FILE)


def _remove_copied_program(machine: Machine) -> None:
    user = os.environ.get("SUDO_USER", "")
    for line in machine.read("/etc/passwd").splitlines():
        words = line.split(":")
        if user and words[0] == user:
            machine.remove(f"{words[5]}/{COPIED_PROGRAM}")


def probe(host: Host) -> Fields:
    """Every field as it is."""
    fields: Fields = {}
    for step in STEPS:
        fields.update(step.observed(host))
    return fields


def facts(host: Host) -> Dict[str, Any]:
    """What only the host knows."""
    machine = host.machine
    names = [pf["interface"] for pf in host.pfs if pf["interface"] in host.links()]
    found: Dict[str, Any] = {
        "machine_id": machine.read("/etc/machine-id"),
        "boot_id": machine.read("/proc/sys/kernel/random/boot_id"),
        "kernel": machine.read("/proc/sys/kernel/osrelease"),
        "carrier": {name: machine.read(f"/sys/class/net/{name}/carrier") == "1" for name in names},
        "rdma": {pf["rdma_device"]: "soft-RoCE, simulated" if pf["soft_roce"] else pf["driver"] for pf in host.pfs},
        "vfs_in_use": {f"{name} VF {index}": reason for name in names for index, reason in host.uses(name).items()},
    }
    if machine.exists(REVERTED_FILE):
        found["reverted"] = load_json_list(machine, REVERTED_FILE)
    return found


def load_json_list(machine: Machine, path: str) -> List[str]:
    """A list that we wrote."""
    try:
        return [str(item) for item in json.loads(machine.read(path))]
    except (ValueError, TypeError):
        return []


def failure(step: str, error: StepError) -> Dict[str, str]:
    """A failed step as data."""
    return {"step": step, "reason": error.reason[:1500], "hint": error.hint[:500]}


def read_document(text: str) -> Document:
    """The document on stdin.

    Raises:
        StepError: when it is none of this program's schema.
    """
    try:
        document = json.loads(text)
        known = document["schema"] == SCHEMA and isinstance(document["pfs"], list)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise StepError(f"stdin holds no document of schema {SCHEMA}", "run pulumi up: it sends one")
    return dict(document)


def perform(verb: str, machine: Machine, text: str, program: str) -> Dict[str, Any]:
    """Runs one verb; the result as data, whatever happens."""
    result: Dict[str, Any] = {
        "schema": SCHEMA, "host": "", "changed": [], "needs_reboot": [], "facts": {}, "fields": {}, "failed": None
    }  # fmt: skip
    host, step = None, verb
    try:
        document = read_document(text)
        only = document.pop("only", None)
        result["host"] = document["host"]
        host = Host(machine, document, program)
        if verb == "boot":
            host.booting = True
            names = [pf["interface"] for pf in host.pfs]
            machine.wait(lambda: all(machine.exists(f"/sys/class/net/{name}") for name in names), BOOT_DEVICE_WAIT_S)
        if verb in ("apply", "boot"):
            with locked(machine):
                result["failed"] = apply(host, None if only is None else set(only))
        elif verb in ("confirm", "undo"):
            with locked(machine):
                confirm(host) if verb == "confirm" else undo(host)
        if verb != "undo":
            result["facts"] = facts(host)
            result["fields"] = probe(host)
        if verb in ("apply", "boot"):  # kept in the state or a log: what is as wanted needs no words
            wanted = wanted_fields(document)
            result["fields"] = {key: value for key, value in result["fields"].items() if value != wanted[key]}
    except StepError as error:
        result["failed"] = failure(step, error)
    except Exception as error:  # noqa: BLE001  # a fault of this program is data too: other hosts go on
        traceback.print_exc()
        result["failed"] = {"step": step, "reason": f"{type(error).__name__}: {error}"[:1500], "hint": "see stderr"}
    if host is not None:
        result["changed"], result["needs_reboot"] = host.changed, reboot_reasons(host, result["fields"])
    return result


def reboot_reasons(host: Host, fields: Fields) -> List[str]:
    """Why a reboot is needed."""
    wanted, found = host.document.get("rdma_namespaces"), fields.get("rdma_namespaces")
    if found in (None, wanted) or host.machine.read(REBOOT_FILE) != wanted:
        return []
    return [f"rdma_namespaces {found} => {wanted}: the kernel changes it only before the first pod"]


def out_of_time(*_: object) -> None:
    """Ends a run that hangs."""
    raise StepError(f"not done after {DEADLINE_S} s", "see what hangs on this host: ps, dmesg")


def main(arguments: Sequence[str], program: str) -> int:
    """One verb; its result is the one line on stdout."""
    verbs = ("apply", "probe", "confirm", "revert", "undo", "boot")
    if len(arguments) != 1 or arguments[0] not in verbs:
        sys.stderr.write(f"usage: host.py {' | '.join(verbs)}\n")
        return 2
    verb, machine = arguments[0], Machine()
    if verb == "revert":
        return revert(machine)
    if verb == "boot" and not machine.exists(DOCUMENT_FILE):
        sys.stderr.write("no confirmed document yet: nothing to do\n")
        return 0
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(DEADLINE_S)
    result = perform(verb, machine, machine.read(DOCUMENT_FILE) if verb == "boot" else sys.stdin.read(), program)
    sys.stdout.write(json.dumps(result, sort_keys=True, separators=(",", ":")) + "\n")
    return 1 if verb == "boot" and result["failed"] else 0


def own_text() -> str:
    """This program: handed over by who sent it, or read from its file."""
    given = globals().get("PROGRAM_TEXT")
    if isinstance(given, str):
        return given
    with open(__file__, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], own_text()))
