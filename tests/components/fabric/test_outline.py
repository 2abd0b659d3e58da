"""The output `fabric`: complete of a small lab, and never long."""

import json

from components.fabric.fabric import LARGEST_BYTES, MOST_WARNINGS, fabric_outline

LINE = "ESXi 8.0.2 build 22380479, vmnic4 nmlx5_core 4.23.0.36 at 0000:3b:00.0 100000 Mbit/s"


def test_a_small_lab_s_hosts_have_their_nic_and_their_vmkernel_adapter() -> None:
    shown = fabric_outline({"esx1": LINE, "esx2": LINE}, {"esx1": "vmk3"}, {"gpu01": "esx1"}, ["esx2: no NTP server"])

    assert shown == {
        "hosts": {"esx1": f"{LINE}, vmk3", "esx2": LINE},
        "machines": {"gpu01": "esx1"},
        "warnings": ["esx2: no NTP server"],
    }


def test_a_large_lab_lists_its_first_hosts_and_counts_the_others() -> None:
    hosts = {f"esx{n:02}.site.example": LINE for n in range(64)}
    places = {f"gpu{n:02}": f"esx{n:02}.site.example" for n in range(64)}

    shown = fabric_outline(hosts, dict.fromkeys(hosts, "vmk3"), places, ["long " * 99] * 9)

    assert len(json.dumps(shown)) <= LARGEST_BYTES
    told = shown["hosts"]
    assert isinstance(told, dict)
    assert told["esx00.site.example"] == f"{LINE}, vmk3"
    assert told["..."] == f"{64 - len(told) + 1} more"
    warnings = shown["warnings"]
    assert isinstance(warnings, list)
    assert warnings[-1] == f"{9 - MOST_WARNINGS} more"
    assert len(warnings) == MOST_WARNINGS + 1
