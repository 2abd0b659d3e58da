"""Keys that must answer: only pinned ed25519 keys, and every missing one is named."""

import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from stacks.access import Access, read_host_keys, read_private_key
from stacks.base import LabError

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIHVyZmwO8Yp0nq2Xk0bPtn1Qv7JpYzvH3FQ8nCt0M1qL"
ACCESS = Access(user="nvidia", identity="file", key_file=Path("key"), known_hosts_file=Path("known_hosts"))
NODES = {"gpu01": (IPv4Address("127.0.12.1"), 2222), "gpu02": (IPv4Address("10.0.0.2"), 22)}


def test_keys_are_found_by_address_and_port(tmp_path: Path) -> None:
    lines = [f"[127.0.12.1]:2222 ssh-ed25519 {KEY}", "# 10.0.0.2 is next", f"gpu02,10.0.0.2 ssh-ed25519 {KEY} comment"]
    (tmp_path / "known_hosts").write_text("\n".join(lines))

    assert read_host_keys(ACCESS, NODES, tmp_path) == dict.fromkeys(NODES, f"ssh-ed25519 {KEY}")


def test_hashed_lines_of_openssh_are_read_too(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    key = " ".join((tmp_path / "key.pub").read_text().split()[:2])
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.12.1]:2222 {key}\n10.0.0.2 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    hashed = f"|1|cut {key}\n|1|c2FsdA==|!!! {key}\n{known.read_text()}"
    known.write_text(hashed)

    assert "127.0.12.1" not in hashed
    assert read_host_keys(ACCESS, NODES, tmp_path) == dict.fromkeys(NODES, key)
    with pytest.raises(LabError, match=r"no line for 10\.0\.0\.3"):
        read_host_keys(ACCESS, {"gpu03": (IPv4Address("10.0.0.3"), 22)}, tmp_path)


def test_every_node_without_a_key_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(f"10.0.0.2 ssh-rsa {KEY}\n")

    with pytest.raises(LabError) as refused:
        read_host_keys(ACCESS, NODES, tmp_path)

    assert str(refused.value).splitlines() == [
        "nodes.gpu01: known_hosts has no line for [127.0.12.1]:2222; add its ssh-ed25519 key",
        "nodes.gpu02: known_hosts has only ssh-rsa for 10.0.0.2; add its ssh-ed25519 key",
    ]


def test_a_line_that_is_cut_short_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("[127.0.12.1]:2222 ssh-ed25519 AAAAC3!\n10.0.0.2 ssh-ed25519\n")

    with pytest.raises(LabError, match="no line for"):
        read_host_keys(ACCESS, NODES, tmp_path)


def test_a_missing_known_hosts_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"access.known_hosts_file: known_hosts cannot be read .*make up"):
        read_host_keys(ACCESS, NODES, tmp_path)


def test_a_public_key_in_place_of_the_private_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"ssh-ed25519 {KEY}")

    with pytest.raises(LabError, match="holds no private key"):
        read_private_key(ACCESS, tmp_path)
