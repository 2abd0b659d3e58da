"""The machine's own name: that of its node."""

from typing import Set

from ..cloud_init import FOLDER, CloudSetting
from ..host import Document, Host
from ..machine import StepError
from ..membership import KUBELET_CONFIG
from ..step import Before, Fields, Step

HOSTNAME_FILE = "/etc/hostname"
KERNEL_HOSTNAME = "/proc/sys/kernel/hostname"
CLOUD = CloudSetting(
    FOLDER + "/99-rocelab-hostname.cfg",
    "# written by rocelab: the lab names this machine, not the cloud\npreserve_hostname: true\n",
)


class Hostname(Step):
    """Set in the kernel now and in the file for later boots, and protected from cloud-init."""

    name = "hostname"
    order = 240
    effects = {"hostname": "none"}
    files = (HOSTNAME_FILE, CLOUD.path)

    def target(self, document: Document) -> Fields:
        return {"hostname": document["hostname"]} if document.get("hostname") else {}

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        now, at_boot = machine.read(KERNEL_HOSTNAME), machine.read(HOSTNAME_FILE)
        text = now if now == at_boot else f"{now}, from the next boot on {at_boot or 'none'}"
        kept = CLOUD.is_kept(machine)
        return {"hostname": text if kept else f"{text}, until cloud-init sets its own"}

    def refuse(self, host: Host) -> None:
        machine, target = host.machine, host.document["hostname"]
        now = machine.read(KERNEL_HOSTNAME)
        if now != target and machine.exists(KUBELET_CONFIG):
            raise StepError(
                f"this machine is the Kubernetes node {now}; renaming it to {target} would remove "
                "it from the cluster",
                f"name the node {now} in the lab file, turn system.hostname off, or reset the node "
                "(kubeadm reset)",
            )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        CLOUD.keep(host.machine)
        self._set(host, host.document["hostname"])

    def before(self, host: Host) -> Before:
        return {"hostname": host.machine.read(HOSTNAME_FILE) or host.machine.read(KERNEL_HOSTNAME)}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        machine.remove(CLOUD.path)
        if machine.read(KERNEL_HOSTNAME) != before["hostname"] and not machine.exists(
            KUBELET_CONFIG
        ):
            self._set(host, before["hostname"])

    def _set(self, host: Host, name: str) -> None:
        if host.machine.read(HOSTNAME_FILE) != name:
            host.machine.put(HOSTNAME_FILE, name + "\n")
        if host.machine.read(KERNEL_HOSTNAME) != name:
            host.machine.write(KERNEL_HOSTNAME, name)
