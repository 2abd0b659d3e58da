"""The pod of the rail check: its script against a made-up /sys, and what keeps it from living on."""

import os
import stat
import subprocess
import time
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from components.jobs.rail_pod import LIMIT_S, PEERS, SCRIPT, script_words
from components.validation.benchmarks.pods.log import PodFacts, parse_pod
from components.validation.benchmarks.pods.plan import PodPlan, PodRail

VF = "0000:18:00.2"


def rail(letter: str, vlan: int) -> PodRail:
    return PodRail(
        name=f"rail-{letter}",
        network=f"default/sriov{vlan}",
        resource=f"intel.com/sriov_{vlan}",
        subnet=IPv4Network(f"10.56.{vlan}.0/24"),
        mtu_bytes=9000,
        vlan_id=vlan,
        routed=False,
        nodes=("gpu01", "gpu02"),
    )


class Inside:
    """The files that a container sees, and a ping that answers to some addresses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.peers = root / "peers"
        for folder in ("sys/class/net", "sys/class/infiniband", "dev/infiniband", "proc/net", "bin"):
            (root / folder).mkdir(parents=True)
        # the kernel's own: its files differ from process to process
        (root / "proc/self").symlink_to("/proc/self")
        self.environment: dict[str, str] = {}
        self.file("proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n")
        self.answering()

    def file(self, path: str, text: str = "") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def interface(self, name: str = "net1", slot: str = VF, mtu: int = 9000) -> None:
        device = self.root / "sys/devices" / slot
        device.mkdir(parents=True, exist_ok=True)
        self.file(f"sys/class/net/{name}/mtu", f"{mtu}\n")
        (self.root / f"sys/class/net/{name}/device").symlink_to(device)

    def rdma(
        self, address: str, name: str = "mlx5_2", slot: str = VF, interface: str = "net1", number: int = 0
    ) -> None:
        """With the two GIDs that a RoCE interface has for each address: of version 1, and of version 2."""
        ports = f"sys/class/infiniband/{name}/ports/1"
        gid = "0000:0000:0000:0000:0000:ffff:" + "{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
        for index, kind in enumerate(("IB/RoCE v1", "RoCE v2")):
            self.file(f"{ports}/gid_attrs/types/{index}", f"{kind}\n")
            self.file(f"{ports}/gid_attrs/ndevs/{index}", f"{interface}\n")
            self.file(f"{ports}/gids/{index}", f"{gid}\n")
        device = self.root / "sys/devices" / slot
        (device / "infiniband_verbs" / f"uverbs{number}").mkdir(parents=True)
        (self.root / f"sys/class/infiniband/{name}/device").symlink_to(device)
        self.file(f"dev/infiniband/uverbs{number}")

    def answering(self, large: str = "none", small: str = "none") -> None:
        """A ping that knows who answers frames of any size, and who answers small ones."""
        path = self.root / "bin/ping"
        text = f'#!/bin/sh\necho "$@" >>{self.root}/pings\ncase "$*" in\n*"-M do"*{large}) exit 0 ;;\n'
        path.write_text(text + f'*"-M do"*) exit 1 ;;\n*{small}|*{large}) exit 0 ;;\nesac\nexit 1\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(self, *peers: str, until: str = "done", rails: tuple[str, ...] = ("rail-a",)) -> PodFacts:
        words = ["sh", "-c", SCRIPT, "sh", *script_words(rails, str(self.root), str(self.peers))]
        environment = {**self.environment, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "LIMIT": "30"}
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout
        if peers:
            self.peers.write_text("\n".join(peers) + "\n")
        told: list[str] = []
        limit = time.monotonic() + 20
        while f"rocelab {until}" not in "".join(told) and time.monotonic() < limit:
            told.append(process.stdout.readline())
        process.kill()
        process.wait()
        process.stdout.close()
        return parse_pod("".join(told))

    @property
    def pings(self) -> list[str]:
        return (self.root / "pings").read_text().splitlines()


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


def test_a_pod_with_its_vf_says_interface_mtu_slot_device_and_address(inside: Inside) -> None:
    inside.interface()
    inside.rdma("10.20.111.11")
    inside.file("dev/infiniband/rdma_cm")
    inside.file("proc/net/if_inet6", "fe80000000000000000000fffe000102 05 40 20 80     net1\n")
    inside.environment = {"PCIDEVICE_INTEL_COM_SRIOV_111_INFO": "{}", "PCIDEVICE_INTEL_COM_SRIOV_111": VF}
    facts = inside.run(until="reported")

    rail = facts.rails["rail-a"]
    assert (rail.interface, rail.mtu_bytes, rail.slot) == ("net1", 9000, VF)
    [device] = rail.devices
    assert (device.name, device.slot, device.usable) == ("mlx5_2", VF, True)
    assert [str(gid.ipv4_mapped) for gid in device.addresses] == ["10.20.111.11"], "the entry of version 1 is no path"
    assert str(rail.link_local) == "fe80::ff:fe00:102"
    assert facts.given == {"INTEL_COM_SRIOV_111": (VF,)}
    assert (facts.rdma_cm, facts.ping, facts.reported, facts.done) == (True, True, True, False)


def test_devices_of_other_pods_on_the_node_are_not_the_pod_s_own(inside: Inside) -> None:
    """With shared namespaces each pod sees all of them, and each has GIDs of interfaces elsewhere."""
    inside.interface()
    inside.rdma("10.20.111.11")
    inside.rdma("10.20.111.99", "mlx5_3", "0000:18:00.3", interface="eth9", number=1)

    assert [device.name for device in inside.run(until="reported").rails["rail-a"].devices] == ["mlx5_2"]


def test_a_device_without_its_file_is_seen_and_not_usable(inside: Inside) -> None:
    inside.interface()
    inside.rdma("10.20.111.11")
    (inside.root / "dev/infiniband/uverbs0").unlink()

    [device] = inside.run(until="reported").rails["rail-a"].devices
    assert not device.usable


def test_a_rail_without_interface_is_reported_and_the_others_are_still_checked(inside: Inside) -> None:
    inside.interface("net1")
    facts = inside.run(until="reported", rails=("rail-a", "rail-b"))

    assert (facts.rails["rail-a"].interface, facts.rails["rail-b"].interface) == ("net1", "")
    assert (facts.rdma_cm, facts.given) == (False, {})


@pytest.mark.parametrize(
    ("large", "small", "answer"),
    [("10.20.111.12", "none", "large"), ("none", "10.20.111.12", "small"), ("none", "none", "none")],
)
def test_a_peer_answers_full_frames_or_small_ones_or_none(inside: Inside, large: str, small: str, answer: str) -> None:
    inside.interface()
    inside.answering(large, small)
    facts = inside.run("reach rail-a net1 gpu02 - 10.20.111.12 8972 10.20.111.11")

    assert facts.reached == {("rail-a", "gpu02"): answer}
    assert "-M do -s 8972 -I 10.20.111.11 10.20.111.12" in inside.pings[0], "unbound it would leave by the pod network"
    assert facts.done


def test_an_interface_of_another_rail_is_asked_by_its_link_local_address(inside: Inside) -> None:
    inside.interface()
    inside.answering(large="%net1")
    facts = inside.run("apart rail-a net1 gpu02 rail-b fe80::1 0 -", "apart rail-a net1 gpu02 rail-a fe80::2 0 -")

    assert facts.touched == {("rail-a", "gpu02", "rail-b"): True, ("rail-a", "gpu02", "rail-a"): True}
    assert any(line.startswith("-6 ") and line.endswith(" fe80::1%net1") for line in inside.pings)


def test_a_pod_without_peers_is_done_at_once(inside: Inside) -> None:
    inside.interface()

    assert inside.run("none").done


def test_an_image_without_ping_says_so(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    (inside.root / "bin/ping").unlink()
    # all that the script uses, but for ping
    for name in ("sh", "cat", "readlink", "grep", "sed", "tr", "sleep"):
        found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True).stdout
        (inside.root / "bin" / name).symlink_to(found.strip())
    monkeypatch.setenv("PATH", f"{inside.root}/bin")
    inside.interface()

    assert not inside.run(until="reported").ping


def test_the_pod_ends_by_itself_and_holds_what_a_job_s_worker_would() -> None:
    rails = (rail("a", 111), rail("b", 112))
    plan = PodPlan(namespace="bench", image="registry:5000/nccl:1", own_vf=True, rails=rails)
    document = plan.document("gpu01", "lab", "r1")
    metadata, spec = document["metadata"], document["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    assert spec["activeDeadlineSeconds"] == LIMIT_S
    assert spec["restartPolicy"] == "Never"
    assert metadata["annotations"] == {"k8s.v1.cni.cncf.io/networks": "default/sriov111,default/sriov112"}
    [container] = spec["containers"]  # type: ignore[misc]  # JSON
    limits = container["resources"]["limits"]  # type: ignore[index,call-overload]  # JSON
    assert {name: count for name, count in limits.items() if "/" in name} == {
        "intel.com/sriov_111": "1",
        "intel.com/sriov_112": "1",
    }
    assert PEERS in str(spec["volumes"]), "else the pod would never learn whom to ping"
    assert "nodeName" not in spec, "the scheduler has to count the devices"
    assert "privileged" not in str(document)


def test_the_script_is_shell_of_any_image() -> None:
    assert subprocess.run(["sh", "-n", "-c", SCRIPT], check=False).returncode == 0
