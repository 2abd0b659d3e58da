"""What a step is: one aspect of a host that is checked, applied, verified, and put back."""

from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union

from .host import Document, Host
from .machine import StepError

Value = Union[str, int, List[str]]
Fields = Dict[str, Value]
Before = Dict[str, Any]
"""What was there before us, as JSON."""


class Step:
    """One aspect of a host. `wanted` and `observed` have the same fields, so that equal means conforming.

    A field is `name` or `interface.name`. A step whose section the document does not have wants nothing.
    """

    name = ""
    """Also that of its section in the document."""
    order = 0
    """When its turn comes. 100: looks, 200: operating system, 300: drivers, GPUs and runtime, 400: kernel, 500: network
    and devices, 600: licenses, 700: Kubernetes, 800: what must see all of that. What takes minutes comes before the
    network, whose changes wait for a new connection to confirm them."""
    setting = ""
    """The field of the lab file that its section repeats, such as `system.clock`; there is no section where the field
    has its default. Empty: `hosts/sections/` writes the section."""
    keeps: Tuple[str, ...] = ()
    """Which of its facts later runs need, so that they stay in the state."""
    at_boot = True
    """Whether the unit does it at each boot. What survives a reboot by itself is not done again."""
    waits_for: Tuple[str, ...] = ()
    """Steps whose pending reboot makes this one pointless before it."""
    effects: Dict[str, str] = {}
    """Per last part of a field's name: what a change of it does (none, link, pods, reboot, replace)."""
    repairs: Dict[str, str] = {}
    """The same fields: how much putting one back disturbs (none, link, service, reboot)."""

    def wanted(self, document: Document) -> Fields:
        """What the document asks for."""
        raise NotImplementedError

    def concerns(self, document: Document) -> bool:
        """Whether the document asks for anything of it. Steps without fields, which only look, say so themselves."""
        return bool(self.wanted(document))

    def observed(self, host: Host) -> Fields:
        """What is."""
        raise NotImplementedError

    def refuse(self, host: Host) -> None:
        """Asked before anything changes: may this be done here at all?

        Raises:
            StepError: when not.
        """

    def installs(self, document: Document) -> Optional[str]:
        """The version that this step installs once and never raises; its field is called like the step."""
        return None

    def apply(self, host: Host, wrong: Set[str]) -> None:
        """Makes the fields that are wrong right."""
        raise NotImplementedError

    def facts(self, host: Host) -> Dict[str, Any]:
        """What only the host knows, and nobody has to ask for."""
        return {}

    def before(self, host: Host) -> Before:
        """What an undo of the whole host needs; recorded once, before anything changes."""
        return {}

    def before_pf(self, host: Host, pf: str) -> Before:
        """What an undo of a PF needs; recorded once, under keys that no other step uses."""
        return {}

    def undo_pfs(self, host: Host, pfs: Dict[str, Before]) -> None:
        """Puts PFs back to what was recorded of them."""

    def undo(self, host: Host, before: Before) -> None:
        """Puts the rest of the host back."""


def told(look: Callable[[], Value]) -> Value:
    """What a look finds; why it cannot be told is a finding too, and no reason to know nothing of the host."""
    try:
        return look()
    except StepError as error:
        return error.reason


def interface_of(field: str) -> str:
    """The interface in a field's name; empty when the field is the host's."""
    return field.rpartition(".")[0]
