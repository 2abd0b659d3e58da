"""A fabric in govmomi's vCenter simulator as govmomi ships it: its hosts have neither RDMA devices nor GPUs.

What `engine/vcenter` adds for the other tests is not in it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.fabric.preflight.facts import FabricFacts
from components.fabric.preflight.survey import Scope, survey
from components.fabric.vcenter.client import session
from components.fabric.vcenter.nics import Nic, choose
from components.fabric.vcenter.session import VcenterEndpoint
from simulator.nodes.cache import made_once, run
from stacks.base import LabError
from stacks.fabric import UplinkChoice
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.vcenter import running
from tests.messages import lines_naming, stating

pytestmark = pytest.mark.sim

MODULE = Path(__file__).with_name("vcsim")
HOST, PEER = "DC0_C0_H0", "DC0_C0_H1"
IN_USE, FREE = "vmnic0", "vmnic1"
"""The uplink of a host's vSwitch0, and its other NIC."""
FREE_MAC, DRIVER = "00:0c:29:81:d8:aa", "nvmxnet3"
SPEED_MBIT = 10_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    """A lab with a switch for PVRDMA on two hosts, and a worker with a vGPU."""
    require_engine()

    def build(folder: Path) -> None:
        run("go", "build", "-C", str(MODULE), "-buildvcs=false", "-o", str(folder / "vcsim"), ".")

    sources = [(MODULE / name).read_text() for name in ("main.go", "go.sum")]
    program = made_once("go-vcsim", "\0".join(sources), build, print) / "vcsim"
    folder = tmp_path_factory.mktemp("stock")
    with running(folder, program=program) as endpoint:
        stack = a_stack(folder, endpoint)
        [switch] = stack.fabric["switches"]
        switch["hosts"] = [{"name": name, "vmkernel": {"existing": "vmk0"}} for name in (HOST, PEER)]
        worker = a_worker(1)
        worker["vgpu"] = {"profile": "grid_v100-32c"}
        worker["machine"] |= {"firmware": "efi", "host": HOST}
        stack.nodes = [worker]
        yield stack


def facts(endpoint: VcenterEndpoint) -> FabricFacts:
    scope = Scope(datacenter="DC0", cluster="DC0_C0", hosts=(HOST, PEER), machines=True, gpus=True)
    with session(endpoint) as opened:
        return survey(opened, scope)


def nics(stack: Vsphere) -> tuple[Nic, ...]:
    return facts(stack.endpoint).hosts[HOST].nics


@pytest.mark.row("B 57", "B 59", "B 312-314", "C 39")
def test_hosts_without_rdma_devices_and_gpus_stop_an_up_before_anything_changes(stack: Vsphere) -> None:
    stack.fabric["switches"][0]["uplink"] = {"name": FREE}
    before = facts(stack.endpoint)

    printed = stack.pulumi("up", fails=True)

    named = (
        (f"{HOST}:", FREE, "no RDMA device", "PVRDMA", "TCP"),
        (f"{PEER}:", FREE, "no RDMA device", "PVRDMA", "TCP"),
        (f"{HOST}:", "no vGPU", "NVIDIA", "Shared Direct"),
        (f"{HOST}:", "graphics type is shared", "sharedDirect"),
    )
    assert [words for words in named if not lines_naming(printed, *words)] == [], printed[-4000:]
    assert facts(stack.endpoint) == before
    assert "vsphere:index" not in stack.run("stack", "export", "--stack", "t").stdout


@pytest.mark.row("C 62", case="two NICs")
@pytest.mark.row("B 3", case="a port that is no NIC")
@pytest.mark.parametrize(
    ("uplink", "words"),
    [
        pytest.param({"driver": DRIVER}, ("2 NICs", IN_USE, FREE, "one uplink per switch"), id="two NICs"),
        pytest.param(
            {"driver": "nmlx5_core"}, ("no NIC", IN_USE, FREE, "VPI port", "InfiniBand"), id="a port that is no NIC"
        ),
    ],
)
def test_an_up_stops_at_two_uplinks_and_at_none(stack: Vsphere, uplink: dict[str, str], words: tuple[str, ...]) -> None:
    stack.fabric["switches"][0]["uplink"] = uplink
    before = facts(stack.endpoint)

    printed = stack.pulumi("up", fails=True)

    for host in (HOST, PEER):
        assert lines_naming(printed, f"{host}:", *words), printed[-4000:]
    assert facts(stack.endpoint) == before


@pytest.mark.row("C 76-84")
@pytest.mark.parametrize("uplink", [{"name": FREE}, {"mac": FREE_MAC}])
def test_a_nic_is_identified_by_name_or_mac(stack: Vsphere, uplink: dict[str, str]) -> None:
    choice = UplinkChoice.model_validate(uplink)

    assert choose(HOST, nics(stack), choice, "rail-a", rdma=False).name == FREE


@pytest.mark.row("C 76-84")
@pytest.mark.parametrize(
    ("uplink", "words"),
    [
        ({"driver": DRIVER, "min_speed_mbit": SPEED_MBIT}, ("2 NICs", IN_USE, FREE, "uplink.mac")),
        ({"driver": DRIVER, "min_speed_mbit": SPEED_MBIT + 1}, ("no NIC", IN_USE, FREE)),
        ({"name": IN_USE}, (IN_USE, "vSwitch0", "in use")),
    ],
)
def test_by_driver_and_speed_two_fit_and_the_list_is_shown(
    stack: Vsphere, uplink: dict[str, object], words: tuple[str, ...]
) -> None:
    choice = UplinkChoice.model_validate(uplink)

    with pytest.raises(LabError, check=stating(HOST, *words)):
        choose(HOST, nics(stack), choice, "rail-a", rdma=False)
