"""The list of addresses that a host's ruleset pvrdma lets in: one that leaves others out is told, and never changed."""

import pytest
from pyVmomi import vim

from components.fabric.preflight.facts import FabricFacts, HostFacts, VmkernelFacts
from components.fabric.preflight.judge import judge
from components.fabric.preflight.survey import allowed
from stacks.fabric import DistributedSwitch
from tests.messages import states

LISTED = vim.host.Ruleset.IpList(
    allIp=False,
    ipAddress=["10.0.0.7"],
    ipNetwork=[vim.host.Ruleset.IpNetwork(network="192.168.0.0", prefixLength=24)],
)
OPEN = vim.host.Ruleset.IpList(allIp=True)


@pytest.mark.parametrize(
    ("rulesets", "found"),
    [
        ([("pvrdma", LISTED)], ("10.0.0.7", "192.168.0.0/24")),
        ([("pvrdma", vim.host.Ruleset.IpList(allIp=False))], ()),
        ([("pvrdma", OPEN)], None),
        ([("pvrdma", None)], None),
        ([("sshServer", LISTED), ("pvrdma", OPEN)], None),
        ([], None),
    ],
)
def test_the_list_of_that_ruleset_alone_counts(rulesets, found):
    assert allowed([vim.host.Ruleset(key=key, allowedHosts=listed) for key, listed in rulesets]) == found


def a_switch(*vmkernels):
    hosts = [{"name": f"esx{number}", "vmkernel": one} for number, one in enumerate(vmkernels, 1)]
    given = {"name": "roce", "rail": "pvrdma", "uplink": {"name": "vmnic4"}, "port_group": "pvrdma", "hosts": hosts}
    return DistributedSwitch.model_validate(given)


def warnings(switch, **allows):
    """What is told of PVRDMA's ruleset, where vmk0 of esxN is 10.0.0.N."""
    hosts = {
        one.name: HostFacts(
            name=one.name,
            vmkernels={"vmk0": VmkernelFacts(address=f"10.0.0.{number}", mtu_bytes=1500)},
            pvrdma_allows=allows.get(one.name),
        )
        for number, one in enumerate(switch.hosts, 1)
    }
    said = judge([switch], FabricFacts(hosts=hosts, switches={}), {"pvrdma": 1500}, frozenset()).warnings
    return [one for one in said if "ruleset pvrdma" in one]


MADE = ({"address": "192.168.0.24/24"}, {"address": "192.168.0.25/24"}, {"address": "192.168.0.26/24"})
TAKEN = ({"existing": "vmk0"}, {"existing": "vmk0"}, {"existing": "vmk0"})


@pytest.mark.parametrize(
    ("vmkernels", "allows"),
    [
        (MADE, None),
        (MADE, ("192.168.0.0/24",)),
        (MADE, ("192.168.0.25", "192.168.0.26")),
        (TAKEN, ("10.0.0.0/8", "fe80::/10")),
        ((*MADE[:1], None), ()),
        ((*MADE[:1], {"existing": "vmk9"}), ()),
    ],
)
def test_a_list_that_has_all_others_or_none_that_is_known_is_passed_without_a_word(vmkernels, allows):
    assert warnings(a_switch(*vmkernels), esx1=allows) == []


@pytest.mark.row("B 152-160")
@pytest.mark.parametrize(
    ("vmkernels", "allows", "said"),
    [
        (MADE, ("192.168.0.25",), ["esx1", "192.168.0.25", "esx3 (192.168.0.26)"]),
        (TAKEN, ("192.168.0.0/24",), ["192.168.0.0/24", "esx2 (10.0.0.2), esx3 (10.0.0.3)"]),
        (MADE, (), ["nothing", "esx2 (192.168.0.25), esx3 (192.168.0.26)"]),
        ((*MADE, *TAKEN), (), ["esx4 (10.0.0.4) and 2 more"]),
    ],
)
def test_a_list_that_leaves_another_host_out_is_a_warning_with_the_remedy(vmkernels, allows, said):
    (told,) = warnings(a_switch(*vmkernels), esx1=allows)

    assert states(told, "pvrdma", *said)
    assert "esxcli network firewall ruleset allowedip add -r pvrdma " in told
