"""What the host program's look finds on a server that is a folder, and that it leaves everything as it was."""

import hashlib
import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.hosts.pack import on_stdin
from components.hosts.program.look import pci
from components.hosts.program.look.lldp import parse_frames
from components.hosts.program.look.read_only import LARGEST_FILE, LARGEST_OUTPUT, ReadOnly, ReadOnlyError
from components.hosts.program.look.run import look
from components.hosts.program.look.system import complaints, containerd_memlock, version_on_disk
from components.inventory.answer import host_of
from components.inventory.hosts import command
from components.inventory.model import ConfigFile, Gid, Host, NearestGpus, PendingSetting, Pf, Route, Rule, Xid
from components.inventory.reading import NOT_READ, known
from components.switches.settings import Announcement
from tests.components.inventory.tree import FIRST, GPU, KERNEL_LOG, MANAGEMENT, SECOND, SERIAL, Tree, connectx
from tests.messages import states

ASKED = Host(name="gpu01", address="192.0.2.11", user="ops", read_at=datetime(2026, 11, 1, tzinfo=UTC))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setenv("SSH_CONNECTION", "198.51.100.1 5000 192.0.2.11 22")
    return Tree(tmp_path)


def seen(tree: Tree, program_s: float = 20.0) -> Host:
    """The host as an inventory has it, through the same text that a host prints."""
    found = look(ReadOnly(str(tree.root), str(tree.programs), program_s), deadline_s=60)
    return host_of(json.dumps(found), ASKED)


def pf_of(host: Host, pci_address: str) -> Pf:
    found = host.pf(pci_address)
    assert found is not None
    return found


def state_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and folder: mode, time of change, content."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in folder.rglob("*")
    }


def test_a_port_is_read_with_all_that_rails_and_checks_need(tree: Tree) -> None:
    host = seen(tree)
    pf = pf_of(host, FIRST)

    assert [each.pci for each in host.pfs.or_else(())] == [MANAGEMENT, FIRST, SECOND], "VFs are no ports"
    assert pf.interfaces.value == ("ens1np0",)
    assert (pf.mac.value, pf.driver.value) == ("02:00:00:00:00:00", "mlx5_core")
    assert (pf.vendor_id.value, pf.device_id.value) == ("15b3", "1021")
    assert (pf.board_id.value, pf.firmware.value) == ("MT_0000000838", "28.45.1200")
    assert (pf.up.value, pf.carrier.value, pf.carrier_changes.value) == (True, True, 2)
    assert pf.speed_mbit_s == known(400_000, "/sys/class/net/ens1np0/speed")
    assert pf.supported_speeds_mbit_s.value == (100_000, 200_000, 400_000), "advertised ones are no supported ones"
    assert (pf.fec.value, pf.mtu_bytes.value, pf.addresses.value) == ("rs", 9000, ("10.11.0.1/16",))
    assert (pf.pcie_speed_gt_s.value, pf.pcie_width.value) == (32.0, 16)
    assert pf.bridges.value == ("0000:15:01.0", "0000:18:00.0")
    assert pf.eswitch_mode.value == "legacy"


@pytest.mark.parametrize(
    ("changed", "request_bytes", "relaxed", "ats"),
    [
        ({}, 512, True, False),
        ({"x68": "4f 59"}, 4096, False, False),
        ({"x34": "40", "x40": "01 60"}, 512, True, False),
        ({"x100": "01 00 02 15", "x150": "0f 00 01 00 00 00 00 80"}, 512, True, True),
        ({"x100": "0f 00 01 00 00 00 00 00"}, 512, True, False),
    ],
    ids=["as recorded", "4096 bytes, strict", "behind another capability", "with ATS", "with ATS switched off"],
)
def test_the_pcie_settings_of_a_nic_are_read_from_its_configuration_space(
    tree: Tree, changed: dict[str, str], request_bytes: int, relaxed: bool, ats: bool
) -> None:
    """0x295f is 512 bytes with relaxed ordering, as the dump has it, and setpci's 68.w=5xxx is 4096 bytes."""
    tree.binary(f"/sys/bus/pci/devices/{FIRST}/config", connectx(**changed))

    pf = pf_of(seen(tree), FIRST)

    assert (pf.max_read_request_bytes.value, pf.relaxed_ordering.value, pf.ats.value) == (request_bytes, relaxed, ats)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (connectx()[:64], "64 bytes"),  # what the kernel gives others than root
        (connectx(x34="48"), "no PCI Express capability"),
        (connectx(x34="48", x48="03 48"), "no PCI Express capability"),  # a list that leads to itself
    ],
)
def test_pcie_settings_that_cannot_be_read_are_unknown_with_the_reason(tree: Tree, space: bytes, said: str) -> None:
    tree.binary(f"/sys/bus/pci/devices/{FIRST}/config", space)

    pf = pf_of(seen(tree), FIRST)

    assert said in pf.max_read_request_bytes.unknown
    assert said in pf.relaxed_ordering.unknown
    assert pf_of(seen(tree), SECOND).max_read_request_bytes.value == 512


def test_the_gpu_under_the_deepest_common_bridge_is_the_nearest(tree: Tree) -> None:
    host = seen(tree)

    assert pf_of(host, FIRST).nearest_gpus.value == NearestGpus(gpus=(GPU,), bridge="0000:15:01.0")
    assert pf_of(host, SECOND).nearest_gpus.value == NearestGpus(gpus=())
    [gpu] = host.gpus.or_else(())
    assert (gpu.pci, gpu.model.value) == (GPU, "NVIDIA H100")
    health = gpu.health.value
    assert health is not None
    assert (health.ecc_uncorrected, health.remap_failed, health.recovery_action) == (0, False, "None")
    assert (health.throttled, health.pcie_width, health.pcie_generation, health.fabric_state) == ((), 16, 5, "")
    assert gpu.nvlinks.value == (26.562,) * 18
    assert host.system.xids.value == (Xid(pci="0000:1a:00", code=79),)


@pytest.mark.row("C 233-234, 246-247")
def test_rdma_device_and_vfs_are_read(tree: Tree) -> None:
    pf = pf_of(seen(tree), FIRST)
    [rdma] = pf.rdma.or_else(())
    first, second = pf.vfs.or_else(())

    assert (rdma.device, rdma.link_layer.value, rdma.state.value) == ("mlx5_0", "Ethernet", "ACTIVE")
    assert (rdma.active_mtu_bytes.value, rdma.traffic_class.value) == (4096, 106)
    assert rdma.gids.or_else(())[1] == Gid(
        index=1, gid="0000:0000:0000:0000:0000:ffff:0a0b:0001", type="RoCE v2", interface="ens1np0", ipv4="10.11.0.1"
    )
    assert len(rdma.gids.or_else(())) == 2, "empty entries are left out"
    assert (pf.vfs_num.value, first.pci, second.number) == (2, "0000:19:00.2", 1)
    assert "another namespace" in first.mtu_bytes.unknown


def test_quality_of_service_neighbour_counters_and_files_are_read(tree: Tree) -> None:
    host = seen(tree)
    pf, management = pf_of(host, FIRST), pf_of(host, MANAGEMENT)

    assert pf.qos.trust.value == "pcp"
    assert pf.qos.dscp_priority.or_else({})[26] == 5
    assert pf.qos.pfc_priorities.value == (4,)
    assert pf.qos.ecn_np_priorities.value == (3,)
    assert (pf.qos.cnp_dscp.value, pf.qos.cnp_priority.value) == (48, 6)
    assert pf.qos.pause_rx.value is True
    assert pf.lldp.value == (
        Announcement(
            system="leaf1", chassis_id="aa:bb:cc:00:00:01", port_id="Ethernet12", port_description="gpu01 rail-1"
        ),
    )
    counters = pf.counters.value
    assert counters is not None
    assert counters.uptime_s == 86_400.5
    assert counters.values["rx_crc_errors_phy"] == 386
    assert counters.values["rx_prio3_pause"] == 184_291
    assert counters.values["out_of_sequence"] == 7
    assert not {"rx0_packets", "rx0_xdp_errors", "rx_packets", "lifespan"} & counters.values.keys()
    assert pf.config_files.value == (
        ConfigFile(path="/etc/netplan/60-rails.yaml", manager="netplan", mtu_bytes=9000, addresses=("10.11.0.1/16",)),
    )
    [file] = management.config_files.or_else(())
    assert (file.manager, file.addresses) == ("networkmanager", ("192.0.2.11/24",))


@pytest.mark.parametrize(
    "port",
    [
        "ens1np0:  # rail 1\n      mtu: 9000\n      virtual-function-count: 4",
        "ens1np0: {mtu: 9000, virtual-function-count: 4}",
    ],
)
def test_the_vfs_of_a_netplan_file_are_those_of_its_own_port(tree: Tree, port: str) -> None:
    others = ("ens0: {virtual-function-count: 1}", "ens9:\n      virtual-function-count: 9")
    tree.file("/etc/netplan/60-rails.yaml", "network:\n  ethernets:\n    " + "\n    ".join((port, *others)) + "\n")

    [file] = pf_of(seen(tree), FIRST).config_files.or_else(())

    assert (file.manager, file.vfs) == ("netplan", 4)


@pytest.mark.parametrize(
    ("path", "text", "manager"),
    [
        (
            "/etc/netplan/60-rails.yaml",
            "network:\n  ethernets:\n    rails:\n      match:\n        name: ens2*\n",
            "netplan",
        ),
        ("/etc/sysconfig/network-scripts/ifcfg-ens2np0", "ONBOOT=yes\n", "ifcfg"),
        ("/etc/sysconfig/network-scripts/ifcfg-rail2", 'HWADDR="02:00:00:00:00:01"\n', "ifcfg"),
        (
            "/etc/NetworkManager/system-connections/rail2.nmconnection",
            "[ethernet]\nmac-address=02:00:00:00:00:01\n",
            "networkmanager",
        ),
    ],
)
def test_a_file_is_read_for_the_port_that_its_program_would_set(tree: Tree, path: str, text: str, manager: str) -> None:
    tree.file(path, text)

    files = pf_of(seen(tree), SECOND).config_files.or_else(())

    assert [(file.path, file.manager) for file in files] == [(path, manager)]


def test_what_a_nic_does_not_report_is_unknown_with_the_reason(tree: Tree) -> None:
    pf, management = pf_of(seen(tree), SECOND), pf_of(seen(tree), MANAGEMENT)

    assert pf.fec.unknown == "netlink error: Operation not supported"
    assert pf.fec.source == "ethtool --show-fec ens2np0"
    assert not pf.supported_speeds_mbit_s.is_known
    assert pf.lldp.value == (), "lldpd listens, and nobody speaks"
    assert (management.firmware.value, management.board_id.value) == ("1.67.0", "DEL_0000000026")
    assert management.rdma.value == ()


ROCE_ACCL = """Sending access register...
Field Name                             | Data
====================================================
roce_adp_retrans_field_select          | 0x00000001
roce_tx_window_field_select            | 0x00000001
roce_slow_restart_field_select         | 0x00000001
roce_slow_restart_idle_field_select    | 0x00000001
roce_adp_retrans_en                    | 0x00000001
roce_tx_window_en                      | 0x00000000
roce_slow_restart_en                   | 0x00000001
roce_slow_restart_idle_en              | 0x00000000
====================================================
"""
"""`mlxreg -d 5e:00.0 --reg_name ROCE_ACCL --get` on a ConnectX-5 Ex, from a public study of lossy RoCE; tests of
nic-configuration-operator have the same form."""


def test_firmware_settings_are_asked_for_only_on_request_and_only_of_nvidias_nics(tree: Tree) -> None:
    answers = {
        "--version": "mstconfig, mstflint 4.26.0\n",
        f"-d {FIRST} -e query": (
            "Configurations:          Default      Current      Next Boot\n"
            "*        NUM_OF_VFS      8            8            16\n"
            "         SRIOV_EN        True(1)      True(1)      True(1)\n"
            "*        LINK_TYPE_P1    ETH(2)       ETH(2)       IB(1)\n"
            "*        ROCE_CONTROL    ROCE_ENABLE(2)  DEVICE_DEFAULT(0)  ROCE_ENABLE(2)\n"
            "         ROCE_CC_PRIO_MASK_P1  255    255          255\n"
            "         PCI_WR_ORDERING per_mkey(0)  per_mkey(0)  per_mkey(0)\n"
            "         ATS_ENABLED     False(0)     False(0)     False(0)\n"
        ),
    }
    tree.program("mstconfig", answers, otherwise="echo '-E- Failed to open the device' >&2; exit 3")
    tree.program("mlxreg", {f"-d {FIRST} --reg_name ROCE_ACCL --get": ROCE_ACCL}, otherwise="echo '-E- no' >&2; exit 1")
    machine = ReadOnly(str(tree.root), str(tree.programs), 20)

    plain = seen(tree)
    asked = host_of(json.dumps(look(machine, deadline_s=60, firmware=True)), ASKED)

    assert pf_of(plain, FIRST).pending_firmware is NOT_READ
    assert pf_of(asked, FIRST).pending_firmware.value == (
        PendingSetting(name="LINK_TYPE_P1", now="2", next="1"),
        PendingSetting(name="NUM_OF_VFS", now="8", next="16"),
        PendingSetting(name="ROCE_CONTROL", now="0", next="2"),
    )
    assert pf_of(asked, FIRST).firmware_settings.value == {
        "ATS_ENABLED": 0,
        "PCI_WR_ORDERING": 0,
        "ROCE_CC_PRIO_MASK_P1": 255,
        "ROCE_CONTROL": 0,
    }
    assert pf_of(asked, FIRST).roce_acceleration.value == {
        "roce_adp_retrans_en": 1,
        "roce_tx_window_en": 0,
        "roce_slow_restart_en": 1,
        "roce_slow_restart_idle_en": 0,
    }
    assert "-E- no" in pf_of(asked, SECOND).roce_acceleration.unknown
    assert "Failed to open" in pf_of(asked, SECOND).pending_firmware.unknown
    assert pf_of(asked, MANAGEMENT).pending_firmware.value == ()
    assert pf_of(asked, MANAGEMENT).firmware_settings.value == pf_of(asked, MANAGEMENT).roce_acceleration.value == {}


def test_system_network_and_carriers_are_read(tree: Tree) -> None:
    host = seen(tree)
    system, network = host.system, host.network
    [driver] = system.drivers.or_else(())

    assert (system.product.value, system.numa_nodes.value) == ("PowerEdge XE9680", 2)
    assert system.kernel_arguments.value == ("intel_iommu=on", "iommu=pt"), "nothing else of a command line"
    assert (driver.loaded.value, driver.on_disk.value) == ("24.10-1.1.4", "25.07-0.9.7")
    assert system.gpu_driver.value == "570.124.06"
    assert (system.containerd_memlock.value, system.reboot_required.value) == ("8388608", True)
    assert (system.governors.value, system.swap_kib.value) == (("powersave",), 8_388_604)
    assert (system.rdma_namespaces.value, system.kubelet_topology_policy.value) == ("exclusive", "restricted")
    assert system.modules.value == ("ib_core", "mlx5_core")
    assert system.acs_bridges.value == ("0000:18:00.0",)
    assert network.routes.value == (
        Route(destination="default", gateway="192.0.2.1", interface="eno1"),
        Route(destination="10.12.0.0/16", interface="ens2np0", source="10.12.0.1", table="102"),
    )
    assert network.rules.value == (Rule(priority=102, source="10.12.0.1", table="102"),)
    [vlan] = network.links.or_else(())
    assert (vlan.name, vlan.kind, vlan.vlan_id, vlan.lower) == ("ens1np0.7", "vlan", 7, "ens1np0")
    assert network.sysctls.or_else({})["net.ipv4.conf.ens1np0.rp_filter"] == 2
    assert host.carriers.ssh.value == ("eno1",)
    assert host.carriers.default_route.value == ("eno1",)
    assert host.carriers.storage.value == {"eno1": "/home is mounted over it"}


def test_nothing_is_written_and_no_secret_or_serial_number_is_taken(tree: Tree) -> None:
    before = state_of(tree.root.parent)

    found = json.dumps(look(ReadOnly(str(tree.root), str(tree.programs)), deadline_s=60))

    assert state_of(tree.root.parent) == before
    assert SERIAL not in found
    assert "hunter2" not in found


def test_the_machine_of_a_look_refuses_every_change(tmp_path: Path) -> None:
    machine = ReadOnly(str(tmp_path))

    for change in (
        lambda: machine.put("/x", "y"),
        lambda: machine.write("/x", "y"),
        lambda: machine.make_folder("/x"),
        lambda: machine.remove("/x"),
    ):
        with pytest.raises(ReadOnlyError):
            change()


def test_a_long_file_is_read_in_parts_up_to_its_bound(tmp_path: Path) -> None:
    content = bytes(range(256)) * (2 * LARGEST_FILE // 256)
    (tmp_path / "long").write_bytes(content)

    assert ReadOnly(str(tmp_path)).bytes_of("/long") == content[:LARGEST_FILE]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sleep 60", "did not end within 1 s"),
        ("(trap '' TERM; sleep 60) & wait", "did not end within 1 s"),
        (f"head -c {LARGEST_OUTPUT * 5} /dev/zero", "printed more than"),
        ("kill -SEGV $$", "it exited with -11"),
        ("echo not JSON; exit 0", "it printed no JSON"),
        ("echo '[{\"ifname\": 7}, 5]'; exit 0", "Error: "),
        ("echo out of order >&2; exit 3", "out of order"),
    ],
    ids=["hangs", "hangs in a child", "prints 10 MB", "crashes", "prints text", "prints another form", "fails"],
)
def test_a_program_that_misbehaves_costs_its_own_values_only(tree: Tree, body: str, said: str) -> None:
    tree.script("ip", body)

    host = seen(tree, program_s=1.0)

    assert any(said in each.unknown for each in (host.network.links, pf_of(host, FIRST).addresses)), host.network
    assert not host.network.peers.is_known
    assert pf_of(host, FIRST).mtu_bytes.value == 9000
    assert pf_of(host, FIRST).qos.trust.value == "pcp"


def test_a_file_that_hangs_costs_what_comes_after_it_in_its_section(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ReadOnly.text

    def hanging(machine: ReadOnly, path: str) -> str:
        if path.endswith("ens2np0/carrier"):
            time.sleep(3)
        return read(machine, path)

    monkeypatch.setattr(ReadOnly, "text", hanging)
    found = look(ReadOnly(str(tree.root), str(tree.programs)), deadline_s=2)
    host = host_of(json.dumps(found), ASKED)

    assert states(pf_of(host, SECOND).carrier.unknown, "2 s")
    assert "carrier hung" in pf_of(host, SECOND).mtu_bytes.unknown
    assert pf_of(host, SECOND).driver.value == "mlx5_core"
    assert pf_of(host, FIRST).mtu_bytes.value == 9000


def test_without_root_the_kernels_log_and_pci_bridges_are_unknown_rather_than_fine(tree: Tree) -> None:
    tree.script("journalctl", "exit 0")  # what it prints to a user who may not read the journal (-q)
    tree.binary(f"/sys/bus/pci/devices/{FIRST}/../config", b"\0" * 64)  # what the kernel gives others than root

    system = seen(tree).system

    assert not system.kernel_complaints.is_known
    assert "64 bytes" in system.acs_bridges.unknown


def test_without_lldpd_the_frames_that_networkd_keeps_are_read() -> None:
    """A frame by IEEE 802.1AB, behind its length as systemd's `sd-lldp-rx` saves it."""
    values = {1: b"\x04\xaa\xbb\xcc\x00\x00\x01", 2: b"\x05Ethernet12", 4: b"gpu01 rail-1", 5: b"leaf1"}
    frame = b"\x01\x80\xc2\x00\x00\x0e" + b"\xaa\xbb\xcc\x00\x00\x02" + b"\x88\xcc"
    for kind, value in values.items():
        frame += (kind << 9 | len(value)).to_bytes(2, "big") + value
    frame += b"\0\0"

    assert parse_frames(len(frame).to_bytes(8, "little") + frame) == [
        {
            "system": "leaf1",
            "chassis_id": "aa:bb:cc:00:00:01",
            "port_id": "Ethernet12",
            "port_description": "gpu01 rail-1",
        }
    ]


def test_a_nic_reports_its_cable_and_its_power_in_the_kernels_log() -> None:
    assert [line.split(":")[-1].strip() for line in complaints(KERNEL_LOG)] == [
        "module 0, Cable unplugged",
        "Detected insufficient power on the PCIe slot (27W).",
    ]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("LoadState=loaded\nLimitMEMLOCK=infinity\n", "infinity"),
        ("LoadState=loaded\nLimitMEMLOCK=18446744073709551615\n", "infinity"),
        ("LoadState=not-found\nLimitMEMLOCK=8388608\n", ""),
    ],
)
def test_the_limit_of_containerd_is_read_in_the_words_of_each_systemd(text: str, limit: str) -> None:
    assert containerd_memlock(text) == limit


def test_a_module_of_the_kernels_own_has_the_kernels_version() -> None:
    assert version_on_disk("filename: /lib/x.ko\nvermagic:       6.1.0-37-amd64 SMP\n") == "6.1.0-37-amd64"


def test_a_link_that_a_virtual_machine_does_not_report_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "speed").write_text("Unknown\n")
    (tmp_path / "width").write_text("255\n")
    machine = ReadOnly(str(tmp_path))

    for read, name in ((pci.link_speed, "/speed"), (pci.link_width, "/width")):
        with pytest.raises(Exception, match="it contains"):
            read(machine, name)


def test_the_packed_program_looks_around_on_this_very_machine_without_a_document() -> None:
    """The same bytes and words that go over SSH; what it finds here is whatever this machine is."""
    places = ("/var/lib/rocelab", "/run/rocelab", "/run/rocelab.lock", "/usr/local/lib/rocelab")
    before = [Path(place).exists() for place in places]

    done = subprocess.run(
        ["sh", "-c", command(sudo=False)], input=on_stdin(), capture_output=True, check=True, timeout=60
    )

    host = host_of(done.stdout.decode(), ASKED)
    assert done.stdout.startswith(b"\n{"), "a blank line comes first, as a sign that the program has started"
    assert host.system.kernel.value == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert host.system.boot_id.is_known
    assert [Path(place).exists() for place in places] == before
