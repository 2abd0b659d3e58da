"""Number of VFs, and the address of each idle one."""

import hashlib
from typing import Any, Dict, Iterable, List, Optional, Set

from ..host import Document, Host, Vf
from ..machine import StepError
from ..step import Before, Fields, Step
from ..virtual import bind_vfs, create_vfs, offered_vfs, refuse_vfs_in_use

OWN_MACS = "own"
"""Each VF has the address that `vf_mac` gives it."""


class Vfs(Step):
    """A VF in use is never removed and never changed.

    While the number is wrong it is all that is wrong: addresses and MTU come with the VFs.
    """

    name = "vfs"
    order = 550
    waits_for = ("kernel_arguments", "driver", "firmware", "link_layer")
    effects = {"vfs": "pods", "vf_macs": "none"}  # addresses: of idle VFs only
    repairs = {"vfs": "link", "vf_macs": "none"}  # VFs in use are left alone by the host itself

    def wanted(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            if pf.get("vf_owner"):
                continue  # its own agent in the cluster makes them, and two owners would undo each other
            fields[f"{pf['interface']}.vfs"] = pf["vfs"]
            if pf["vfs"]:
                fields[f"{pf['interface']}.vf_macs"] = OWN_MACS
        return fields

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            if pf.get("vf_owner"):
                continue
            name, vfs = pf["interface"], host.vfs(pf["interface"])
            fields[f"{name}.vfs"] = len(vfs)
            if pf["vfs"]:
                odd = self._with_foreign_address(host, name) if len(vfs) == pf["vfs"] else []
                fields[f"{name}.vf_macs"] = ", ".join(f"VF {vf.number} {self._mac(host, vf)}" for vf in odd) or OWN_MACS
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        pfs = {pf["interface"]: pf["vfs"] for pf in host.pfs}
        resized = [name for name in pfs if f"{name}.vfs" in wrong]
        failed = [error for error in (self._resized(host, name, pfs[name]) for name in resized) if error]
        self._give_addresses(host, [name for name in pfs if name in resized or f"{name}.vf_macs" in wrong])
        if failed:
            raise failed[0]

    def _resized(self, host: Host, pf: str, count: int) -> Optional[StepError]:
        """Why a PF could not be given its VFs: one that cannot must not leave the others without."""
        try:
            refuse_vfs_in_use(host, pf, count)
            create_vfs(host, pf, count)
        except StepError as error:
            return error
        return None

    def facts(self, host: Host) -> Dict[str, Any]:
        offered = {pf["interface"]: offered_vfs(host, pf["interface"]) for pf in host.pfs}
        return {"vfs_offered": offered}

    def before_pf(self, host: Host, pf: str) -> Before:
        return {"vfs": len(host.vfs(pf))}

    def undo_pfs(self, host: Host, pfs: Dict[str, Dict[str, Any]]) -> None:
        foreign = {pf["interface"] for pf in host.pfs if pf.get("vf_owner")}
        for pf, before in pfs.items():
            if pf not in foreign and len(host.vfs(pf)) != before["vfs"]:
                refuse_vfs_in_use(host, pf, before["vfs"])
                create_vfs(host, pf, before["vfs"])
                bind_vfs(host, host.vfs(pf))

    def _mac(self, host: Host, vf: Vf) -> str:
        return host.machine.read(f"{vf.path}/net/{vf.netdev}/address") if vf.netdev else "no driver"

    def _with_foreign_address(self, host: Host, pf: str) -> List[Vf]:
        """Idle VFs that do not have the address of this host's document, those without driver among them.

        One in use has what its pod wants.
        """
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


def vf_mac(document: Document, pf: str, number: int) -> str:
    """Address of a VF: locally administered, and the same after each reboot, so that no neighbour is surprised."""
    digest = hashlib.sha256(f"{document['lab']}/{document['host']}/{pf}/{number}".encode()).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])
