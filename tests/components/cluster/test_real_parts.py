"""What the real programs of the bill ask of their manifests: found by running them, or read in the released sources."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.cluster.cluster import GATE_S
from components.cluster.device_plugins import device_plugin_config
from components.cluster.profiles import programs
from stacks.cluster import Cluster
from stacks.lab import Lab
from tests.components.cluster.conftest import profiled

NET_DEVICE_SELECTORS = {
    "vendors", "devices", "drivers", "pciAddresses", "pfNames", "rootDevices", "linkTypes", "isRdma", "acpiIndexes",
    "needVhostNet", "ddpProfiles", "vdpaType", "pKeys",
}  # fmt: skip
"""NetDeviceSelectors of sriov-network-device-plugin v3.11.0 (pkg/types/types.go). Other keys are dropped silently."""
RESOURCE = {"resourcePrefix", "resourceName", "deviceType", "excludeTopology", "selectors", "additionalInfo"}
SELECTOR_LISTS = (3, 6)
"""From this release on `selectors` may be a list (v3.6.0, commit b3aea760a); an older plugin ends at once."""


def pod_of(lab: Lab, cluster: Cluster, program: str) -> Any:
    manifest: Any = programs(lab, cluster)[program].runs["daemonset"]
    return manifest["spec"]["template"]["spec"]


@pytest.mark.parametrize("there", [(), ("run/multus/multus.sock",), ("etc/cni/net.d/00-multus.conf",)])
def test_multus_is_ready_when_it_listens_and_has_written_its_configuration(
    lab: Lab, cluster: Cluster, tmp_path: Path, there: tuple[str, ...]
) -> None:
    """The image is debian:stable-slim, so it has sh and test (multus-cni v4.3.0, images/Dockerfile.thick).

    The socket here is a plain file, for which `test -S` is replaced.
    """
    [container] = pod_of(lab, cluster, "multus")["containers"]
    ready = container["readinessProbe"]["exec"]["command"]
    assert ready == container["startupProbe"]["exec"]["command"]
    assert ready[:2] == ["sh", "-c"]

    moved = ready[2].replace("/host/", f"{tmp_path}/").replace("test -S", "test -f")
    for path in there:
        made(tmp_path / path)
    assert subprocess.run(["sh", "-c", moved], check=False).returncode != 0
    for path in ("run/multus/multus.sock", "etc/cni/net.d/00-multus.conf"):
        made(tmp_path / path)
    assert subprocess.run(["sh", "-c", moved], check=False).returncode == 0


def made(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_multus_may_wait_for_the_primary_network_as_long_as_it_does_itself(lab: Lab, cluster: Cluster) -> None:
    [container] = pod_of(lab, cluster, "multus")["containers"]
    startup = container["startupProbe"]

    # findMasterPlugin(multusAutoconfigDir, 120), pkg/server/config/manager.go
    assert startup["periodSeconds"] * startup["failureThreshold"] > 120


def test_the_device_plugin_s_configuration_has_only_keys_that_its_release_reads(lab: Lab, cluster: Cluster) -> None:
    release = cluster.bill.sriov_device_plugin.rpartition(":v")[2].split(".")
    config = json.loads(device_plugin_config(lab, cluster))

    assert config.keys() == {"resourceList"}
    assert tuple(map(int, release[:2])) >= SELECTOR_LISTS, "else each list of one selector has to be an object"
    for resource in config["resourceList"]:
        assert resource.keys() <= RESOURCE, "isRdma beside the selectors is dropped, and pods get no /dev/infiniband"
        [selector] = resource["selectors"]
        assert selector.keys() <= NET_DEVICE_SELECTORS
        assert selector["isRdma"] is True


class Sysfs:
    """What `look` reads of a node; on a real one the inode of a link differs each time it is made."""

    def __init__(self, root: Path, cluster: Cluster, lab: Lab) -> None:
        self.root, self.made = root, 0
        pod = pod_of(lab, cluster, "device-plugin")
        self.first = pod["initContainers"][0]["command"][2]
        self.probe = pod["containers"][0]["livenessProbe"]["exec"]["command"][2]
        (root / "seen").mkdir()

    def vf(self, address: str, driver: str | None = "mlx5_core") -> None:
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "physfn").touch()
        self.made += 1
        # the old link stays until the new one is there: the file system must not give it the same inode
        fresh = folder / f"driver{self.made}"
        if driver:
            fresh.symlink_to(driver)
            fresh.rename(folder / "driver")

    def rdma_ucm(self) -> None:
        (self.root / "sys/class/misc/rdma_cm").mkdir(parents=True)

    def run(self, script: str) -> int:
        moved = script.replace("/sys/", f"{self.root}/sys/").replace("/seen/devices", f"{self.root}/seen/devices")
        return subprocess.run(["sh", "-c", moved], check=False, capture_output=True).returncode


@pytest.fixture
def node(tmp_path: Path, lab: Lab, cluster: Cluster) -> Sysfs:
    return Sysfs(tmp_path, cluster, lab)


def test_the_device_plugin_starts_again_once_when_vfs_come_after_it(node: Sysfs) -> None:
    node.run(node.first)
    assert node.run(node.probe) == 0

    node.vf("0000:18:00.2")
    assert [node.run(node.probe) for _ in range(2)] == [1, 0], "it looks again, and is left alone then"


def test_the_device_plugin_starts_again_when_the_driver_was_reloaded_under_the_same_vfs(node: Sysfs) -> None:
    """Devices in /dev/infiniband may have other numbers then, and the plugin keeps those that it saw."""
    node.vf("0000:18:00.2")
    node.run(node.first)
    node.vf("0000:18:00.2")

    assert [node.run(node.probe) for _ in range(2)] == [1, 0]


def test_the_device_plugin_starts_again_when_rdma_ucm_is_loaded_after_it(node: Sysfs) -> None:
    node.vf("0000:18:00.2")
    node.run(node.first)
    node.rdma_ucm()

    assert [node.run(node.probe) for _ in range(2)] == [1, 0]


def test_a_vf_that_moves_into_a_pod_restarts_no_plugin(node: Sysfs) -> None:
    """A plugin that starts meanwhile in exclusive mode would not offer that VF (sriov-network-device-plugin#565)."""
    node.vf("0000:18:00.2")
    moved = node.root / "sys/bus/pci/devices/0000:18:00.2/net/eth7"
    moved.mkdir(parents=True)
    node.run(node.first)
    moved.rmdir()

    assert node.run(node.probe) == 0


def test_a_plugin_that_looks_again_by_itself_is_not_restarted(lab: Lab) -> None:
    shared = profiled(lab, {"profile": "shared_rdma"})
    assert shared.cluster
    pod = pod_of(shared, shared.cluster, "shared-device-plugin")

    assert "initContainers" not in pod
    assert "livenessProbe" not in pod["containers"][0]


def test_the_gate_gives_a_real_plugin_in_an_emulated_machine_time_to_register() -> None:
    assert GATE_S["virtual"] >= 120, "a Go program starts 25 to 50 times slower there"
