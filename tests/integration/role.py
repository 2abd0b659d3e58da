"""The role of the vCenter user, as docs/vsphere.md lists it, and the calls that it does not cover."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.conftest import ROOT


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """One call and its privilege."""

    method: str
    """As the API names it."""
    privilege: str


def documented_role() -> tuple[Need, ...]:
    """The rows of the table of privileges."""
    text = (ROOT / "docs" / "vsphere.md").read_text()
    rows = re.findall(r"^\| ([A-Z]\w*\.[\w.]+) \|.*\| (`[^|]+`) \|$", text, re.MULTILINE)
    needs = []
    for privilege, calls in rows:
        needs += [Need(method=method, privilege=privilege) for method in re.findall(r"`(\w+)`", calls)]
    return tuple(needs)


NEEDS = documented_role()
UNVERIFIED = ("RetrieveManagedMethodExecuter", "ExecuteSoap")
"""esxcli: no documentation names the privilege of these calls, which change nothing here."""

READS = frozenset(
    [
        "CancelWaitForUpdates",
        "CreateCollectorForEvents",  # the provider waits for the event that a guest is customised
        "CreateContainerView",
        "CreateFilter",
        "CreateImportSpec",  # makes a specification out of an OVF, and nothing in the inventory
        "CreatePropertyCollector",
        "CurrentTime",
        "DVSManagerLookupDvPortGroup",
        "DestroyPropertyCollector",
        "DestroyView",
        "FetchDVPorts",
        "FindByInventoryPath",
        "FindByUuid",
        "Login",
        "Logout",
        "QueryConfigOption",
        "QueryConfigOptionEx",
        "QueryDvsByUuid",
        "QueryEvents",
        "QueryNetworkHint",
        "QueryOptions",
        "RetrieveProperties",
        "RetrievePropertiesEx",
        "RetrieveServiceContent",
        "WaitForUpdatesEx",
    ]
)
"""Calls whose privilege, as the API's owner names it, every role has: System.Anonymous, System.View or System.Read."""

OWN = frozenset(
    [
        "DestroyCollector",
        "DestroyPropertyFilter",
        "HttpNfcLeaseComplete",
        "HttpNfcLeaseProgress",
        "SetCollectorPageSize",
    ]
)
"""Calls on what a session has made for itself, such as the lease that ImportVApp gave it: they name no privilege."""

PLAIN = frozenset(["Fetch"])
"""How pyVmomi reads a single property: no documented method, a property needs what it needs by RetrieveProperties."""


CALLED = {
    "test_machines": frozenset(
        [
            "AddVirtualNic",
            "CloneVM_Task",
            "CreateDVPortgroup_Task",
            "CreateDVS_Task",
            "CustomizeVM_Task",
            "Destroy_Task",
            "DisableRuleset",
            "EnableNetworkResourceManagement",
            "EnableRuleset",
            "ImportVApp",
            "PowerOnVM_Task",
            "ReconfigVM_Task",
            "ReconfigureComputeResource_Task",
            "RemoveVirtualNic",
            "UpdateOptions",
        ]
    ),
    "test_fabric_adoption": frozenset(
        [
            "PerformDvsProductSpecOperation_Task",
            "ReconfigureDVPortgroup_Task",
            "ReconfigureDvs_Task",
            "UpdateVirtualNic",
        ]
    ),
}
"""Calls of the role that the runs of a module make, which its last test holds against what the vCenter has counted."""

UNCALLED = {
    "PowerOffVM_Task": "the provider's, for a machine that runs when it is deleted: its guest is shut down first",
    "PbmQueryAssociatedProfile": "the provider's, where a vCenter has storage policies: the simulated one has none",
    "Rename_Task": "the provider's, for the machine of a node that is renamed",
    "ShutdownGuest": "asked of guests whose tools run: machines of these runs have no guest",
    "UpgradeVM_Task": "the provider's, where a lab raises the hardware version of a machine that it has",
}
"""Calls of the role that no run of a module above makes, with what would make them."""


def beyond_the_role(called: Iterable[str], by_hand: Iterable[str] = ()) -> list[str]:
    """The calls that neither the role nor a test itself (`by_hand`) accounts for."""
    accounted = READS | OWN | PLAIN | set(by_hand) | set(UNVERIFIED)
    return sorted(set(called) - accounted - {need.method for need in NEEDS})
