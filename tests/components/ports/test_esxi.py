"""What is asked of ESXi hosts, and what their answers mean; the asking itself is tested on a simulated vCenter."""

from typing import Any

import pytest

from components.ports import connect, esxi
from components.ports.check import UNASKED
from components.ports.esxi import EsxiEnd, pinged, shut
from stacks.base import LabError
from tests.messages import states

ONE = EsxiEnd(name="esx1", host=object(), device="vmk3", address="192.168.0.1", mtu_bytes=9000)
OTHER = EsxiEnd(name="esx2", host=object(), device="vmk2", address="192.168.0.2", mtu_bytes=9000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a host is asked; its answer is the first item, put there by the test."""
    said: list[Any] = []

    def answer(_host: object, place: str, command: str, /, **options: str) -> list[dict[str, str]]:
        said.append((place, command, list(options.items())))
        if isinstance(said[0], LabError):
            raise said[0]
        return [said[0]]

    monkeypatch.setattr(esxi, "esxcli", answer)
    return said


def test_a_host_is_asked_with_its_options_in_the_order_of_their_names(asked):
    """An ESXi host refuses them in another order: `A specified parameter was not correct: argument[1]`."""
    asked.append({"Summary.PacketLost": "0", "Summary.Recieved": "2", "Summary.Transmitted": "2"})

    assert pinged(ONE, OTHER, 8972) == connect.OPEN

    (place, command, options) = asked[1]
    assert (place, command) == ("esx1", "network diag ping")
    assert options == sorted(options)
    assert {("df", "true"), ("host", "192.168.0.2"), ("interface", "vmk3"), ("size", "8972")} <= set(options)


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ({"Summary.Recieved": "0", "Summary.PacketLost": "100"}, ["vmk3", "192.168.0.2", 8972, "VLAN", "MTU"]),
        ({"Summary.Received": "1"}, [connect.OPEN]),
        ({"Summary.PacketLost": "0"}, [UNASKED, "esx1", "ping"]),
        (LabError("esx1: cannot ping: sendto() failed (Message too long)"), ["MTU", "vmk3", 9000]),
        (LabError("esx1: lacks the privilege X"), [UNASKED, "esx1", "privilege X"]),
    ],
)
def test_what_a_ping_s_end_means(asked, answer, meaning):
    asked.append(answer)

    assert states(pinged(ONE, OTHER, 8972), *meaning)


def end(**fields: Any) -> EsxiEnd:
    return EsxiEnd(name="esx2", address="192.168.0.2", **fields)


def test_a_list_of_allowed_addresses_that_leaves_a_peer_out_is_named():
    assert shut(ONE, end(allows=None)) == ""
    assert shut(ONE, end(allows=("192.168.0.1",))) == ""
    assert shut(ONE, end(allows=("10.0.0.0/8", "192.168.0.0/24"))) == ""
    for allows in (("192.168.0.3",), ()):
        said = shut(ONE, end(allows=allows))
        assert states(said, "esx2", "pvrdma", "192.168.0.1", *allows)
        assert "esxcli network firewall ruleset allowedip add" in said
    assert shut(ONE, end(closed="esx2 is closed")) == "esx2 is closed"
