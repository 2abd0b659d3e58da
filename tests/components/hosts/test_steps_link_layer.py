"""InfiniBand ports are refused as rails, and switched to Ethernet only where the lab asks for it by PF.

What sysfs says of such a port is the kernel's text (drivers/infiniband/core/sysfs.c: `InfiniBand`), what mstconfig says
is the form of `written/vendor/mstconfig-vpi.txt`. No such card was seen.
"""

import pytest
from pydantic import ValidationError

from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_lab import applied, asks, commands_with
from tests.messages import states


@pytest.mark.parametrize("sections", [{}, {"firmware": {"manage": True}}], ids=["kept", "managed"])
def test_an_infiniband_port_is_refused_by_name_and_nothing_is_touched(host, lab, sections):
    host.infiniband("enp132s0")

    result = run("apply", host, asks(lab, **sections))

    assert result["failed"]["step"] == "link_layer"
    assert states(result["failed"]["reason"], "enp132s0", "InfiniBand", "Ethernet")
    assert "convert_infiniband: true" in result["failed"]["hint"]
    assert (result["changed"], host.written, commands_with(host, " -y set ", "link set")) == ([], [], [])


def test_an_ipoib_netdev_is_known_without_an_rdma_driver(host, lab):
    host.file("/sys/class/net/enp5s0/type", "32\n")

    assert run("apply", host, asks(lab))["failed"]["step"] == "link_layer"


@pytest.mark.row("A 10b")
def test_a_port_that_the_lab_names_is_converted_and_its_link_waits_for_the_reboot(host, lab):
    host.infiniband("enp5s0")
    document = asks(lab, convert=["enp5s0"], firmware={"manage": True})

    result = applied(host, document)

    assert result["failed"] is None
    assert any(states(line, "enp5s0.link_layer", "InfiniBand => Ethernet", "boot") for line in result["needs_reboot"])
    sets = [line.split(" -y set ")[1] for line in commands_with(host, " -y set ")]
    assert [line for line in sets if "LINK_TYPE" in line] == ["LINK_TYPE_P1=2"]
    assert commands_with(host, "link set dev enp5s0") == [], "an IPoIB netdev takes neither MTU nor VFs"
    host.reboot()
    applied(host, document)
    assert differing(host, document) == {}


def test_without_leave_to_reboot_no_port_is_converted(host, lab):
    host.infiniband("enp5s0")

    result = run("apply", host, asks(lab, reboot="never", convert=["enp5s0"], firmware={"manage": True}))

    assert result["failed"] is None
    assert [reason for reason in result["needs_reboot"] if "InfiniBand => Ethernet" in reason]
    assert commands_with(host, " -y set ") == []


def test_a_card_without_the_parameter_is_infiniband_for_good(host, lab):
    host.infiniband("enp5s0")
    del host.firmware["0000:05:00.0"]["LINK_TYPE_P1"]

    failed = run("apply", host, asks(lab, convert=["enp5s0"], firmware={"manage": True}))["failed"]

    assert (failed["step"], "has no LINK_TYPE_P1" in failed["reason"]) == ("link_layer", True)


def test_a_conversion_without_managed_firmware_is_a_fault_of_the_file(lab):
    given = lab.model_dump(mode="json")
    given["nodes"][0]["pfs"][0]["convert_infiniband"] = True

    with pytest.raises(ValidationError, match=r"firmware\.manage is false"):
        Lab.model_validate(given)
