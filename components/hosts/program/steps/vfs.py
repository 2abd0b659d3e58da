"""Number of VFs, and the address of each idle one."""

import hashlib
from typing import Any, Dict, Iterable, List, Set

from ..daemons import keep_new_vfs_unmanaged
from ..host import Document, Host, VirtualFunction
from ..machine import StepError
from ..places import VF_WAIT_S
from ..step import Before, Fields, Pf, PfStep

OWN_MACS = "own"
"""Each VF has the address of `vf_mac`."""


class Vfs(PfStep):
    """A VF in use is never removed and never changed.

    While the number is wrong, nothing else is compared: addresses and MTU come with the VFs.
    """

    name = "vfs"
    order = 550
    at_boot = True
    waits_for = ("kernel_arguments", "driver", "firmware", "link_layer")
    effects = {"vfs": "pods", "vf_macs": "none"}  # addresses: of idle VFs only
    repairs = {"vfs": "link"}  # VFs in use are left alone by the host itself

    def target_of(self, document: Document, pf: Pf) -> Fields:
        if pf.get("vf_owner"):
            return {}  # the cluster's own agent makes them, and two owners would undo each other
        return {"vfs": pf["vfs"], "vf_macs": OWN_MACS} if pf["vfs"] else {"vfs": 0}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        name = pf["interface"]
        count = len(host.vfs(name))
        if not pf["vfs"]:
            return {"vfs": count}
        odd = self._with_foreign_address(host, name) if count == pf["vfs"] else []
        macs = ", ".join(f"VF {vf.number} {self._mac(host, vf)}" for vf in odd)
        return {"vfs": count, "vf_macs": macs or OWN_MACS}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        keep_new_vfs_unmanaged(host)
        names, failed = [], []
        for pf in host.pfs_of(wrong):
            name = pf["interface"]
            names.append(name)
            if f"{name}.vfs" in wrong:
                try:
                    refuse_vfs_in_use(host, name, pf["vfs"])
                    create_vfs(host, name, pf["vfs"])
                except StepError as error:
                    failed.append(error)  # the other PFs still get their VFs
        self._give_addresses(host, names)
        if failed:
            raise failed[0]

    def facts(self, host: Host) -> Dict[str, Any]:
        offered = {pf["interface"]: offered_vfs(host, pf["interface"]) for pf in host.pfs}
        return {"vfs_offered": offered}

    def before_pf(self, host: Host, pf: str) -> Before:
        return {"vfs": len(host.vfs(pf))}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        foreign = {known["interface"] for known in host.pfs if known.get("vf_owner")}
        if pf not in foreign and len(host.vfs(pf)) != before["vfs"]:
            refuse_vfs_in_use(host, pf, before["vfs"])
            create_vfs(host, pf, before["vfs"])
            bind_vfs(host, host.vfs(pf))

    def _mac(self, host: Host, vf: VirtualFunction) -> str:
        return host.machine.read(f"{vf.path}/net/{vf.netdev}/address") if vf.netdev else "no driver"

    def _with_foreign_address(self, host: Host, pf: str) -> List[VirtualFunction]:
        """Idle VFs without their address of the document, also those without a driver.

        A VF in use has the address that its pod needs.
        """
        foreign = []
        for vf in host.idle_vfs(pf):
            if self._mac(host, vf) != vf_mac(host.document, pf, vf.number):
                foreign.append(vf)
        return foreign

    def _give_addresses(self, host: Host, pfs: Iterable[str]) -> None:
        # a VF's driver reads the PF's table when it starts, so the address is set before the driver
        # is bound
        lines, starting = [], []
        for name in pfs:
            for vf in self._with_foreign_address(host, name):
                mac = vf_mac(host.document, name, vf.number)
                lines.append(f"link set dev {name} vf {vf.number} mac {mac}")
                starting.append(vf)
        host.ip_batch(lines)
        for vf in starting:
            if vf.driver:
                host.machine.write(f"{vf.path}/driver/unbind", vf.pci_address)
        bind_vfs(host, starting)


class VfMtu(PfStep):
    """MTU of idle VFs: a VF does not inherit the PF's, and a pod's interface keeps the VF's."""

    name = "vf_mtu"
    order = 560
    at_boot = True
    waits_for = Vfs.waits_for
    effects = {"vf_mtu_bytes": "none"}  # idle VFs only

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"vf_mtu_bytes": pf["mtu_bytes"]} if pf["vfs"] else {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        complete = len(host.vfs(pf["interface"])) == pf["vfs"]
        paths = self._idle(host, pf) if complete else []
        odd = {int(host.machine.read(path) or 0) for path in paths} - {pf["mtu_bytes"]}
        return {"vf_mtu_bytes": min(odd, default=pf["mtu_bytes"])}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for pf in host.pfs_of(wrong):
            for path in self._idle(host, pf):
                host.machine.write(path, str(pf["mtu_bytes"]))

    def _idle(self, host: Host, pf: Pf) -> List[str]:
        vfs = host.idle_vfs(pf["interface"])
        return [f"{vf.path}/net/{vf.netdev}/mtu" for vf in vfs if vf.netdev]


def vf_mac(document: Document, pf: str, number: int) -> str:
    """Address of a VF: locally administered, and the same after each reboot, so neighbors' caches
    stay valid.
    """
    digest = hashlib.sha256(
        f"{document['lab']}/{document['host']}/{pf}/{number}".encode()
    ).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])


def refuse_vfs_in_use(host: Host, pf: str, target: int) -> None:
    """The kernel changes a count only by removing every VF first, so one in use forbids it."""
    host.forget()
    uses = host.uses(pf)
    if uses:
        index = min(uses)
        raise StepError(
            f"{pf} has {len(host.vfs(pf))} VFs, the lab file sets {target}, and VF {index} is in "
            f"use: {uses[index]}",
            "drain the node or delete the pods that use its VFs, then run again",
        )
    most = offered_vfs(host, pf)
    if target > most:
        raise StepError(
            f"{pf} supports {most} VFs, but the lab file sets {target}",
            "enable SR-IOV in the firmware of machine and NIC (mlxconfig SRIOV_EN, NUM_OF_VFS), or "
            "lower vfs",
        )


def offered_vfs(host: Host, pf: str) -> int:
    """How many VFs a PF offers at most; 0 when firmware or machine have SR-IOV switched off."""
    return int(host.machine.read(f"/sys/class/net/{pf}/device/sriov_totalvfs") or 0)


def create_vfs(host: Host, pf: str, count: int) -> None:
    """Sets the number of VFs and leaves them without driver: each starts once, addressed."""
    machine, device = host.machine, f"/sys/class/net/{pf}/device"
    probing = device + "/sriov_drivers_autoprobe"
    autoprobe = machine.exists(probing)
    try:
        if autoprobe:
            machine.write(probing, "0")
        if host.vfs(pf):
            # the kernel refuses to go from one count to another
            machine.write(device + "/sriov_numvfs", "0")
        if count:
            machine.write(device + "/sriov_numvfs", str(count))
            if autoprobe:
                # udev may be loading the VFs' driver, which takes all VFs that it is offered when
                # it starts
                machine.run("udevadm", "settle", "--timeout=30", timeout_s=40)
    except OSError as error:
        raise StepError(
            f"{pf} refuses {count} VFs: {error.strerror}",
            "its driver's limit may be lower; see dmesg",
        ) from None
    finally:
        if autoprobe:
            machine.write(probing, "1")
    if not machine.wait(lambda: len(host.vfs(pf)) == count, VF_WAIT_S):
        raise StepError(
            f"{pf} has {len(host.vfs(pf))} of {count} VFs after {VF_WAIT_S} s",
            "see dmesg for the reason",
        )


def bind_vfs(host: Host, vfs: Iterable[VirtualFunction]) -> None:
    """Starts the driver of VFs and waits for their netdevs under their final names."""
    machine, paths = host.machine, []
    for vf in vfs:
        autoprobe = f"{vf.path}/physfn/sriov_drivers_autoprobe"
        if machine.read(autoprobe) == "0":
            machine.write(
                autoprobe, "1"
            )  # off: a run before this one was killed between its two writes
        if not machine.target(f"{vf.path}/driver"):
            machine.write("/sys/bus/pci/drivers_probe", vf.pci_address)
        paths.append(vf.path)
    if not paths:
        return
    if not machine.wait(lambda: all(machine.names(path + "/net") for path in paths), VF_WAIT_S):
        late = [path for path in paths if not machine.names(path + "/net")]
        raise StepError(
            f"no netdev for {', '.join(late)} after {VF_WAIT_S} s",
            "check that the VFs' driver is loaded; see dmesg",
        )
    machine.run("udevadm", "settle", "--timeout=30")  # udev renames them
