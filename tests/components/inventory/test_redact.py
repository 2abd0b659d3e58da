"""Nothing of what identifies hosts and people survives, and what is left keeps its structure."""

import re
import time
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.inventory.redact import Redactor

KEY = b"a key of this test"
RECORDED = Path(__file__).parents[1] / "hosts" / "recorded"

octet = st.integers(0, 255)
ipv4 = st.builds(
    lambda first, rest: ".".join(map(str, (first, *rest))),
    st.sampled_from([10, 100, 172, 192, 198]),
    st.tuples(octet, octet, octet),
)
mac = st.builds(
    lambda octets: ":".join(f"{each:02x}" for each in (0x0C, 0x42, 0xA1, *octets)),
    st.tuples(octet, octet, st.integers(1, 255)),
)
ipv6 = st.builds(lambda low: str(IPv6Address(0x2A02_06B8 << 96 | low | 1 << 20)), st.integers(0, 2**96 - 1))
guid = st.builds(
    lambda number: ":".join(f"0c42a1{number:010x}"[i : i + 4] for i in range(0, 16, 4)), st.integers(1, 2**40 - 1)
)
uuid = st.uuids().map(str).filter(lambda text: text != "00000000-0000-0000-0000-000000000000")
word = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=8)
name = st.builds("{}-{}".format, word, word)
serial = st.integers(0, 10**9 - 1).map(lambda number: f"MT{number:09}"[:6] + f"X{number % 10**5:05}")
FORMS = {
    "ipv4": ["inet {}/24 brd", '"dst":"{}"', "({})", "peer={},x", "nfs:{}:/export", "{}\n"],
    "mac": ["link/ether {} brd", '"address":"{}"', "<{}>", "lladdr {}"],
    "ipv6": ["inet6 {}/64 scope", '"local":"{}"', "from {} to"],
    "guid": ["node_guid: {}", "sys_image_guid {}\n"],
    "uuid": ["root=UUID={} ro", '"uuid":"{}"'],
    "name": ["{} login:", "host {}.", "/var/log/{}/x", '"name":"{}"', "{}_eth0"],
    "serial": ["Serial Number: {}", "[SN] Serial number: {}", "ID_SERIAL_SHORT={}", '"serial": "{}"'],
}


@given(st.data())
def test_no_secret_survives_in_any_form(data: st.DataObject) -> None:
    secrets = {
        "ipv4": data.draw(st.lists(ipv4, max_size=4)),
        "mac": data.draw(st.lists(mac, max_size=4)),
        "ipv6": data.draw(st.lists(ipv6, max_size=3)),
        "guid": data.draw(st.lists(guid, max_size=3)),
        "uuid": data.draw(st.lists(uuid, max_size=2)),
        "name": data.draw(st.lists(name, max_size=3)),
        "serial": data.draw(st.lists(serial, max_size=2)),
    }
    parts = []
    for kind, values in secrets.items():
        parts += [data.draw(st.sampled_from(FORMS[kind])).format(value) for value in values]
    text = " ".join(data.draw(st.permutations(parts)))
    redactor = Redactor(KEY)
    redactor.learn_names("host", secrets["name"])
    redactor.learn([text])

    redacted = redactor.text(text)

    for values in secrets.values():
        for value in values:
            assert not re.search(rf"(?i)(?<![\w.]){re.escape(value)}(?![\w.])", redacted), value


@given(st.lists(ipv4, min_size=2, max_size=6))
def test_addresses_of_one_subnet_stay_in_one_subnet_with_their_last_octet(addresses: list[str]) -> None:
    text = "\n".join(f"{address}/24" for address in addresses)
    redactor = Redactor(KEY)
    redactor.learn([text])

    redacted = [IPv4Interface(line) for line in redactor.text(text).splitlines()]

    for address, other in zip(addresses, redacted, strict=True):
        assert str(other.ip).rpartition(".")[2] == address.rpartition(".")[2]
    original = [IPv4Interface(f"{address}/24").network for address in addresses]
    same = [left == right for left in original for right in original]
    assert same == [left.network == right.network for left in redacted for right in redacted]


@given(ipv4, st.integers(8, 30))
def test_a_network_contains_its_hosts_and_has_no_host_bits(address: str, length: int) -> None:
    network = IPv4Network(f"{address}/{length}", strict=False)
    redactor = Redactor(KEY)
    redactor.learn([address, str(network)])

    redacted = IPv4Network(redactor.text(str(network)))

    assert IPv4Address(redactor.text(address)) in redacted


def test_the_same_value_has_the_same_placeholder_in_every_text_and_form() -> None:
    redactor = Redactor(KEY)
    redactor.learn(["0c:42:a1:12:34:56 10.1.2.3"])

    mac = redactor.text("0c:42:a1:12:34:56")
    gid = redactor.text("fe80:0000:0000:0000:0e42:a1ff:fe12:3456")
    mapped = redactor.text("0000:0000:0000:0000:0000:ffff:0a01:0203")

    assert mac != "0c:42:a1:12:34:56"
    assert redactor.text("0C:42:A1:12:34:56") == mac
    assert gid.replace(":", "")[-6:] == mac.replace(":", "")[-6:]
    assert str(IPv6Address(mapped).ipv4_mapped) == redactor.text("10.1.2.3")
    assert redactor.text("ID_NET_NAME_MAC=enx0c42a1123456") == f"ID_NET_NAME_MAC=enx{mac.replace(':', '')}"


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1/8",
        "0.0.0.0",  # noqa: S104  # an address in an output, nothing is bound
        "255.255.255.0",
        "224.0.0.1",
        "::1",
        "ff02::1",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "0000:0000:0000:0000",
        "0000:19:00.0",
        "MLNX_OFED_LINUX-24.10-1.1.4.0:",
        "28.39.1002",
        "12:34:56",
        "6.8.0-60-generic",
        "localhost",
    ],
)
def test_what_identifies_nobody_stays(text: str) -> None:
    redactor = Redactor(KEY)
    redactor.learn_names("host", ["localhost"])
    redactor.learn([text])

    assert redactor.text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "psk=Hunter2000",
        'password: "Hunter2000"',
        "wep-key0=Hunter2000",
        "private-key=Hunter2000",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nHunter2000\n-----END OPENSSH PRIVATE KEY-----",
        "ssh-ed25519 AAAAC3NzaHunter2000 ops",
    ],
)
def test_keys_and_passwords_go(text: str) -> None:
    assert "Hunter2000" not in Redactor(KEY).text(text)


def test_a_long_binary_value_takes_no_time() -> None:
    """A configuration space is a text of 5,000 characters without a word boundary, and a server has dozens."""
    begin_s = time.monotonic()

    Redactor(KEY).text("A" * 200_000)

    assert time.monotonic() - begin_s < 5


def test_recorded_outputs_of_ip_lose_every_address_and_stay_readable() -> None:
    text = (RECORDED / "ip-addr.json").read_text()
    macs = set(re.findall(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", text)) - {"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"}
    addresses = {
        address for address in re.findall(r"\d+\.\d+\.\d+\.\d+", text) if not address.startswith(("127.", "255."))
    }
    redactor = Redactor(KEY)
    redactor.learn([text])

    redacted = redactor.text(text)

    assert macs
    assert addresses
    assert [secret for secret in macs | addresses if secret in redacted] == []
    assert len(redacted.split('"ifname"')) == len(text.split('"ifname"'))
