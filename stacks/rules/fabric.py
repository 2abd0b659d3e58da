"""Rules between the vSphere fabric and the rest of the lab."""

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address

from stacks.fabric import Fabric
from stacks.rules.parts import Fault, Parts, Path, twice

PATH = ("fabric", "switches")


def refuse_switches_off_their_rail(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    if not parts.all_rails_valid:
        return
    rails = parts.rails_by_name
    for i, switch in enumerate(fabric.switches):
        rail = rails.get(switch.rail)
        if rail is None:
            yield Fault(
                (*PATH, i, "rail"),
                f"this lab has no rail {switch.rail}; rails: {', '.join(rails)}",
            )
        elif switch.mtu_bytes < rail.mtu_bytes:
            yield Fault(
                (*PATH, i, "mtu_bytes"),
                f"{switch.mtu_bytes} is below the {rail.mtu_bytes} of {rail.name}, so frames would "
                "be dropped; raise it",
            )
        if rail is not None:
            for j, host in enumerate(switch.hosts):
                address = host.vmkernel.address if host.vmkernel else None
                if address is not None and address.network != rail.host_subnet:
                    yield Fault(
                        (*PATH, i, "hosts", j, "vmkernel", "address"),
                        f"{address} is outside host_subnet {rail.host_subnet} of {rail.name}; "
                        "choose an address inside it",
                    )


def refuse_what_is_given_twice(fabric: Fabric) -> Iterator[Fault]:
    switches = list(enumerate(fabric.switches))
    names: list[tuple[Path, str]] = [((*PATH, i, "name"), switch.name) for i, switch in switches]
    rails: list[tuple[Path, str]] = [((*PATH, i, "rail"), switch.rail) for i, switch in switches]
    addresses: list[tuple[Path, IPv4Address]] = []
    for i, switch in switches:
        for j, host in enumerate(switch.hosts):
            if host.vmkernel and host.vmkernel.address:
                addresses.append(
                    ((*PATH, i, "hosts", j, "vmkernel", "address"), host.vmkernel.address.ip)
                )
    yield from twice("switch", names, "list each switch once")
    yield from twice("rail", rails, "a rail has one switch with one uplink per host")
    yield from twice("address", addresses, "give each vmkernel adapter its own")


def refuse_one_nic_for_two_switches(fabric: Fabric) -> Iterator[Fault]:
    """Equal choices find the same NIC. Whether two that differ do, the preflight sees on
    the host.
    """
    choices: list[tuple[Path, str]] = []
    for i, switch in enumerate(fabric.switches):
        for j, host in enumerate(switch.hosts):
            chosen = (host.uplink or switch.uplink).model_dump(exclude_none=True)
            if switch.use != "reference":  # its uplinks are those that it has
                choice = ", ".join(f"{key} {value}" for key, value in chosen.items())
                choices.append(((*PATH, i, "hosts", j), f"{host.name}: {choice}"))
    yield from twice(
        "uplink",
        choices,
        "a NIC belongs to one switch; choose another by uplink.name or uplink.mac",
    )


def refuse_what_the_kind_forbids(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    loopback = _is_loopback(fabric.vcenter)
    if parts.kind == "virtual" and not loopback:
        yield Fault(
            ("fabric", "vcenter"),
            f"{fabric.vcenter} is not loopback, and virtual labs use the simulator's vCenter "
            "there; set kind: hardware",
        )
    if parts.kind == "hardware" and loopback:
        yield Fault(
            ("fabric", "vcenter"),
            f"{fabric.vcenter} is loopback, which only virtual labs use; name your vCenter",
        )
    # the field names the place of the password
    if parts.kind == "hardware" and fabric.password == "file":  # noqa: S105
        yield Fault(
            ("fabric", "password"),
            "file is for the simulator only; pulumi config set --secret rocelab:vcenterPassword",
        )
    if fabric.password == "file" and fabric.password_file is None:  # noqa: S105
        yield Fault(
            ("fabric", "password_file"),
            "missing; password: file needs the simulator's password file",
        )


def refuse_a_key_file_that_is_not_the_simulators(parts: Parts, fabric: Fabric) -> Iterator[Fault]:
    if fabric.host_keys == "file" and parts.kind == "hardware":
        yield Fault(
            ("fabric", "host_keys"),
            "file works only with the simulator; use secret to keep the keys in the stack",
        )
    if (fabric.host_keys == "file") != (fabric.host_keys_file is not None):
        yield Fault(
            ("fabric", "host_keys_file"),
            "host_keys_file and host_keys: file go together; set both or neither",
        )


def refuse_machines_without_their_switch(parts: Parts) -> Iterator[Fault]:
    fabric = parts.section("fabric", Fabric)
    rails = {switch.rail for switch in fabric.switches} if fabric else set()
    for i, node in parts.vms():
        if fabric is None:
            yield Fault(
                ("nodes", i, "kind"),
                "a vsphere_vm is created in a vCenter; describe it in `fabric`",
            )
            continue
        for j, pf in enumerate(node.pfs):
            if pf.rail not in rails:
                yield Fault(
                    ("nodes", i, "pfs", j, "rail"),
                    f"{pf.rail} has no switch in fabric.switches, so the VM has no port group to "
                    "connect to; add a switch for it",
                )


def refuse_two_workers_on_one_host(parts: Parts) -> Iterator[Fault]:
    pinned: list[tuple[Path, str]] = []
    for i, node in parts.vms():
        if node.machine.host and node.role == "worker":
            pinned.append((("nodes", i, "machine", "host"), node.machine.host))
    yield from twice(
        "host",
        pinned,
        "VMs on one host exchange data by memory copies, so the network would not be measured",
    )


def _is_loopback(address: str) -> bool:
    try:
        return IPv4Address(address).is_loopback
    except AddressValueError:
        return address == "localhost"
