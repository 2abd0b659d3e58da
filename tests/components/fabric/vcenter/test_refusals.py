"""A vCenter's refusals as sentences: what it names is told, and what it leaves out is no dump of empty fields."""

import pytest
from pyVmomi import vim, vmodl

from components.fabric.vcenter.refusals import doing, explained, message
from stacks.base import LabError
from tests.messages import states


def test_a_refused_argument_is_named() -> None:
    fault = vmodl.fault.InvalidArgument(invalidProperty="spec.maxMtu", msg="A specified parameter was not correct.")

    with pytest.raises(LabError) as said, doing("switch roce", "set mtu_bytes to 12000"):
        raise fault

    assert states(str(said.value), "switch roce", "mtu_bytes", 12000, fault.msg, "spec.maxMtu")


def test_a_refused_property_of_a_machine_is_named() -> None:
    fault = vim.fault.InvalidDeviceSpec(property="virtualDeviceSpec.device.backing", deviceIndex=0, msg="Invalid.")

    assert states(explained(fault), "Invalid.", "virtualDeviceSpec.device.backing")


def test_the_reason_behind_a_general_summary_appears_once() -> None:
    reasons = [
        vmodl.LocalizableMessage(key=key, message=text) for key, text in (("a", "no vmnic4"), ("b", "no vmnic4"))
    ]
    fault = vim.fault.DvsFault(msg="The operation failed", faultMessage=reasons)

    assert states(explained(fault), "The operation failed", "no vmnic4")
    assert explained(fault).count("no vmnic4") == 1


@pytest.mark.parametrize("fault", [vmodl.fault.InvalidArgument(), vim.fault.DvsFault()])
def test_a_fault_without_words_gives_its_name_and_no_dump(fault: vmodl.MethodFault) -> None:
    assert explained(fault) == type(fault).__name__
    assert "\n" not in message(fault)


def test_a_missing_privilege_comes_with_the_command_that_lists_them() -> None:
    said = explained(vim.fault.NoPermission(privilegeId="Host.Config.NetService", msg="Permission denied"))

    assert states(said, "fabric.user", "Host.Config.NetService", "docs/vsphere.md")
