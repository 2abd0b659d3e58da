"""The base class of steps: one aspect of a host that is checked, applied, verified, and undone."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, Union

from .host import Document, Host
from .machine import StepError

Value = Union[str, int, List[str]]
Fields = Dict[str, Value]
Pf = Dict[str, Any]
Before = Dict[str, Any]
"""The state before rocelab changed anything, as JSON."""


class Step:
    """One aspect of a host. `target` and `observed` return the same fields; equal values mean that
    the host conforms.

    A field is `name` or `interface.name`. A step without a section in the document has none.

    >>> class Turbo(Step):
    ...     name = "turbo"
    ...     setting = "system.turbo"
    ...     effects = {"turbo": "none"}
    ...     boost = "/sys/devices/system/cpu/cpufreq/boost"
    ...
    ...     def target(self, document):
    ...         return {"turbo": document["turbo"]} if "turbo" in document else {}
    ...
    ...     def observed(self, host):
    ...         return {"turbo": host.machine.read(self.boost)}
    ...
    ...     def apply(self, host, wrong):
    ...         host.machine.write(self.boost, host.document["turbo"])
    >>> Turbo().target({"turbo": "1"})
    {'turbo': '1'}
    >>> Turbo().concerns({})
    False
    """

    name = ""
    """Also that of its section in the document."""
    order = 0
    """Its turn. 100: steps that only look, 200: operating system, 300: drivers, GPUs and runtime,
    400: kernel, 500: network and devices, 600: licenses, 700: Kubernetes, 800: what needs all of
    that. Steps that take minutes come before the network, whose changes wait for confirmation over
    a new connection."""
    setting = ""
    """The field of the lab file that its section repeats, such as `system.clock`; there is no
    section where the field has its default. Empty: `hosts/sections/` writes the section."""
    keeps: Tuple[str, ...] = ()
    """Facts that later runs need; they stay in the state."""
    at_boot = False
    """Whether the boot unit applies it at each boot, as for what a reboot loses."""
    waits_for: Tuple[str, ...] = ()
    """Steps whose pending reboot must happen before this one makes sense."""
    effects: Dict[str, str] = {}
    """By the last part of a field's name: the effect of a change (none, link, pods, reboot,
    replace)."""
    repairs: Dict[str, str] = {}
    """How disruptive a repair is (none, link, service, reboot), for the fields where a change has
    another effect."""
    files: Tuple[str, ...] = ()
    """Patterns of the files that it may write outside of rocelab's own folders."""
    longest_s = 0
    """How much longer than usual a run may take with it."""
    services: Tuple[str, ...] = ()
    """Units that it may start or restart."""
    version_setting = ""
    """The field of the lab file with the version in `versions`."""
    upgrade = ""
    """How you upgrade it, on each host in turn."""

    def target(self, document: Document) -> Fields:
        """The target values in the document; steps that only look have none."""
        return {}

    def concerns(self, document: Document) -> bool:
        """Whether the document concerns this step. Steps without fields override this."""
        return bool(self.target(document))

    def takes_s(self, document: Document) -> int:
        """How much longer a run may take. A step that may only compare overrides this."""
        return self.longest_s if self.target(document) else 0

    def observed(self, host: Host) -> Fields:
        """The actual values."""
        return {}

    def refuse(self, host: Host) -> None:
        """Refuses, before anything changes, what must not be done on this host."""

    def versions(self, document: Document) -> Dict[str, str]:
        """By field, the versions of software that rocelab installs once or only compares: you
        upgrade it by hand.
        """
        return {}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        """Repairs the fields that deviate."""

    def files_to_write(self, host: Host) -> List[str]:
        """The files that `apply` may write."""
        return list(self.files)

    def facts(self, host: Host) -> Dict[str, Any]:
        """What only the host knows."""
        return {}

    def before(self, host: Host) -> Before:
        """What the undo of the host needs; recorded once, before anything changes."""
        return {}

    def before_pf(self, host: Host, pf: str) -> Optional[Before]:
        """What the undo of a PF needs, recorded once like `before`; None when there is nothing to
        undo.
        """
        return None

    def undo_pf(self, host: Host, pf: str, before: Before) -> None:
        """Restores a PF to its recorded state."""

    def undo(self, host: Host, before: Before) -> None:
        """Restores the rest of the host."""


class PfStep(Step):
    """A step whose fields belong to PFs: the names here are those without the interface."""

    def target_of(self, document: Document, pf: Pf) -> Fields:
        """The target values of a PF; none for a PF that the step leaves alone."""
        return {}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        """The actual values of a PF."""
        return {}

    def target(self, document: Document) -> Fields:
        return _of_pfs(document.get("pfs", ()), lambda pf: self.target_of(document, pf))

    def observed(self, host: Host) -> Fields:
        pfs = [pf for pf in host.pfs if self.target_of(host.document, pf)]
        return _of_pfs(pfs, lambda pf: self.observed_of(host, pf))


def _of_pfs(pfs: Iterable[Pf], look: Callable[[Pf], Fields]) -> Fields:
    fields: Fields = {}
    for pf in pfs:
        for field, value in look(pf).items():
            fields[f"{pf['interface']}.{field}"] = value
    return fields


def section_of(document: Document, *path: str) -> Dict[str, Any]:
    """A section of the document; empty where the lab file does not ask for it."""
    for key in path:
        document = document.get(key) or {}
    return document


def packaged(document: Document, *path: str) -> Dict[str, Any]:
    """The section of software that rocelab installs from packages; empty where it does not."""
    section = section_of(document, *path)
    return section if section.get("source") == "packaged" else {}


def value_or_reason(look: Callable[[], Value]) -> Value:
    """A value, or the reason why it cannot be read: one failed read must not hide the rest of the
    host.
    """
    try:
        return look()
    except StepError as error:
        return error.reason
