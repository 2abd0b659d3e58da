"""One run on one host: the document, the machine, and what was found and done so far."""

import json
import os
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set

from .machine import Done, Machine, StepError, first_match
from .places import REBOOT_FILE

Document = Dict[str, Any]
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
CGROUPS = "/sys/fs/cgroup"
POD_LOGS = "/var/log/pods"
POD_CGROUP = re.compile(r"(?:^|-)pod([0-9a-f]+(?:[-_][0-9a-f]+)*)(?:\.slice)?$")
"""`pod<uid>` of the cgroupfs driver; `kubepods-burstable-pod<uid>.slice` of the systemd driver,
with underscores."""


class VirtualFunction(NamedTuple):
    """A virtual function, found through its PF's `virtfn` link: its netdev may be in a pod."""

    number: int
    path: str
    pci_address: str
    driver: str
    interfaces: List[str]

    @property
    def netdev(self) -> str:
        """Its interface in the first namespace; empty without one."""
        return self.interfaces[0] if self.interfaces else ""


def virtual_functions(machine: Machine, device: str) -> List[VirtualFunction]:
    """The VFs of a PF by number; `device` is the PF's folder in sysfs."""
    vfs = []
    for name in machine.names(device):
        if re.match(r"virtfn\d+$", name):
            path = f"{device}/{name}"
            address, driver = machine.target(path), machine.target(f"{path}/driver")
            interfaces = machine.names(f"{path}/net")
            vfs.append(VirtualFunction(int(name[6:]), path, address, driver, interfaces))
    return sorted(vfs)


def addresses_of(link: Dict[str, Any], families: Sequence[str] = ("inet", "inet6")) -> List[str]:
    """Addresses with prefix length of a link that `ip` describes, without link-local ones."""
    addresses = []
    for info in link.get("addr_info", []):
        if info.get("family") in families and info.get("scope") != "link" and "local" in info:
            addresses.append(f"{info['local']}/{info['prefixlen']}")
    return sorted(addresses)


def interface_of(field: str) -> str:
    """The interface in a field's name; empty when the field is the host's."""
    return field.rpartition(".")[0]


class Host:
    """One run on one host: the document, the machine, and what was found and done so far."""

    def __init__(self, machine: Machine, document: Document, program: bytes) -> None:
        self.machine, self.document, self.program = machine, document, program
        self.pfs: List[Dict[str, Any]] = document["pfs"]
        self.changed: List[str] = []
        self.armed = self.booting = False
        self.at = (  # what is running, as a slow run reports on stderr
            "waiting for another run, or reading the host"
        )
        self._remembered: Dict[str, Any] = {}

    def pfs_of(self, fields: Iterable[str]) -> List[Dict[str, Any]]:
        """The PFs that these fields belong to."""
        names = {interface_of(field) for field in fields}
        return [pf for pf in self.pfs if pf["interface"] in names]

    def remembered(self, key: str, look: Callable[[], Any]) -> Any:
        """Caches the result of a slow read until something changes."""
        if key not in self._remembered:
            self._remembered[key] = look()
        return self._remembered[key]

    def links(self) -> Dict[str, Dict[str, Any]]:
        """Every netdev of the first namespace by name, as `ip` describes it."""
        links: Dict[str, Dict[str, Any]] = self.remembered("links", self._read_links)
        return links

    def _read_links(self) -> Dict[str, Dict[str, Any]]:
        links = json.loads(self.machine.must("ip", "-j", "addr", "show"))
        return {link["ifname"]: link for link in links if link.get("ifname")}

    def forget(self) -> None:
        """Drops all cached answers: something has changed, or an old answer would be dangerous."""
        self._remembered = {}

    def reboot_reasons(self) -> Dict[str, str]:
        """The fields that wait for a reboot, each with the reason."""
        try:
            reasons = json.loads(self.machine.read(REBOOT_FILE) or "{}")
        except ValueError:
            return {}
        return {str(field): str(reason) for field, reason in reasons.items()}

    def wait_for_reboot(self, field: str, reason: str) -> None:
        """Records that a field takes effect at the next boot."""
        self.machine.put(
            REBOOT_FILE,
            json.dumps({**self.reboot_reasons(), field: reason}, sort_keys=True) + "\n",
        )

    def ip_batch(self, lines: Sequence[str], *, force: bool = False) -> None:
        """Makes several network changes in one `ip -batch`; with `force` a line that fails does not
        stop the others.
        """
        if lines:
            self.forget()
            self.machine.must(
                "ip", *["-force"] * force, "-batch", "-", stdin="\n".join(lines) + "\n"
            )

    def addresses(self, netdev: str) -> List[str]:
        """Its IPv4 addresses with prefix length, sorted, without link-local ones."""
        return addresses_of(self.links().get(netdev, {}), ["inet"])

    def is_up(self, netdev: str) -> bool:
        """Whether it is administratively up, with or without a cable."""
        return "UP" in self.links().get(netdev, {}).get("flags", [])

    def link_state(self, pf: str) -> Dict[str, Any]:
        """What a revert or an undo of a PF's link needs."""
        mtu = self.links().get(pf, {}).get("mtu", 0)
        return {"mtu_bytes": mtu, "up": self.is_up(pf), "addresses": self.addresses(pf)}

    def link_changes(self, pf: str, target: Dict[str, Any]) -> List[str]:
        """Lines for `ip_batch` that change a link to the given state."""
        now = self.link_state(pf)
        lines = []
        for address in now["addresses"]:
            if address not in target["addresses"]:
                lines.append(f"address del {address} dev {pf}")
        if now["mtu_bytes"] != target["mtu_bytes"]:
            lines.append(f"link set dev {pf} mtu {target['mtu_bytes']}")
        if now["up"] != target["up"]:
            lines.append(f"link set dev {pf} {'up' if target['up'] else 'down'}")
        if lines or now["addresses"] != target["addresses"]:
            # replace: with the first address of a subnet the kernel may drop the others, those of
            # the target among them
            lines += [f"address replace {address} dev {pf}" for address in target["addresses"]]
        return lines

    def pci_address(self, netdev: str) -> str:
        """PCI address of the function behind a netdev; empty when there is none."""
        return self.machine.target(f"/sys/class/net/{netdev}/device")

    def driver(self, netdev: str) -> str:
        """The driver of a netdev; empty when it has none."""
        return self.machine.target(f"/sys/class/net/{netdev}/device/driver")

    def vfs(self, pf: str) -> List[VirtualFunction]:
        return virtual_functions(self.machine, f"/sys/class/net/{pf}/device")

    def rdma_parents(self) -> Dict[str, str]:
        """The netdev under each soft-RoCE device. Devices of a NIC have no such attribute and are
        left out.
        """
        root = "/sys/class/infiniband"
        parents = {
            name: self.machine.read(f"{root}/{name}/parent") for name in self.machine.names(root)
        }
        return {name: parent for name, parent in parents.items() if parent}

    def rdma_devices(self, pf: str) -> List[str]:
        """RDMA devices of a PF: the NIC's own, PVRDMA beside a vmxnet3, and soft-RoCE over its
        netdev.
        """
        own = self.machine.names(f"/sys/class/net/{pf}/device/infiniband")
        slot, _, function = self.pci_address(pf).rpartition(".")
        if function == "0" and self.driver(pf) == "vmxnet3":
            own = [*own, *self.machine.names(f"/sys/bus/pci/devices/{slot}.1/infiniband")]
        return sorted(
            {*own, *(name for name, parent in self.rdma_parents().items() if parent == pf)}
        )

    def uses(self, pf: str) -> Dict[int, str]:
        """Why each VF that is in use must be left alone, by index. What cannot be read counts as in
        use.

        A VF without a driver has no netdev and no RDMA device, so nothing can use it, even if the
        lists name it.
        """
        return self._uses_of(self.vfs(pf))

    def idle_vfs(self, pf: str) -> List[VirtualFunction]:
        """The VFs that are not in use."""
        vfs = self.vfs(pf)
        uses = self._uses_of(vfs)
        return [vf for vf in vfs if vf.number not in uses]

    def _uses_of(self, found_vfs: Sequence[VirtualFunction]) -> Dict[int, str]:
        vfs = [vf for vf in found_vfs if vf.driver]
        allocated = allocated_devices(self.machine) if vfs else {}
        parents = self.rdma_parents() if vfs else {}
        devices = {vf.number: self._rdma_devices_of(vf, parents) for vf in vfs}
        open_on = self.opened_devices() if any(devices.values()) else set()
        reasons = {vf.number: self._use(vf, allocated, devices[vf.number], open_on) for vf in vfs}
        return {index: reason for index, reason in reasons.items() if reason}

    def _use(
        self,
        vf: VirtualFunction,
        allocated: Optional[Dict[str, str]],
        devices: List[str],
        open_on: Optional[Set[str]],
    ) -> str:
        pod = (allocated or {}).get(vf.pci_address)
        if pod:
            return f"allocated to pod {pod}"
        if vf.driver.startswith("vfio"):
            return f"bound to {vf.driver}{_virtual_machine(self.machine, vf.pci_address)}"
        if not vf.netdev:
            return "its netdev is in another network namespace"
        if allocated is None:
            return "kubelet's checkpoint cannot be read, so a pod may have it"
        entries = self.machine.names(f"{vf.path}/net/{vf.netdev}")
        above = [name[len("upper_") :] for name in entries if name.startswith("upper_")]
        if above:
            return f"{' '.join(above)} is built on it"
        return _open_reason(devices, open_on)

    def _rdma_devices_of(self, vf: VirtualFunction, parents: Dict[str, str]) -> List[str]:
        soft = [name for name, parent in parents.items() if vf.netdev and parent == vf.netdev]
        return self.machine.names(vf.path + "/infiniband") + soft

    def refuse_opened(self, devices: Iterable[str]) -> None:
        """Refuses while a process has, or may have, one of these RDMA devices open."""
        self.forget()
        names = sorted(devices)
        opened = self.opened_devices() if names else set()
        if opened is None:
            raise StepError(
                f"the processes that have {' '.join(names)} open cannot be listed",
                "run `rdma resource show` on the host to see why, then run again",
            )
        busy = [name for name in names if name in opened]
        if busy:
            raise StepError(
                f"a process has {' '.join(busy)} open", "stop the process, then run again"
            )

    def opened_devices(self) -> Optional[Set[str]]:
        """RDMA devices that a process has open; None when that cannot be listed.

        An open device is enough, even without a queue pair: when it is removed, the kernel waits
        for the last process, and the program that removes it hangs and ignores signals (seen with
        soft-RoCE on a VF).
        """
        done: Done = self.remembered(
            "opened", lambda: self.machine.run("rdma", "-j", "resource", "show")
        )
        try:
            return (
                None
                if done.code
                else {
                    device["ifname"] for device in json.loads(done.out or "[]") if _is_open(device)
                }
            )
        except (ValueError, KeyError, TypeError):
            return None


def _open_reason(devices: List[str], open_on: Optional[Set[str]]) -> str:
    """Why RDMA devices count as open; empty when no process has them."""
    if devices and open_on is None:
        return "the processes that use its RDMA device cannot be listed"
    busy = [name for name in devices if name in (open_on or ())]
    return f"a process has {' '.join(busy)} open" if busy else ""


def _virtual_machine(machine: Machine, pci_address: str) -> str:
    """The virtual machine that has a function, by QEMU's command line, such as `, used by vm1`;
    empty when unknown.
    """
    for process in machine.names("/proc"):
        line = machine.read(f"/proc/{process}/cmdline") if process.isdigit() else ""
        if pci_address in line and "qemu" in line.partition("\0")[0]:
            name = first_match(r"\0-name\0(?:guest=)?([^,\0]+)", line)
            return f", used by {name or f'process {process}'}"
    return ""


def _is_open(device: Dict[str, Any]) -> bool:
    # kernels before 5.8 do not count contexts; one queue pair is the kernel's own
    return bool(device.get("ctx", device["qp"] > 1) or device["cm_id"])


def allocated_devices(machine: Machine) -> Optional[Dict[str, str]]:
    """The pod of each PCI address that one has.

    The kubelet keeps its checkpoint over reboots, and it frees a device of a pod that has ended in
    memory only: the file is written again with the next allocation (Kubernetes,
    `pkg/kubelet/cm/devicemanager/manager.go`, and issue 109595). So the file alone does not show
    the present. A pod's cgroup does: the kubelet makes it before the pod's sandbox, finds its own
    orphans by it (`pkg/kubelet/cm/pod_container_manager_linux.go`), and no cgroup outlives a boot.

    Returns:
        None when the kubelet's list is there and cannot be read.
    """
    if not machine.exists(CHECKPOINT):
        return {}
    given: Dict[str, str] = {}
    try:
        for entry in json.loads(machine.read(CHECKPOINT))["Data"]["PodDeviceEntries"] or []:
            devices = entry["DeviceIDs"]  # by NUMA node since Kubernetes 1.20, a plain list before
            for part in devices.values() if isinstance(devices, dict) else [devices]:
                given.update(dict.fromkeys(part, entry["PodUID"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    alive = live_pods(machine) if given else set()
    names = _pod_names(machine) if alive else {}
    return {device: names.get(pod, pod) for device, pod in given.items() if pod in alive}


def _pod_names(machine: Machine) -> Dict[str, str]:
    """Namespace and name by UID, from the folders of the pods' logs: NAMESPACE_NAME_UID."""
    parts = [name.split("_") for name in machine.names(POD_LOGS)]
    return {words[2]: f"{words[0]}/{words[1]}" for words in parts if len(words) == 3}


def live_pods(machine: Machine) -> Set[str]:
    """UIDs of the pods that have a cgroup, of either version, below any root of the kubelet's."""
    uids: Set[str] = set()
    for _, folders, _ in os.walk(machine.path(CGROUPS)):
        pods = {}
        for name in folders:
            for match in [POD_CGROUP.search(name)]:
                if match:
                    pods[name] = match[1].replace("_", "-")
        uids.update(pods.values())
        folders[:] = [name for name in folders if name not in pods]  # pods do not contain pods
    return uids
