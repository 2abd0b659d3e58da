"""MTU, administrative state and IPv4 address of each PF."""

from typing import Set

from ..carriers import refuse_what_carries_the_host, refuse_what_others_use
from ..daemons import managed_netdevs, refuse_defined_rails
from ..host import Document, Host
from ..machine import StepError
from ..revert import arm_revert
from ..step import Before, Fields, Pf, PfStep

LINK_FIELDS = {"mtu_bytes": "mtu_bytes", "up": "link", "addresses": "address"}


class LinkStep(PfStep):
    """rocelab owns the PF: other addresses on it are removed."""

    name = "link"
    order = 510
    at_boot = True
    waits_for = ("link_layer",)
    effects = {"mtu_bytes": "link", "link": "link", "address": "link"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        return {"mtu_bytes": pf["mtu_bytes"], "link": "up", "address": pf["address"]}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        name = pf["interface"]
        state = "up" if host.is_up(name) else "down"
        return {
            "mtu_bytes": host.links().get(name, {}).get("mtu", 0),
            "link": "managed by NetworkManager" if managed_netdevs(host, name) else state,
            "address": " ".join(host.addresses(name)) or "none",
        }

    def refuse(self, host: Host) -> None:
        names = [pf["interface"] for pf in host.pfs]
        refuse_what_carries_the_host(host, names)
        refuse_what_others_use(host, names)
        refuse_defined_rails(host)
        for pf in host.pfs:
            name = pf["interface"]
            master = _master(host, name)
            if master:
                raise StepError(
                    f"{name} is a port of {master}, but a RoCE rail needs a NIC of its own",
                    f"remove it from {master} in this host's network configuration, or name "
                    "another NIC",
                )
            driver = host.driver(name)
            if driver != pf["driver"]:
                raise StepError(
                    f"{name} runs on {driver or 'no'} driver, not {pf['driver']}",
                    "set this PF's `driver` to the loaded one, or load the one in the lab file",
                )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        lines = []
        pfs = host.pfs_of(wrong)
        names = [pf["interface"] for pf in pfs]
        # before NetworkManager takes the address off a NIC that it gives up
        arm_revert(host, names)
        for name in names:
            for netdev in managed_netdevs(host, name):
                host.machine.must("nmcli", "device", "set", netdev, "managed", "no")
        host.forget()
        for pf in pfs:
            name = pf["interface"]
            target = {"mtu_bytes": pf["mtu_bytes"], "up": True, "addresses": [pf["address"]]}
            state = host.link_state(name)
            for key, field in LINK_FIELDS.items():
                if f"{name}.{field}" in wrong:
                    state[key] = target[key]
            lines += host.link_changes(name, state)
        host.ip_batch(lines)

    def before_pf(self, host: Host, pf: str) -> Before:
        managed = {"network_manager": True} if pf in managed_netdevs(host, pf) else {}
        return {**host.link_state(pf), **managed}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        # no armed revert: this is the state in which the host was reached before the first change
        host.ip_batch(host.link_changes(pf, before))
        if before.get("network_manager"):
            host.machine.run("nmcli", "device", "set", pf, "managed", "yes")


def _master(host: Host, name: str) -> str:
    """The bond, bridge or team that takes the frames of a NIC, or `ovs-system` of Open vSwitch.

    Frames of a VRF's members stay theirs.
    """
    folder = f"/sys/class/net/{name}/master"
    if "DEVTYPE=vrf" in host.machine.read(f"{folder}/uevent"):
        return ""
    return host.machine.target(folder)
