"""MTU of idle VFs: a VF does not inherit the PF's MTU, and a pod's interface keeps the VF's."""

from typing import List, Set

from ..host import Document, Host
from ..step import Fields, Step


class VfMtu(Step):
    """Sets the MTU of VFs that are not in use."""

    name = "vf_mtu"
    order = 560
    waits_for = ("kernel_arguments", "driver", "firmware", "link_layer")
    effects = {"vf_mtu_bytes": "none"}  # idle VFs only

    def target(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            if pf["vfs"]:
                fields[f"{pf['interface']}.vf_mtu_bytes"] = pf["mtu_bytes"]
        return fields

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            if pf["vfs"]:
                complete = len(host.vfs(pf["interface"])) == pf["vfs"]
                paths = self._idle(host, pf["interface"]) if complete else []
                odd = {int(host.machine.read(path) or 0) for path in paths} - {pf["mtu_bytes"]}
                fields[f"{pf['interface']}.vf_mtu_bytes"] = min(odd) if odd else pf["mtu_bytes"]
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        for pf in host.pfs:
            if f"{pf['interface']}.vf_mtu_bytes" in wrong:
                for path in self._idle(host, pf["interface"]):
                    host.machine.write(path, str(pf["mtu_bytes"]))

    def _idle(self, host: Host, pf: str) -> List[str]:
        return [f"{vf.path}/net/{vf.netdev}/mtu" for vf in host.idle_vfs(pf) if vf.netdev]
