"""The kubelet's node address, which is never on a rail, and crictl's socket."""

from typing import Any, Dict, List, Set

from ..distribution import distribution
from ..host import Document, Host
from ..machine import first_match
from ..membership import give_up, membership
from ..step import Before, Fields, Step

ARGUMENTS_FILES = {"debian": "/etc/default/kubelet", "rhel": "/etc/sysconfig/kubelet"}
VARIABLE = "KUBELET_EXTRA_ARGS"
"""Passed to the kubelet last by the packaged unit, so it overrides kubeadm's own flags."""
OPTIONS = ("--node-ip", "--address")
"""The address that the kubelet registers, and the one it listens on: without the second it listens
on all of them, rails included. Its health check stays on 127.0.0.1, where kubeadm asks for it, and
probes go from it to pods."""
CRICTL_FILE = "/etc/crictl.yaml"
UNIT = "kubelet.service"


class Kubelet(Step):
    """The kubelet's credentials; they also show that the host is in a cluster."""

    name = "kubelet"
    order = 740
    effects = {"kubelet_service": "none", "kubelet_node_ip": "none", "crictl": "none"}
    services = (UNIT,)
    repairs = {"kubelet_node_ip": "service"}

    def target(self, document: Document) -> Fields:
        declared = document.get("kubernetes")
        if not declared:
            return {}
        return {
            "kubelet_service": "enabled",
            "kubelet_node_ip": declared["node_ip"],
            "crictl": declared["cri_socket"],
        }

    def observed(self, host: Host) -> Fields:
        given = []
        for option in OPTIONS:
            given.append([word.partition("=")[2] for word in _arguments(host) if _is(word, option)])
        registered, listening = (" ".join(addresses) for addresses in given)
        crictl = host.machine.read(CRICTL_FILE)
        return {
            "kubelet_service": _at_boot(host),
            "kubelet_node_ip": (
                registered
                if registered == listening and registered
                else f"{registered or 'none'}, listens on {listening or 'all'}"
            ),
            "crictl": first_match(r"^runtime-endpoint:\s*[\"']?([^\s\"']+)", crictl) or "none",
        }

    def apply(self, host: Host, wrong: Set[str]) -> None:
        declared, machine = host.document["kubernetes"], host.machine
        if "crictl" in wrong:
            socket = declared["cri_socket"]
            machine.put(CRICTL_FILE, f"runtime-endpoint: {socket}\nimage-endpoint: {socket}\n")
        if "kubelet_service" in wrong:
            # kubeadm starts it, and packages of the RHEL family leave it off at boot
            machine.must("systemctl", "enable", "--no-reload", UNIT)
        if "kubelet_node_ip" in wrong:
            kept = []
            for word in _arguments(host):
                if not any(_is(word, option) for option in OPTIONS):
                    kept.append(word)
            words = [*kept, *(f"{option}={declared['node_ip']}" for option in OPTIONS)]
            line = f'{VARIABLE}="{" ".join(words)}"'
            others = [line for line in _lines(host) if not line.startswith(VARIABLE + "=")]
            machine.put(_file(host), "\n".join([*others, line]) + "\n")
            machine.run("systemctl", "try-restart", UNIT, timeout_s=120)

    def facts(self, host: Host) -> Dict[str, Any]:
        return {"kubernetes": membership(host.machine)}

    def files_to_write(self, host: Host) -> List[str]:
        return [_file(host), CRICTL_FILE]

    def before(self, host: Host) -> Before:
        files = {path: host.machine.snapshot(path) for path in (_file(host), CRICTL_FILE)}
        return {"files": files, "kubelet_at_boot": _at_boot(host) == "enabled"}

    def undo(self, host: Host, before: Before) -> None:
        # otherwise only this section was removed, and the node stays as it is
        if host.document.get("kubernetes"):
            give_up(host)
        if not before["kubelet_at_boot"]:
            host.machine.run("systemctl", "disable", "--no-reload", UNIT)
        for path, text in before["files"].items():
            host.machine.restore(path, text)


def _at_boot(host: Host) -> str:
    """enabled, disabled or another state of systemd; `not installed` without such a unit."""
    return host.machine.run("systemctl", "is-enabled", UNIT).out.strip() or "not installed"


def _file(host: Host) -> str:
    return ARGUMENTS_FILES[distribution(host.machine).family or "debian"]


def _lines(host: Host) -> List[str]:
    return host.machine.read(_file(host)).splitlines()


def _arguments(host: Host) -> List[str]:
    lines = [line.partition("=")[2] for line in _lines(host) if line.startswith(VARIABLE + "=")]
    return lines[-1].strip("\"'").split() if lines else []


def _is(word: str, option: str) -> bool:
    return word == option or word.startswith(option + "=")
