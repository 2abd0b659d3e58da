"""What the timer of a host writes for node_exporter, read from a server that is a folder.

The false alarms are those of other monitors: what is unused, renamed, or cannot be read just now is not a fault.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.pack import packed
from components.hosts.program.look.read_only import ReadOnly
from components.hosts.program.machine import StepError, load_json
from components.hosts.program.places import DOCUMENT_FILE, FAST_FILE, SLOW_FILE
from components.hosts.program.steps.watch import SERVICE
from components.hosts.program.watch import METRICS, SLOW_S, write
from stacks.lab import Lab
from tests.components.audit.spoilt import lab as hardware_lab
from tests.components.inventory.tree import FIRST, GPU, NAMES, SECOND, Tree

FOLDER = "/var/lib/prometheus/node-exporter"
NOW_S = 1_800_000_000.0
MODULE = """\tIdentifier                                : 0x18 (QSFP-DD Double Density 8X Pluggable Transceiver)
\tModule temperature                        : 45.20 degrees C / 113.36 degrees F
\tTransmit avg optical power (Channel 1)    : 1.2012 mW / 0.80 dBm
\tRcvr signal avg optical power(Channel 1)  : 0.9120 mW / -0.40 dBm
\tRcvr signal avg optical power(Channel 2)  : 0.0000 mW / -inf dBm
\tModule temperature high alarm threshold   : 80.00 degrees C / 176.00 degrees F
"""
"""The lines as ethtool's qsfp.c, sff-common.c and cmis.c print them."""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.file(f"{FOLDER}/apt.prom", "")
    tree.file("/proc/stat", "cpu 1 2 3\nbtime 1700000000\n")
    for address in (FIRST, SECOND):
        tree.file(f"/sys/class/net/{NAMES[address]}/carrier_down_count", "1\n")
    answers = {"-m ens1np0": MODULE, "-S ens1np0": "NIC statistics:\n     rx_prio3_pause: 17\n     rx3_packets: 5\n"}
    tree.program("ethtool", answers)
    return tree


@pytest.fixture
def document() -> dict[str, Any]:
    asked = hardware_lab(hosts=1, rails=2).model_dump(mode="json")
    for pf, address in zip(asked["nodes"][0]["pfs"], (FIRST, SECOND), strict=True):
        pf["pci"] = address
    asked["system"]["watch"] = {}
    lab = Lab.model_validate(asked)
    return host_document(lab, lab.nodes[0])


def written(tree: Tree, document: dict[str, Any], now_s: float = NOW_S) -> dict[str, float]:
    """Both files as samples, without the labels of the node."""
    write(ReadOnly(str(tree.root), str(tree.programs)), document, now_s)
    samples: dict[str, float] = {}
    for name in (FAST_FILE, SLOW_FILE):
        for line in (tree.root / FOLDER.lstrip("/") / name).read_text().splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                samples[re.sub('lab="pod1",node="gpu01",?', "", series)] = float(value)
    return samples


def of(samples: dict[str, float], rail: str) -> dict[str, float]:
    mine = {series: value for series, value in samples.items() if f'rail="{rail}"' in series}
    return {re.sub(r'rail="[\w-]+",?', "", series).replace("rocelab_", ""): value for series, value in mine.items()}


def test_ports_modules_and_gpus_are_written_with_all_that_rules_need(tree: Tree, document: dict[str, Any]) -> None:
    samples = written(tree, document)

    assert samples["rocelab_watch_timestamp_seconds{}"] == NOW_S
    assert samples["rocelab_boot_time_seconds{}"] == 1_700_000_000
    first = of(samples, "rail-1")
    states = {f"port_{name}{{}}": 1 for name in ("present", "up", "rdma_active", "carrier_down_total")}
    assert first.items() >= {**states, "port_unread{}": 0, "port_speed_bytes{}": 5e10}.items()
    assert first['port_events_total{counter="out_of_sequence"}'] == 7
    assert first['port_events_total{counter="rx_prio3_pause"}'] == 17
    assert not any("rx3_packets" in series or "lifespan" in series for series in first)
    assert first["module_temperature_celsius{}"] == 45.2
    assert first['module_power_dbm{direction="rx",lane="1"}'] == -0.4
    assert first['module_power_dbm{direction="rx",lane="2"}'] == float("-inf"), "a lane without light"
    assert samples["rocelab_gpus{}"] == 1
    assert samples[f'rocelab_gpu_state{{gpu="{GPU}",state="lost"}}'] == 0
    assert samples['rocelab_gpu_xids_total{gpu="0000:1a:00",xid="79"}'] == 1


def test_an_unused_port_has_no_series(tree: Tree, document: dict[str, Any]) -> None:
    """NVIDIA/NVSentinel#1361: a port without cable that nobody uses was fatal; #1529, 2: so was the management NIC."""
    tree.file("/sys/class/net/eno1/carrier", "0\n")
    document["pfs"] = document["pfs"][:1]
    tree.file("/sys/class/net/ens2np0/carrier", "0\n")

    samples = written(tree, document)

    assert of(samples, "rail-2") == {}
    assert 0 not in {value for series, value in samples.items() if "port_up" in series}


def test_a_link_that_is_down_is_only_down(tree: Tree, document: dict[str, Any]) -> None:
    tree.file("/sys/class/net/ens1np0/carrier", "0\n")
    tree.file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")

    first = of(written(tree, document), "rail-1")

    assert (first["port_present{}"], first["port_up{}"]) == (1, 0)
    assert "port_speed_bytes{}" not in first


def test_a_device_that_is_gone_is_reported_once(tree: Tree, document: dict[str, Any]) -> None:
    """NVIDIA/NVSentinel#1488: two fatal events for one device."""
    (tree.root / f"sys/bus/pci/devices/{FIRST}").unlink()

    samples = written(tree, document)

    assert {series: value for series, value in of(samples, "rail-1").items() if "counter" not in series} == {
        "port_unread{}": 0,
        "port_present{}": 0,
    }
    assert of(samples, "rail-2")["port_up{}"] == 1


def test_a_file_that_cannot_be_read_is_no_fault_and_hides_no_other_port(tree: Tree, document: dict[str, Any]) -> None:
    """NVIDIA/NVSentinel#1488: a read error made devices vanish; #1529, 4: one unreadable device hid all others."""
    carrier = tree.root / "sys/class/net/ens1np0/carrier"
    carrier.unlink()
    carrier.mkdir()  # reading it fails

    samples = written(tree, document)

    fast = {series for series in of(samples, "rail-1") if not re.search("counter|module", series)}
    assert fast == {"port_unread{}"}
    assert of(samples, "rail-1")["port_unread{}"] == 1
    assert of(samples, "rail-2")["port_up{}"] == 1


def test_an_rdma_device_with_another_name_keeps_its_series(tree: Tree, document: dict[str, Any]) -> None:
    """NVIDIA/NVSentinel#1529, 3: after a reboot the device had another name, and the fault of the old one stayed."""
    before = written(tree, document)
    own = tree.root / f"sys/bus/pci/devices/{FIRST}/infiniband"
    (own / "mlx5_0").rename(own / "rocep25s0")
    (tree.root / "sys/class/infiniband/rocep25s0").symlink_to((own / "rocep25s0").resolve())

    assert written(tree, document, NOW_S + SLOW_S).keys() == before.keys()


def test_an_rdma_device_that_is_gone_leaves_the_link_up(tree: Tree, document: dict[str, Any]) -> None:
    own = tree.root / f"sys/bus/pci/devices/{FIRST}/infiniband"
    (own / "mlx5_0").rename(tree.root / "removed")

    first = of(written(tree, document), "rail-1")

    assert (first["port_up{}"], first["port_rdma_active{}"]) == (1, 0)


def test_a_gpu_that_the_driver_lost_is_lost(tree: Tree, document: dict[str, Any]) -> None:
    empty = '<?xml version="1.0" ?><nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>'
    tree.program("nvidia-smi", {"-q -x": empty})

    samples = written(tree, document)

    assert samples["rocelab_gpus{}"] == 0
    assert samples[f'rocelab_gpu_state{{gpu="{GPU}",state="lost"}}'] == 1


def test_what_the_log_or_a_virtual_port_does_not_say_is_no_fault(tree: Tree, document: dict[str, Any]) -> None:
    tree.script("journalctl", "exit 1")
    tree.file("/sys/class/net/ens1np0/speed", "-1\n")

    samples = written(tree, document)

    assert samples["rocelab_gpus{}"] == 1
    assert not any("xid" in series for series in samples)
    assert "port_speed_bytes{}" not in of(samples, "rail-1")


def test_programs_run_only_when_the_slow_file_is_due(tree: Tree, document: dict[str, Any]) -> None:
    slow = tree.root / FOLDER.lstrip("/") / SLOW_FILE
    written(tree, document, NOW_S)
    begun_s = slow.stat().st_mtime
    slow.write_text("")

    written(tree, document, begun_s + SLOW_S - 5)
    assert slow.read_text() == ""
    written(tree, document, begun_s + SLOW_S + 5)
    assert "rocelab_gpus" in slow.read_text()


def test_a_damaged_document_fails_the_unit_instead_of_a_default(tree: Tree) -> None:
    """NVIDIA/NVSentinel#1529, 1: with a typing error in its file the monitor went on and watched nothing."""
    tree.file(DOCUMENT_FILE, "{")

    with pytest.raises(StepError, match="damaged"):
        load_json(ReadOnly(str(tree.root)), DOCUMENT_FILE)


def test_the_unit_may_write_nowhere_but_into_the_folder_and_its_cache() -> None:
    assert "ProtectSystem=strict" in SERVICE
    assert re.findall(r"^ReadWritePaths=(.*)$", SERVICE, re.MULTILINE) == ["FOLDER"]


def test_compiled_modules_are_kept_until_the_program_changes(tmp_path: Path) -> None:
    program, cache = tmp_path / "host.pyz", tmp_path / "cache"
    program.write_bytes(packed())
    cache.mkdir()

    def run() -> set[Path]:
        words = [sys.executable, "-I", "-S", program, "watch"]
        subprocess.run(words, env={"CACHE_DIRECTORY": str(cache)}, capture_output=True, check=True)
        return set(cache.glob("*/rocelab_host/__pycache__/watch.*.pyc"))

    first = run()
    assert len(first) == 1
    assert run() == first

    os.utime(program, (1, 1))
    second = run()
    assert len(second) == 1
    assert second != first


def test_only_the_two_files_change(tree: Tree, document: dict[str, Any]) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tree.root.rglob("*") if path.is_file()}

    before = state()
    written(tree, document)
    after = state()

    assert {Path(path).name for path in after.keys() - before.keys()} == {FAST_FILE, SLOW_FILE}
    assert {path: after[path] for path in before} == before


@pytest.mark.sim
def test_promtool_takes_both_files(tree: Tree, document: dict[str, Any], prometheus: Path) -> None:
    written(tree, document)
    for name in (FAST_FILE, SLOW_FILE):
        text = (tree.root / FOLDER.lstrip("/") / name).read_text()
        words = [prometheus / "promtool", "check", "metrics"]
        checked = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        assert checked.stderr == ""
    assert all(kind in ("gauge", "counter") and text.endswith(".") for kind, text in METRICS.values())
