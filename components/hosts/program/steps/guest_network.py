"""A rail's address in a VM, set by the tool that sets the guest's other addresses.

The boot unit alone would be enough. With the guest's own tool the address is set earlier, shows up
where people look for it, and the tool sends no DHCP requests (the Bitfusion article uses netplan,
or a file by hand).
"""

from typing import Any, Dict, Set

from .. import guest, guest_others
from ..carriers import refuse_what_carries_the_host
from ..host import Document, Host
from ..machine import Machine, StepError
from ..places import MARK, NETWORK_MANAGER_FILE
from ..revert import arm_revert
from ..step import Before, Fields, Pf, PfStep, value_or_reason

ADDRESS_WAIT_S = 30
HEADERS_BYTES = 28
"""IPv4 and ICMP headers, which a ping's size leaves out."""


class GuestNetworkStep(PfStep):
    """One file per interface. Only that interface changes, and the change reverts unless it is
    confirmed.
    """

    name = "guest_network"
    order = 530
    keeps = ("guest_network",)
    effects = {"kept": "link"}
    files = (
        f"{guest.NETPLAN}/*",
        f"{guest.PROFILES}/*",
        f"{guest_others.SCRIPTS}/*",
        NETWORK_MANAGER_FILE,
    )

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"kept": _target(pf)} if document.get("guest_network") else {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"kept": value_or_reason(lambda: _kept(host, pf))}

    def refuse(self, host: Host) -> None:
        refuse_what_carries_the_host(host, [pf["interface"] for pf in host.pfs])
        tool = _tool(host)
        for pf in host.pfs:
            guest_others.refuse_other_definitions(host.machine, tool, pf)

    def apply(self, host: Host, wrong: Set[str]) -> None:
        tool = _tool(host)
        if host.machine.remove(NETWORK_MANAGER_FILE):  # it kept NetworkManager away from the rails
            for pf in host.pfs:
                host.machine.run("nmcli", "device", "set", pf["interface"], "managed", "yes")
        for pf in host.pfs_of(wrong):
            _keep(host, tool, pf)

    def facts(self, host: Host) -> Dict[str, Any]:
        if host.booting:
            return {}
        peers: Dict[str, str] = host.document["guest_network"]["peers"]
        sizes = {pf["interface"]: pf["mtu_bytes"] for pf in host.pfs}
        answers = {}
        for name in sorted(peers):
            answers[name] = ping(host.machine, name, peers[name], sizes[name])
        return {
            "guest_network": {
                "tool": value_or_reason(lambda: _tool(host)),
                "ping": answers,
            }
        }

    def before_pf(self, host: Host, pf: str) -> Before:
        return {}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        _let_go(host, pf)


def _target(pf: Pf) -> str:
    return f"{pf['address']} mtu {pf['mtu_bytes']}"


def _tool(host: Host) -> str:
    return str(
        host.remembered(
            "guest tool",
            lambda: guest.tool_of(host.machine, host.document["guest_network"]["tool"]),
        )
    )


def _kept(host: Host, pf: Pf) -> str:
    plan = guest.plan_for(_tool(host), pf)
    return "".join(host.machine.faults({plan.path: plan.text})) or _target(pf)


def _keep(host: Host, tool: str, pf: Pf) -> None:
    machine, name = host.machine, pf["interface"]
    plan = guest.plan_for(tool, pf)
    paths, start, stop = [plan.path], plan.start, plan.stop
    texts = {plan.path: plan.text}
    if tool == "netplan":
        older = machine.content(plan.path)
        machine.put(plan.path, plan.text, mode=0o600)
        try:
            rendered = guest.rendered_by_netplan(machine, name)
        finally:  # the file stays only once the revert is armed
            machine.put(plan.path, older, mode=0o600) if older else machine.remove(plan.path)
        texts.update(rendered)
        paths += list(rendered)
        start, stop = guest.netplan_start(paths[1], name), guest.netplan_stop(paths[1], name)
    arm_revert(host, [name], files=paths, stop=stop, start=start)
    for path in paths:
        machine.put(path, texts[path], mode=guest.mode_of(path))
    for words in start:
        machine.must(*words, timeout_s=guest.ACTIVATION_S + 10)
    if not machine.wait(lambda: _is_addressed(host, pf), ADDRESS_WAIT_S):
        raise StepError(
            f"{name} has {' '.join(host.addresses(name)) or 'no address'} {ADDRESS_WAIT_S} s after "
            f"{tool} received {pf['address']}",
            f"check the guest's own tool; {plan.path} is removed again unless the change is "
            "confirmed",
        )


def _is_addressed(host: Host, pf: Pf) -> bool:
    host.forget()
    name = pf["interface"]
    return (
        pf["address"] in host.addresses(name)
        and host.is_up(name)
        and host.links()[name]["mtu"] == pf["mtu_bytes"]
    )


def _let_go(host: Host, name: str) -> None:
    """Removes the file of either tool, and activates the definition that existed before."""
    machine = host.machine
    for tool in guest.TOOLS:
        plan = guest.plan_for(tool, {"interface": name, "address": "0.0.0.0/0", "mtu_bytes": 0})
        if not machine.content(plan.path).startswith(MARK.encode()):
            continue
        paths, stop = [plan.path], plan.stop
        if tool == "netplan":
            rendered = [path for path in guest.rendered_paths(name) if machine.exists(path)]
            paths += rendered
            stop = [words for path in rendered for words in guest.netplan_stop(path, name)]
        for words in stop:
            machine.run(*words, timeout_s=guest.ACTIVATION_S + 10)
        for path in paths:
            machine.remove(path)
        for words in guest.reloads(paths):
            machine.run(*words)
        if tool == "netplan" and guest_others.defines_alone(machine, name):
            _hand_over(machine, name)
        host.forget()


def _hand_over(machine: Machine, name: str) -> None:
    for path, text in guest.rendered_by_netplan(machine, name).items():
        machine.put(path, text, mode=guest.mode_of(path))
        for words in guest.netplan_start(path, name):
            machine.run(*words, timeout_s=guest.ACTIVATION_S + 10)


def ping(machine: Machine, interface: str, peer: str, mtu_bytes: int) -> str:
    """Whether another machine of the rail answers, even to a full frame. That machine may not have
    joined yet.
    """
    words = ("ping", "-n", "-c", "1", "-W", "1", "-I", interface)
    if machine.run(*words, peer).code:
        return f"{peer} does not answer"
    if machine.run(*words, "-M", "do", "-s", str(mtu_bytes - HEADERS_BYTES), peer).code:
        return (
            f"{peer} answers, but not to frames of {mtu_bytes} bytes: an MTU on the path is smaller"
        )
    return f"{peer} answers"
