"""Which calls a vCenter got that the role of our user does not cover."""

from collections.abc import Iterable

from components.fabric.privileges import NEEDS

READS = frozenset(
    [
        "CancelWaitForUpdates",
        "CreateContainerView",
        "CreateFilter",
        "CreatePropertyCollector",
        "CurrentTime",
        "DestroyPropertyCollector",
        "DestroyPropertyFilter",
        "DestroyView",
        "Fetch",
        "FetchDVPorts",
        "FindByInventoryPath",
        "FindByUuid",
        "HasPrivilegeOnEntities",
        "Login",
        "Logout",
        "QueryDvsByUuid",
        "QueryNetworkHint",
        "QueryOptions",
        "RetrieveProperties",
        "RetrievePropertiesEx",
        "RetrieveServiceContent",
        "SessionIsActive",
        "WaitForUpdatesEx",
    ]
)
"""Calls that change nothing: every role may make them."""


def beyond_the_role(called: Iterable[str], by_hand: Iterable[str] = ()) -> list[str]:
    """The calls that neither the role nor a test itself (`by_hand`) accounts for."""
    return sorted(set(called) - READS - set(by_hand) - {need.method for need in NEEDS})
