"""Each check finds what it is for, and nothing else; in a healthy cluster none finds anything."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from pydantic import TypeAdapter

from components.audit.audit import audit
from components.audit.findings import Audit
from components.audit.registry import PRACTICE, checks
from components.hosts.program.look.gpu import health, nvlinks_in, xids
from components.inventory.model import Gpu, GpuHealth, Host, Inventory, Xid
from components.inventory.reading import known, unknown
from tests.components.audit.spoilt import (
    NEED_EARLIER,
    NEED_LAB,
    SPOILS,
    case,
    earlier,
    healthy,
    lab,
    on_two_leaves,
    system,
    with_address,
)
from tests.components.inventory.fabricate import changed
from tests.conftest import ROOT
from tests.messages import states

CODES = tuple(checks())


def audited(code: str) -> Audit:
    given = case(code)
    return audit(given.inventory, given.lab, given.earlier)


def test_every_check_has_an_inventory_in_which_it_finds() -> None:
    assert set(SPOILS) == set(CODES)
    assert set(CODES) >= NEED_EARLIER | NEED_LAB


@pytest.mark.row("A 21", case="numa-switch")
@pytest.mark.parametrize("code", CODES)
def test_a_check_finds_what_it_is_for_and_no_other_finds_anything(code: str) -> None:
    found = audited(code)

    assert {one.code for one in found.findings} == {code}, found.findings
    assert all(one.source and one.at for one in found.findings)


def test_nics_of_a_numa_node_that_are_on_as_many_switches_as_the_host_has_are_fine() -> None:
    spread = on_two_leaves(third=2, fourth=1)

    assert [row.code for row in audit(spread).findings] == []


def test_an_address_alone_in_its_subnet_has_no_other_end_to_be_swapped_with() -> None:
    alone = with_address("gpu01", 1, "10.11.0.1/32")(healthy())

    assert "gateway-swapped" not in {row.code for row in audit(alone).findings}


@pytest.mark.parametrize(
    ("address", "overlaps"), [("10.11.200.2", True), ("10.99.200.2", False), ("gpu02.example", False)]
)
def test_a_management_address_overlaps_the_rail_whose_subnet_it_is_in(address: str, overlaps: bool) -> None:
    inventory = changed(healthy(), "gpu02", lambda host: replace(host, address=address))

    found = [finding.actual for finding in audit(inventory).findings if finding.code == "subnets-overlap"]

    assert bool(found) == overlaps
    assert all(states(text, "10.11.0.0/16", f"{address}/32") for text in found)


def test_no_check_finds_anything_where_no_value_is_known() -> None:
    inventory = healthy()
    blind = Inventory(
        schema=inventory.schema,
        read_at=inventory.read_at,
        hosts=tuple(Host(name=one.name, address=one.address, read_at=one.read_at) for one in inventory.hosts),
        switches=inventory.switches,
        cluster=inventory.cluster,
    )

    assert audit(blind, lab()).findings == ()


def test_a_healthy_cluster_has_no_finding_whatever_it_is_compared_with() -> None:
    for one in (audit(healthy()), audit(healthy(), lab(), earlier(healthy()))):
        assert one.findings == ()
        assert one.unread == ()
    assert audit(healthy(), lab(), earlier(healthy())).not_checked == ()


def test_every_check_says_why_and_how_to_fix_it() -> None:
    for check in checks().values():
        assert check.source == PRACTICE or check.source.startswith("https://")
        for text in (check.title, check.why, check.remedy):
            assert text
            assert not text.endswith("."), check.code


SAMPLES = ROOT / "tests/samples/gpu"
PUBLISHED = "Unable to determine the device handle for GPU0000:17:00.0: Unknown Error"
"""nvidia-smi on a host that had lost a GPU (meta-llama/llama-models#200)."""


def health_of(sample: str, **changed: object) -> GpuHealth:
    recorded = ET.fromstring((SAMPLES / sample).read_text()).find("gpu")  # noqa: S314  # our own sample
    assert recorded is not None
    return replace(TypeAdapter(GpuHealth).validate_python(health(recorded)), **changed)


def codes_of(*gpus: Gpu) -> list[str]:
    """What one host with these GPUs is blamed for."""
    inventory = changed(healthy(), "gpu02", lambda host: replace(host, gpus=known(gpus, "lspci")))
    alone = replace(inventory, hosts=tuple(host for host in inventory.hosts if host.name == "gpu02"))
    return [finding.code for finding in audit(alone).findings]


def gpu_with(**readings: object) -> Gpu:
    whole = {"pci": "0000:17:00.0", "vendor_id": "10de", "bridges": known((), "pci")}
    return Gpu(**{**whole, **readings})


@pytest.mark.parametrize("sample", ["h100_idle.xml", "h100_load.xml", "h200_idle.xml"])
def test_gpus_that_were_recorded_in_good_health_have_no_finding(sample: str) -> None:
    assert codes_of(gpu_with(health=known(health_of(sample), "nvidia-smi"))) == []


def test_two_real_gpus_are_read_with_their_nvlinks_and_have_no_finding() -> None:
    gpus = TypeAdapter(tuple[Gpu, ...]).validate_json((SAMPLES / "look_2xH100.json").read_text())

    assert codes_of(*gpus) == []
    assert [len(gpu.nvlinks.value or ()) for gpu in gpus] == [18, 18]


def test_the_power_cap_of_a_gpu_under_load_is_no_fault() -> None:
    assert "sw_power_cap>Active" in (SAMPLES / "h100_load.xml").read_text()
    assert health_of("h100_load.xml").throttled == ()


def test_an_idle_gpu_may_run_its_pcie_link_slowly() -> None:
    idle = {"pcie_generation": 1, "pcie_max_generation": 4}

    assert codes_of(gpu_with(health=known(health_of("h100_idle.xml", performance_state="P8", **idle), "smi"))) == []
    assert codes_of(gpu_with(health=known(health_of("h100_idle.xml", **idle), "smi"))) == ["gpu-pcie"]


def test_a_gpu_at_which_nvidia_smi_ends_is_lost_and_no_other_is() -> None:
    lost = gpu_with(health=unknown(PUBLISHED, "nvidia-smi -q -x"))
    other = gpu_with(pci="0000:18:00.0", health=unknown(PUBLISHED, "nvidia-smi -q -x"))

    assert codes_of(lost, other) == ["gpu-lost"]
    assert codes_of(other) == []


def test_errors_that_a_program_causes_are_not_blamed_on_the_gpu() -> None:
    recorded = TypeAdapter(tuple[Xid, ...]).validate_python(xids((SAMPLES / "xid_31.txt").read_text()))

    assert recorded == (Xid(pci="0000:00:06", code=31),)
    assert audit(system(xids=recorded)(healthy())).findings == ()


def test_an_nvlink_is_down_only_if_the_same_one_of_most_gpus_is_up() -> None:
    """PCIe boards of the H100 have 18 links, of which some are never active (Azure/azurehpc-health-checks#162)."""
    bridged = tuple(0.0 if number in {4, 5, 10, 11, 16} else 26.562 for number in range(18))
    links = {"nvlinks": known(bridged, "smi"), "health": unknown("no", "smi")}
    good = [gpu_with(pci=f"0000:1{at}:00.0", **links) for at in "789"]
    bad = replace(good[0], nvlinks=known((0.0, *bridged[1:]), "smi"))

    assert codes_of(*good) == []
    assert codes_of(bad, *good[1:]) == ["gpu-nvlink"]


def test_a_gpu_without_any_active_nvlink_is_told_from_a_card_that_has_no_bridge() -> None:
    """The line of `nvidia-smi nvlink -s` is leptonai/gpud#1085's, where one GPU of a node was cut off."""
    dark = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
    lit = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
    text = "".join(f"GPU {at}: NVIDIA B200 (UUID: GPU-{at})\n{dark if at == 1 else lit}" for at in range(4))
    cut_off, bridgeless = [], []
    for at in range(4):
        one = gpu_with(pci=f"0000:1{at}:00.0", health=unknown("no", "smi"))
        cut_off.append(replace(one, nvlinks=known(tuple(nvlinks_in(text, at)), "smi")))
        bridgeless.append(replace(one, nvlinks=known(tuple(nvlinks_in(text, 1)), "smi")))

    assert codes_of(*cut_off) == ["gpu-nvlink"]
    assert codes_of(*bridgeless) == []
