"""What Kubernetes needs from the kernel: overlay file systems, firewall rules on bridges, and
forwarding.
"""

from typing import Dict, List, Set

from ..host import Document, Host
from ..step import Before, Fields, Step

FIELD = "kubernetes_kernel"
MODULES = ("overlay", "br_netfilter")
BRIDGED = "/proc/sys/net/bridge"
"""What br_netfilter brings. A kernel with it built in has no folder of it under /sys/module, since
it takes no parameters, and nothing to load; overlay takes some, and has its folder either way."""
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",
    "net/bridge/bridge-nf-call-ip6tables": "1",
}
MODULES_FILE = "/etc/modules-load.d/rocelab-kubernetes.conf"
SYSCTL_FILE = "/etc/sysctl.d/61-rocelab-kubernetes.conf"
FILES = {
    MODULES_FILE: "\n".join(MODULES) + "\n",
    SYSCTL_FILE: "".join(f"{key} = {value}\n" for key, value in SYSCTLS.items()),
}


class KubernetesKernel(Step):
    """Modules and settings, set now and by drop-ins at boot."""

    name = FIELD
    order = 720
    effects = {FIELD: "none"}
    files = tuple(FILES)

    def target(self, document: Document) -> Fields:
        return {FIELD: "set"} if document.get("kubernetes") else {}

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        wrong = [f"{name} not loaded" for name in _missing(host)]
        for key, value in _values(host).items():
            if value != SYSCTLS[key]:
                wrong.append(f"{key} is {value or 'missing'}")
        wrong += machine.faults(FILES)
        return {FIELD: "; ".join(wrong) or "set"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine = host.machine
        for path, text in FILES.items():
            machine.ensure(path, text)
        if missing := _missing(host):
            machine.must("modprobe", "-a", *missing)
        for key, value in _values(host).items():
            if value != SYSCTLS[key]:
                machine.write(f"/proc/sys/{key}", SYSCTLS[key])

    def before(self, host: Host) -> Before:
        return {"loaded_by_us": _missing(host), "values": _values(host)}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        for path in FILES:
            machine.remove(path)
        for key, value in before["values"].items():
            if value and machine.exists(f"/proc/sys/{key}"):
                machine.write(f"/proc/sys/{key}", value)
        machine.unload(reversed(before["loaded_by_us"]))


def _missing(host: Host) -> List[str]:
    places = {name: [f"/sys/module/{name}"] for name in MODULES}
    places["br_netfilter"].append(BRIDGED)
    return [name for name, paths in places.items() if not any(map(host.machine.exists, paths))]


def _values(host: Host) -> Dict[str, str]:
    return {key: host.machine.read(f"/proc/sys/{key}") for key in SYSCTLS}
