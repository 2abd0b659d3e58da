"""Keys that must answer: only pinned ed25519 keys, and every missing one is named."""

import base64
import hmac
import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from stacks.access import Access, read_host_keys, read_private_key
from stacks.base import LabError
from tests.labs import HOST_KEY
from tests.messages import states, stating

ACCESS = Access(user="nvidia", identity="file", key_file=Path("key"), known_hosts_file=Path("known_hosts"))
NODES = {"gpu01": (IPv4Address("127.0.12.1"), 2222), "gpu02": (IPv4Address("10.0.0.2"), 22)}


def test_keys_are_found_by_address_and_port(tmp_path: Path) -> None:
    lines = [
        f"[127.0.12.1]:2222 ssh-ed25519 {HOST_KEY}",
        "# 10.0.0.2 is next",
        f"gpu02,10.0.0.2 ssh-ed25519 {HOST_KEY} comment",
    ]
    (tmp_path / "known_hosts").write_text("\n".join(lines))

    assert read_host_keys(ACCESS, NODES, tmp_path) == dict.fromkeys(NODES, f"ssh-ed25519 {HOST_KEY}")


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
    with pytest.raises(LabError, check=stating("nodes.gpu03", "10.0.0.3")):
        read_host_keys(ACCESS, {"gpu03": (IPv4Address("10.0.0.3"), 22)}, tmp_path)


def test_clear_and_hashed_lines_of_a_host_count_in_the_order_of_the_file(tmp_path: Path) -> None:
    keys = [base64.b64encode(bytes([number]) * 33).decode() for number in range(3)]
    salt = b"salt"
    name = b"|".join(base64.b64encode(part) for part in (salt, hmac.digest(salt, b"10.0.0.2", "sha1"))).decode()
    hashed, clear = f"|1|{name} ssh-ed25519 {keys[0]}", f"gpu02,10.0.0.2,10.0.0.2 ssh-ed25519 {keys[1]}"
    other = {"gpu02": NODES["gpu02"]}

    (tmp_path / "known_hosts").write_text(f"10.0.0.2 ssh-rsa {keys[2]}\n{hashed}\n{clear}\n")
    assert read_host_keys(ACCESS, other, tmp_path) == {"gpu02": f"ssh-ed25519 {keys[0]}"}
    both = read_host_keys(ACCESS, other, tmp_path, kinds=("ssh-rsa", "ssh-ed25519"))
    assert both == {"gpu02": f"ssh-rsa {keys[2]}"}, "the best kind comes before the first line"

    (tmp_path / "known_hosts").write_text(f"{clear}\n{hashed}\n")
    assert read_host_keys(ACCESS, other, tmp_path) == {"gpu02": f"ssh-ed25519 {keys[1]}"}


def test_a_file_of_many_hashed_lines_is_taken_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"|1|c2FsdA==|AAAA ssh-ed25519 {HOST_KEY}"] * 40 + [
        f"10.0.1.{host} ssh-ed25519 {HOST_KEY}" for host in range(20)
    ]
    (tmp_path / "known_hosts").write_text("\n".join(lines))
    decoded: list[str] = []
    decode = base64.b64decode
    monkeypatch.setattr(base64, "b64decode", lambda word, **how: decoded.append(word) or decode(word, **how))
    hosts = {f"gpu{host:02}": (IPv4Address(f"10.0.1.{host}"), 22) for host in range(20)}

    assert len(read_host_keys(ACCESS, hosts, tmp_path)) == 20
    assert len(decoded) == 40 * 3 + 20


@pytest.mark.parametrize("key", ["AAAAC3!", "Schlüssel"])
def test_what_is_no_base64_is_no_key(tmp_path: Path, key: str) -> None:
    (tmp_path / "known_hosts").write_text(f"10.0.0.2 ssh-ed25519 {key}\n|1|ü|AAAA ssh-ed25519 {HOST_KEY}\n")

    with pytest.raises(LabError, check=stating("nodes.gpu02", "10.0.0.2")):
        read_host_keys(ACCESS, {"gpu02": NODES["gpu02"]}, tmp_path)


def test_every_node_without_a_key_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(f"10.0.0.2 ssh-rsa {HOST_KEY}\n")

    with pytest.raises(LabError) as refused:
        read_host_keys(ACCESS, NODES, tmp_path)

    first, second = str(refused.value).splitlines()
    assert first.startswith("nodes.gpu01: ")
    assert states(first, "known_hosts", "[127.0.12.1]:2222", "ssh-ed25519")
    assert second.startswith("nodes.gpu02: ")
    assert states(second, "known_hosts", "ssh-rsa", "10.0.0.2", "ssh-ed25519")


def test_a_line_that_is_cut_short_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("[127.0.12.1]:2222 ssh-ed25519 AAAAC3!\n10.0.0.2 ssh-ed25519\n")

    with pytest.raises(LabError, check=stating("nodes.gpu01", "[127.0.12.1]:2222", "nodes.gpu02", "10.0.0.2")):
        read_host_keys(ACCESS, NODES, tmp_path)


def test_a_missing_known_hosts_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(LabError, check=stating("access.known_hosts_file", "known_hosts", "make up")):
        read_host_keys(ACCESS, NODES, tmp_path)


def test_a_known_hosts_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_bytes("10.0.0.1 ssh-ed25519 AAAA".encode("utf-16"))

    with pytest.raises(LabError, check=stating("access.known_hosts_file", "known_hosts", "UTF-8", "byte 0")):
        read_host_keys(ACCESS, NODES, tmp_path)


def test_a_public_key_in_place_of_the_private_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"ssh-ed25519 {HOST_KEY}")

    with pytest.raises(LabError, check=stating("access.key_file", "private key")):
        read_private_key(ACCESS, tmp_path)


@pytest.mark.parametrize("form", [("ed25519",), ("ecdsa", "-m", "PEM"), ("ecdsa", "-m", "PKCS8")])
def test_a_private_key_with_a_passphrase_is_refused_with_the_remedy(tmp_path: Path, form: tuple[str, ...]) -> None:
    made = ["ssh-keygen", "-q", "-f", tmp_path / "key", "-t", *form]
    subprocess.run([*made, "-N", ""], check=True)
    assert "PRIVATE KEY-----" in read_private_key(ACCESS, tmp_path)

    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", "locked", *form[1:], "-f", tmp_path / "key"], check=True
    )

    with pytest.raises(LabError, check=stating("access.key_file", "passphrase", "ssh-add", "access.identity: agent")):
        read_private_key(ACCESS, tmp_path)
