"""Storage and foreign connections on a NIC are found, whatever the storage is, and the NIC is refused as a rail.

The texts are those of public sources, which stand at each; addresses are the lab's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.hosts.program.machine import Done
from components.hosts.program.places import BASELINE_FILE
from tests.components.hosts.host_runs import made, run
from tests.components.hosts.kernel import FakeHost, link
from tests.components.hosts.nics import NicHost, hardware
from tests.messages import states

SERVER = "10.9.9.2"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = FakeHost(tmp_path)
    answer = machine.run

    def routed(*words: str, **options: Any) -> Done:
        if words[:3] == ("ip", "route", "get"):
            device = "enp5s0" if words[3] in (SERVER, "2001:db8::5") else "enp0s3"
            return Done(0, f"{words[3]} dev {device} src 10.9.9.9 uid 0\n", "")
        return answer(*words, **options)

    machine.run = routed  # type: ignore[method-assign]  # one more answer of the same program
    return machine


def nvme_over_rdma(machine: FakeHost) -> None:
    """sysfs as `nvme list-subsys` reads it: nvme-cli, Documentation/nvme-list-subsys.txt (traddr=...,trsvcid=...)."""
    machine.file("/sys/class/nvme/nvme0/transport", "pcie\n")
    machine.file("/sys/class/nvme/nvme0/address", "0000:c1:00.0\n")
    machine.file("/sys/class/nvme/nvme1/transport", "rdma\n")
    machine.file("/sys/class/nvme/nvme1/address", f"traddr={SERVER},trsvcid=4420,host_traddr=10.9.9.9\n")


def iser(machine: FakeHost) -> None:
    """open-iscsi, usr/sysfs.c and usr/iscsi_sysfs.c: the address of connectionSESSION:0 is the portal's."""
    machine.file("/sys/class/iscsi_connection/connection1:0/address", f"{SERVER}\n")
    machine.file("/sys/class/iscsi_connection/connection1:0/port", "3260\n")


def weka(machine: FakeHost) -> None:
    """A node's /proc/mounts in a public repository: `10.108.97.126/default /mnt/weka wekafs rw,relatime,…`."""
    options = "rw,relatime,writecache,inode_bits=auto,readahead_kb=32768,container_name=client"
    machine.file("/proc/mounts", f"{SERVER}/default /mnt/weka wekafs {options} 0 0\n")


def nfs_over_ipv6(machine: FakeHost) -> None:
    """nfs(5): an IPv6 address stands in brackets in the device, and bare in addr=."""
    options = "rw,vers=4.2,proto=tcp6,clientaddr=2001:db8::9,addr=2001:db8::5"
    machine.file("/proc/mounts", f"[2001:db8::5]:/data /data nfs4 {options} 0 0\n")


def nfs_by_link_local_address(machine: FakeHost) -> None:
    machine.file("/proc/mounts", "[fe80::1%enp5s0]:/data /data nfs4 rw,proto=tcp6,addr=fe80::1%enp5s0 0 0\n")


def lustre(machine: FakeHost) -> None:
    """mount.lustre(8): servers by NID, several with colons between them."""
    machine.file("/proc/mounts", f"{SERVER}@o2ib:10.9.9.3@o2ib:/scratch /scratch lustre rw,flock,lazystatfs 0 0\n")


def cephfs(machine: FakeHost) -> None:
    """The device names no server: fs/ceph/super.c of the kernel prints the monitors as `mon_addr=`."""
    options = f"rw,noatime,name=services,secret=<hidden>,ms_mode=prefer-crc,mon_addr={SERVER}:3300/10.9.9.3:3300"
    machine.file("/proc/mounts", f"services@61cca62e.cephfs=/volumes /ceph ceph {options},recover_session=clean 0 0\n")


@pytest.mark.parametrize(
    ("carry", "said"),
    [
        (cephfs, ["/ceph", "mounted"]),
        (nvme_over_rdma, ["nvme1", "NVMe", "rdma"]),
        (iser, ["iSER", "connection1:0"]),
        (weka, ["/mnt/weka", "mounted"]),
        (nfs_over_ipv6, ["/data", "mounted"]),
        (nfs_by_link_local_address, ["/data", "mounted"]),
        (lustre, ["/scratch", "mounted"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_pf_that_carries_storage_is_refused_untouched(
    machine: FakeHost, document: dict[str, Any], carry: Callable[[FakeHost], None], said: list[str]
) -> None:
    carry(machine)

    result = run("apply", machine, document)

    assert result["failed"]["step"] == "link"
    assert states(result["failed"]["reason"], "enp5s0", "refused", *said)
    assert (result["changed"], machine.written, machine.exists(BASELINE_FILE)) == ([], [], False)


def test_local_disks_and_storage_of_another_nic_are_no_reason(machine, document):
    machine.file("/sys/class/nvme/nvme0/address", "0000:c1:00.0\n")
    machine.file("/sys/class/nvme/nvme1/address", "traddr=192.168.1.2,trsvcid=4420\n")

    made(machine, document)


QUEUE_PAIRS = """\
link mlx5_0/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core]
link mlx5_1/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core]
link mlx5_1/1 lqpn 30278 rqpn 39296 type RC state RTS rq-psn 164604 sq-psn 658420 comm {}
"""
"""The form of iproute2's rdma/res-qp.c; the last line is a host's, from a public note, shortened."""


@pytest.mark.parametrize("user", ["[rdma_cm]", "wekanode", "kucl-poll-event"])
def test_a_pf_with_foreign_queue_pairs_is_refused_by_the_name_of_their_owner(tmp_path, lab, user):
    nic = NicHost(tmp_path, "dcb")
    show_queue_pairs(nic, user)

    result = run("apply", nic, hardware(lab))

    reason = f"enp132s0 is refused as a rail: it is in use by queue pairs of {user}"
    assert (result["failed"]["step"], result["failed"]["reason"]) == ("link", reason)
    assert (result["changed"], nic.written) == ([], [])


def test_queue_pairs_of_jobs_are_no_reason_once_the_pf_is_ours(tmp_path, lab):
    nic, document = NicHost(tmp_path, "dcb"), hardware(lab)
    made(nic, document)
    show_queue_pairs(nic, "ib_write_bw")
    nic.links["enp132s0"]["mtu"] = 1500

    made(nic, document)


def show_queue_pairs(nic: NicHost, user: str) -> None:
    """`rdma resource show qp` shows a connection of a user on mlx5_1."""
    answer = nic.run
    nic.run = lambda *words, **options: (  # type: ignore[method-assign]
        Done(0, QUEUE_PAIRS.format(user), "")
        if words == ("rdma", "resource", "show", "qp")
        else answer(*words, **options)
    )


def test_a_connection_that_names_no_server_elsewhere_shows_in_the_kernels_table(machine, document):
    """GPFS: no server in /proc/mounts, and its daemons speak on port 1191. The form is that of proc_net_tcp.rst."""
    machine.links["enp5s0"] = link(["10.9.9.9/24"])
    machine.file("/proc/mounts", "gpfs0 /gpfs gpfs rw,relatime 0 0\n")
    rows = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 00000000:04A7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0",
        "   1: 0909090A:04A7 0209090A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0",
    ]
    machine.file("/proc/net/tcp", "\n".join(rows) + "\n")

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp5s0", "refused", "TCP", "10.9.9.2 port 54000")


TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue
   2: 00000000000000000000000001000000:04A7 00000000000000000000000000000000:0000 0A 00000000:00000000
   4: 0000000000000000FFFF00000B01A8C0:04A8 0000000000000000FFFF00000B01A8C0:C08C 01 00000000:00000000
   5: 00000000000000000000000001000000:04A7 00000000000000000000000001000000:9C0A 01 00000000:00000000
"""
"""/proc/net/tcp6 of a node of the simulator (Debian 12, Linux 6.1), columns cut: a listener on ::1, a connection of an
IPv6 socket with the IPv4 address 192.168.1.11, and one with ::1."""


@pytest.mark.parametrize(
    ("own", "peer"), [("::1", "::1 port 39946"), ("192.168.1.11", "192.168.1.11 port 49292")], ids=["ipv6", "mapped"]
)
def test_a_connection_of_an_ipv6_socket_shows_too(machine, document, own, peer):
    machine.links["enp0s3"] = link(["192.168.1.99/24"])
    machine.links["enp5s0"] = link([])
    machine.links["enp5s0"]["addr_info"] = [{"family": "inet6", "local": own, "prefixlen": 64, "scope": "global"}]
    machine.file("/proc/net/tcp6", TCP6)

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp5s0", "refused", f"a TCP connection to {peer}")


def test_a_connection_of_another_nics_ipv6_address_is_none_of_the_rails(machine, document):
    machine.links["enp5s0"]["addr_info"] = [{"family": "inet6", "local": "fd00::1", "prefixlen": 64, "scope": "global"}]
    machine.file("/proc/net/tcp6", TCP6)

    assert run("apply", machine, document)["failed"] is None
