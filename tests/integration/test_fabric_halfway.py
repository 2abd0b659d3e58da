"""A vSphere run that somebody else or a timeout stops half-way: what is said, and that the next run comes through."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import session
from simulator.vcenter.control import SOCKET
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.vcenter import running
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

H0, H1, H2 = "DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"
TEMPLATE, SPARE = "DC0_C0_RP0_VM0", "spare"


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control") / SOCKET


@pytest.fixture(scope="module")
def stack(socket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    require_engine()
    folder = tmp_path_factory.mktemp("halfway")
    with running(folder, f"-control={socket}") as endpoint:
        made = a_stack(folder, endpoint)
        made.fabric["switches"][0]["hosts"][2]["vmkernel"] = {"existing": "vmk0"}
        made.nodes = [a_worker(1), a_worker(2)]
        yield made


def untraced(said: str) -> str:
    assert "Traceback" not in said, said[-3000:]
    return said


def test_an_adapter_that_a_killed_run_has_left_is_named_and_gets_no_double(stack: Vsphere) -> None:
    """As after a kill between the vCenter's answer and its place in the state: the stack made it, and does not know."""
    address = vim.host.IpConfig(dhcp=False, ipAddress="10.10.11.201", subnetMask="255.255.255.0")
    with session(stack.endpoint) as vcenter:
        network = vcenter.host(H0).configManager.networkSystem
        left = network.AddVirtualNic("", vim.host.VirtualNic.Specification(ip=address))

    said = untraced(stack.pulumi("up", "--refresh", fails=True))
    with session(stack.endpoint) as vcenter:
        adapters = sorted(vcenter.vmkernel_names(vcenter.host(H0)))
        vcenter.host(H0).configManager.networkSystem.RemoveVirtualNic(left)

    assert lines_naming(said, f"{H0}:", "10.10.11.201", f"vmkernel: {{existing: {left}}}")
    assert adapters == ["vmk0", left]
