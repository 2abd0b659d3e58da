"""MTU, administrative state and IPv4 address of each PF."""

from typing import Set

from ..carriers import refuse_what_carries_the_host, refuse_what_others_use
from ..daemons import managed_netdevs, refuse_defined_rails
from ..host import Document, Host
from ..machine import StepError
from ..revert import arm_revert, link_changes, link_state
from ..step import Before, Fields, Step, interface_of

LINK_FIELDS = {"mtu_bytes": "mtu_bytes", "up": "link", "addresses": "address"}


class LinkStep(Step):
    """rocelab owns the PF: other addresses on it are removed."""

    name = "link"
    order = 510
    waits_for = ("link_layer",)
    effects = {"mtu_bytes": "link", "link": "link", "address": "link"}

    def target(self, document: Document) -> Fields:
        fields: Fields = {}
        for pf in document["pfs"]:
            name = pf["interface"]
            fields.update(
                {
                    f"{name}.mtu_bytes": pf["mtu_bytes"],
                    f"{name}.link": "up",
                    f"{name}.address": pf["address"],
                }
            )
        return fields

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for pf in host.pfs:
            name = pf["interface"]
            fields[f"{name}.mtu_bytes"] = host.links().get(name, {}).get("mtu", 0)
            fields[f"{name}.link"] = "up" if host.is_up(name) else "down"
            if managed_netdevs(host, name):
                fields[f"{name}.link"] = "managed by NetworkManager"
            fields[f"{name}.address"] = " ".join(host.addresses(name)) or "none"
        return fields

    def refuse(self, host: Host) -> None:
        refuse_what_carries_the_host(host, [pf["interface"] for pf in host.pfs])
        refuse_what_others_use(host, [pf["interface"] for pf in host.pfs])
        refuse_defined_rails(host)
        for pf in host.pfs:
            if host.machine.exists(f"/sys/class/net/{pf['interface']}/bonding_slave"):
                bond = host.machine.target(f"/sys/class/net/{pf['interface']}/master") or "a bond"
                raise StepError(
                    f"{pf['interface']} is a member of {bond}, but a RoCE rail needs a NIC, not a "
                    "bond",
                    f"remove it from {bond} in this host's network configuration, or name "
                    "another NIC",
                )
            driver = host.driver(pf["interface"])
            if driver != pf["driver"]:
                raise StepError(
                    f"{pf['interface']} runs on {driver or 'no'} driver, not {pf['driver']}",
                    "set the PF's `driver` in the lab file to the loaded driver, or load the "
                    "driver in the lab file",
                )

    def apply(self, host: Host, wrong: Set[str]) -> None:
        lines = []
        concerned = {interface_of(field) for field in wrong}
        arm_revert(
            host, concerned
        )  # before NetworkManager takes its address off a NIC that it gives up
        for name in sorted(concerned):
            for netdev in managed_netdevs(host, name):
                host.machine.must("nmcli", "device", "set", netdev, "managed", "no")
        host.forget()
        for pf in host.pfs:
            name = pf["interface"]
            if name in concerned:
                target = {"mtu_bytes": pf["mtu_bytes"], "up": True, "addresses": [pf["address"]]}
                chosen = {}
                for key, field in LINK_FIELDS.items():
                    if f"{name}.{field}" in wrong:
                        chosen[key] = target[key]
                lines += link_changes(host, name, {**link_state(host, name), **chosen})
        host.ip_batch(lines)

    def before_pf(self, host: Host, pf: str) -> Before:
        managed = {"network_manager": True} if pf in managed_netdevs(host, pf) else {}
        return {**link_state(host, pf), **managed}

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        # no armed revert: this is the state in which the host was reached before the first change
        host.ip_batch(link_changes(host, pf, before))
        if before.get("network_manager"):
            host.machine.run("nmcli", "device", "set", pf, "managed", "yes")
