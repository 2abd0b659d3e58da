"""What the switch does with frames: each rule alone, without a socket."""

import pytest

from simulator.switch.ports import AGEING_S, Delivery, Forwarding, Port, PortConfig
from tests.simulator.switch.frames import BROADCAST, GPU01, GPU02, GPU03, frame

RAIL = PortConfig(native_vlan=4094, tagged_vlans=frozenset({111}))


def switch(*configs: PortConfig) -> tuple[Forwarding, list[Port]]:
    forwarding = Forwarding()
    ports = [Port(f"gpu{number:02}", "enp5s0", config) for number, config in enumerate(configs, start=1)]
    for port in ports:
        forwarding.add(port)
    return forwarding, ports


def names(deliveries: list[Delivery]) -> list[str]:
    return [delivery.port.node for delivery in deliveries]


def test_an_unknown_address_is_flooded_but_never_back_to_its_sender():
    forwarding, ports = switch(RAIL, RAIL, RAIL)

    assert names(forwarding.forward(ports[0], frame(GPU02, GPU01), 0)) == ["gpu02", "gpu03"]
    assert names(forwarding.forward(ports[1], frame(BROADCAST, GPU02), 0)) == ["gpu01", "gpu03"]


def test_a_learned_address_gets_its_frames_alone_until_it_ages():
    forwarding, ports = switch(RAIL, RAIL, RAIL)
    forwarding.forward(ports[1], frame(BROADCAST, GPU02), 0)

    assert names(forwarding.forward(ports[0], frame(GPU02, GPU01), AGEING_S)) == ["gpu02"]
    assert names(forwarding.forward(ports[0], frame(GPU02, GPU01), AGEING_S + 1)) == ["gpu02", "gpu03"]


def test_an_address_that_moves_to_another_port_is_found_there():
    forwarding, ports = switch(RAIL, RAIL, RAIL)
    forwarding.forward(ports[1], frame(BROADCAST, GPU02), 0)
    forwarding.forward(ports[2], frame(BROADCAST, GPU02), 1)

    assert names(forwarding.forward(ports[0], frame(GPU02, GPU01), 2)) == ["gpu03"]


def test_a_frame_for_a_station_behind_its_own_port_goes_nowhere():
    forwarding, ports = switch(RAIL, RAIL)
    forwarding.forward(ports[0], frame(BROADCAST, GPU03), 0)

    assert forwarding.forward(ports[0], frame(GPU03, GPU01), 0) == []


def test_a_group_address_is_never_learned():
    forwarding, ports = switch(RAIL, RAIL, RAIL)
    forwarding.forward(ports[1], frame(GPU01, BROADCAST), 0)

    assert names(forwarding.forward(ports[0], frame(BROADCAST, GPU01), 0)) == ["gpu02", "gpu03"]


def test_rails_do_not_reach_each_other():
    forwarding, ports = switch(RAIL, PortConfig(native_vlan=4093, tagged_vlans=frozenset({112})), RAIL)

    assert names(forwarding.forward(ports[0], frame(BROADCAST, GPU01), 0)) == ["gpu03"]


def test_an_address_learned_on_one_vlan_says_nothing_about_another():
    forwarding, ports = switch(RAIL, RAIL, RAIL)
    forwarding.forward(ports[1], frame(BROADCAST, GPU02, vlan=111), 0)

    assert names(forwarding.forward(ports[0], frame(GPU02, GPU01), 0)) == ["gpu02", "gpu03"], "flooded: not known there"


def test_an_allowed_tag_passes_unchanged_with_its_priority():
    forwarding, ports = switch(RAIL, RAIL)
    sent = frame(GPU02, GPU01, vlan=111, priority=3)

    assert [delivery.frame for delivery in forwarding.forward(ports[0], sent, 0)] == [sent]


def test_a_tag_that_the_sending_port_does_not_carry_is_dropped_and_counted_there():
    forwarding, ports = switch(RAIL, RAIL)

    assert forwarding.forward(ports[0], frame(GPU02, GPU01, vlan=112), 0) == []
    assert ports[0].counters.present() == {"dropped_vlan": 1}


def test_a_vlan_goes_only_to_the_ports_that_carry_it():
    without = PortConfig(native_vlan=4094)
    forwarding, ports = switch(RAIL, without, RAIL)

    assert names(forwarding.forward(ports[0], frame(BROADCAST, GPU01, vlan=111), 0)) == ["gpu03"]


def test_between_access_and_trunk_the_tag_is_added_and_taken_off():
    access, trunk = PortConfig(native_vlan=111), RAIL
    forwarding, ports = switch(access, trunk)
    plain, tagged = frame(BROADCAST, GPU01), frame(BROADCAST, GPU01, vlan=111)

    assert [delivery.frame for delivery in forwarding.forward(ports[0], plain, 0)] == [tagged]
    assert [delivery.frame for delivery in forwarding.forward(ports[1], tagged, 0)] == [plain]


def test_a_priority_tag_belongs_to_the_native_vlan_and_leaves_without_tag():
    forwarding, ports = switch(RAIL, RAIL)

    deliveries = forwarding.forward(ports[0], frame(BROADCAST, GPU01, vlan=0, priority=5), 0)

    assert [delivery.frame for delivery in deliveries] == [frame(BROADCAST, GPU01)]


@pytest.mark.parametrize(("payload", "passes"), [(1500, True), (1501, False)])
@pytest.mark.parametrize("vlan", [None, 111])
def test_the_mtu_counts_the_payload_alone(payload: int, passes: bool, vlan: int | None):
    small = PortConfig(native_vlan=4094, tagged_vlans=frozenset({111}), mtu_bytes=1500)
    forwarding, ports = switch(RAIL, small)

    assert bool(forwarding.forward(ports[0], frame(BROADCAST, GPU01, payload, vlan), 0)) is passes
    assert bool(forwarding.forward(ports[1], frame(BROADCAST, GPU02, payload, vlan), 0)) is passes
    assert ports[1].counters.dropped_mtu == (0 if passes else 2), "it counts in both directions"


@pytest.mark.parametrize("pulled", [0, 1])
def test_a_pulled_cable_carries_nothing_in_either_direction(pulled: int):
    configs = [RAIL, RAIL]
    configs[pulled] = PortConfig(native_vlan=4094, plugged=False)
    forwarding, ports = switch(*configs)

    assert forwarding.forward(ports[0], frame(BROADCAST, GPU01), 0) == []
    assert forwarding.forward(ports[1], frame(BROADCAST, GPU02), 0) == []
    assert ports[pulled].counters.dropped_unplugged == 2


def test_loss_comes_near_its_share_and_is_the_same_in_every_run():
    lossy = PortConfig(native_vlan=4094, loss_percent=20)

    def arrived() -> list[bool]:
        forwarding, ports = switch(RAIL, lossy)
        return [bool(forwarding.forward(ports[0], frame(BROADCAST, GPU01), 0)) for _ in range(2000)]

    first = arrived()
    assert 0.17 < first.count(False) / 2000 < 0.23
    assert arrived() == first, "a fault test must be repeatable"


def test_delay_of_both_cables_adds_up():
    forwarding, ports = switch(PortConfig(4094, delay_ms=10), PortConfig(4094, delay_ms=5))

    assert [delivery.delay_s for delivery in forwarding.forward(ports[0], frame(BROADCAST, GPU01), 0)] == [0.015]


@pytest.mark.parametrize("runt", [b"", b"\x00" * 13, BROADCAST + GPU01 + b"\x81\x00\x00"])
def test_what_is_no_frame_is_dropped(runt: bytes):
    forwarding, ports = switch(RAIL, RAIL)

    assert forwarding.forward(ports[0], runt, 0) == []
    assert ports[0].counters.dropped_vlan == 1


def test_a_changed_lab_leaves_what_was_set_by_hand():
    port = Port("gpu01", "enp5s0", RAIL)
    port.config = PortConfig(native_vlan=4094, tagged_vlans=frozenset({111}), mtu_bytes=1500)

    port.rehome(PortConfig(native_vlan=4094, tagged_vlans=frozenset({211})))

    assert port.config == PortConfig(native_vlan=4094, tagged_vlans=frozenset({211}), mtu_bytes=1500)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (PortConfig(native_vlan=4095), "VLAN 4095: 1 to 4094"),
        (PortConfig(4094, tagged_vlans=frozenset({0})), "VLAN 0: 1 to 4094"),
        (PortConfig(4094, mtu_bytes=9300), "mtu 9300: 68 to 9216"),
        (PortConfig(4094, loss_percent=101), "loss 101: 0 to 100"),
        (PortConfig(4094, delay_ms=-1), "delay -1: 0 to 1000"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_limit(config: PortConfig, limit: str):
    assert limit in config.faults()[0]
