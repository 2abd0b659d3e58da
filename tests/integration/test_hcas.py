"""What lies below machines, asked of a simulated vCenter over its real API: where they run, what HCAs have counted."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyVmomi import vim

from components.fabric.hcas import VcenterHcas
from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.esxcli import esxcli
from simulator.switch.commands import Commands
from simulator.switch.ports import Forwarding, Port, PortConfig
from stacks.base import LabError
from stacks.fabric import Fabric
from tests.integration.conftest import require_engine
from tests.integration.vcenter import done, machine_named, running
from tests.messages import lines_naming, stating

pytestmark = [pytest.mark.sim, pytest.mark.whole]

H0, H1, H2 = "DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"
MACHINE = "DC0_C0_RP0_VM0"
"""The template, which is a machine like any other until somebody moves it."""
FABRIC = Fabric.model_validate(
    {
        "vcenter": "127.0.12.203",
        "user": "rocelab",
        "datacenter": "DC0",
        "cluster": "DC0_C0",
        "switches": [
            {
                "name": "roce",
                "rail": "pvrdma",
                "uplink": {"rdma_device": "vmrdma0"},
                "port_group": "pvrdma",
                "hosts": [{"name": H0}, {"name": H1}],
            }
        ],
    }
)


@pytest.fixture(scope="module")
def port() -> Port:
    """Where the machine's rail NIC is cabled to."""
    return Port(MACHINE, "enp5s0", PortConfig(native_vlan=1))


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory, port: Port) -> Iterator[VCenter]:
    require_engine()
    folder = tmp_path_factory.mktemp("sim")
    for part in ("vcenter", "switch"):
        (folder / part).mkdir()
    with answering(folder / "switch" / "control.sock", port):
        control = folder / "vcenter" / "control.sock"
        with running(folder, f"-control={control}") as endpoint, session(endpoint) as found:
            done(machine_named(found.host(H0), MACHINE).RelocateVM_Task(vim.vm.RelocateSpec(host=found.host(H0))))
            yield found


class answering:  # noqa: N801  # reads as what it does
    """The switch's own commands on a socket, without the switch."""

    def __init__(self, path: Path, port: Port) -> None:
        forwarding = Forwarding()
        forwarding.add(port)
        commands = Commands(forwarding, lambda _: None, lambda _: None)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(commands.answer(self.rfile.readline()) + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(path), Handler)

    def __enter__(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_host_s_counters_grow_by_what_its_machines_send_and_get(vcenter: VCenter, port: Port) -> None:
    hcas, wanted = VcenterHcas(vcenter, FABRIC), [("pvrdma", MACHINE)]
    (before,) = hcas.look(wanted).values()
    port.counters.in_bytes += 5_000_000_000
    port.counters.out_bytes += 70_000
    (after,) = hcas.look(wanted).values()

    assert (before.host, before.device, before.why) == (H0, "vmrdma0", "")
    assert before.sent_bytes is not None
    assert before.received_bytes is not None
    assert after.sent_bytes == before.sent_bytes + 5_000_000_000
    assert after.received_bytes == before.received_bytes + 70_000


def test_a_machine_that_moves_is_seen_on_its_new_host_at_once(vcenter: VCenter) -> None:
    hcas, machine = VcenterHcas(vcenter, FABRIC), machine_named(vcenter.host(H0), MACHINE)
    places = []
    for host in (H1, H0):
        done(machine.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(host))))
        places += [one.host for one in hcas.look([("pvrdma", MACHINE)]).values()]

    assert places == [H1, H0]


def test_what_is_unknown_is_reported_for_each_machine(vcenter: VCenter) -> None:
    hcas, machine = VcenterHcas(vcenter, FABRIC), machine_named(vcenter.host(H0), MACHINE)
    done(machine.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(H2))))
    try:
        found = hcas.look([("pvrdma", MACHINE), ("pvrdma", "nobody")])
    finally:
        done(machine.RelocateVM_Task(vim.vm.RelocateSpec(host=vcenter.host(H0))))

    moved, nobody = found["pvrdma", MACHINE], found["pvrdma", "nobody"]
    assert (moved.host, moved.device, nobody.host) == (H2, "", "")
    assert lines_naming(moved.why, f"{H2}:", "rail pvrdma", "fabric.switches")
    assert lines_naming(nobody.why, "nobody")


def test_esxcli_returns_rows_and_refuses_with_the_host_s_text(vcenter: VCenter) -> None:
    host = vcenter.host(H0)

    assert esxcli(host, H0, "network firewall get") == [{"DefaultAction": "DROP", "Enabled": "false", "Loaded": "true"}]
    with pytest.raises(LabError, check=stating(f"{H0}:", "vmrdma7", "no RDMA")):
        esxcli(host, H0, "rdma device stats get", device="vmrdma7")
    with pytest.raises(LabError, match="could not be found"):
        esxcli(host, H0, "rdma nothing get")
