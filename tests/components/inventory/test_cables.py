"""Where cables end, by what hosts hear and what switches list."""

from datetime import UTC, datetime

import pytest

from components.inventory.cables import Cables, LeafPort
from components.inventory.model import Host, Inventory, Pf, Switch, SwitchPort
from components.inventory.reading import known
from components.switches.settings import Announcement, LearnedMac

MAC = "02:00:00:00:00:0a"


def leaf_of(
    *heard: Announcement, listed: tuple[str, ...] = (), learned: tuple[LearnedMac, ...] = (), chassis_id: str = ""
) -> LeafPort | None:
    """The other end of a PF that hears these neighbors, and whose switch leaf1 has these ports."""
    pf = Pf(pci="0000:05:00.0", mac=known(MAC, "sysfs"), lldp=known(heard, "lldpctl"))
    host = Host(name="gpu01", address="192.0.2.11", pfs=known((pf,), "sysfs"))
    leaf1 = Switch(
        name="leaf1",
        os="onyx",
        address="192.0.2.201",
        chassis_id=known(chassis_id, "show"),
        ports=known(tuple(SwitchPort(name=name) for name in listed), "show"),
        macs=known(learned, "show"),
    )
    inventory = Inventory(schema=1, read_at=datetime.now(UTC), hosts=(host,), switches=(leaf1,))
    return Cables(inventory).leaf_of(host, pf, "ens1np0")


@pytest.mark.parametrize(
    ("heard", "port"),
    [
        (Announcement(system="leaf1", port_id="Eth1/1"), "1/1"),
        (Announcement(system="leaf1", port_id="etp4", port_description="Ethernet0"), "Ethernet0"),
        (Announcement(system="leaf1", port_id="etp4", port_description="to gpu01"), "etp4"),
        (Announcement(system="leaf1", port_id=MAC, port_description="swp1"), "swp1"),
        (Announcement(system="leaf1", port_id=MAC), ""),
    ],
    ids=["with a word before it", "described", "not listed", "only described", "only a MAC"],
)
def test_a_port_is_called_as_its_switch_lists_it_where_it_does(heard: Announcement, port: str) -> None:
    assert leaf_of(heard, listed=("1/1", "Ethernet0", "Ethernet4")) == LeafPort(name="leaf1", port=port)


def test_a_port_announced_by_its_alias_is_the_one_that_its_switch_sees_the_mac_on() -> None:
    """SONiC announces alias and description; after an `up`, no description is the name of a port."""
    heard = Announcement(system="leaf1", port_id="etp4", port_description="rocelab:lab:rail-a")
    entry = LearnedMac(mac=MAC, port="Ethernet12", vlan_id=11)

    assert leaf_of(heard, listed=("Ethernet12",), learned=(entry,)) == LeafPort(name="leaf1", port="Ethernet12")
    elsewhere = Announcement(system="leaf2", port_id="etp4")
    assert leaf_of(elsewhere, listed=("Ethernet12",), learned=(entry,)) == LeafPort(name="leaf2", port="etp4")


def test_a_switch_that_announces_another_chassis_than_its_own_is_one_switch() -> None:
    heard = Announcement(system="leaf1", chassis_id="02:00:00:00:00:c2", port_id="1/1")

    assert leaf_of(heard, listed=("1/1",), chassis_id="02:00:00:00:00:c0") == LeafPort(name="leaf1", port="1/1")


def test_a_port_that_hears_two_switches_has_no_leaf() -> None:
    assert leaf_of(Announcement(system="leaf1", port_id="1/1"), Announcement(system="leaf2", port_id="1/1")) is None


def test_a_mac_that_a_switch_learned_counts_where_the_host_hears_nothing() -> None:
    entry = LearnedMac(mac=MAC.upper(), port="1/7", vlan_id=11)

    assert leaf_of(learned=(entry,)) == LeafPort(name="leaf1", port="1/7")
    assert leaf_of(Announcement(system="leaf2", port_id="1/1"), learned=(entry,)) == LeafPort(name="leaf2", port="1/1")
