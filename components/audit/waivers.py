"""Accepted faults: by check and nodes, with a reason and a last day."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from components.audit.findings import AuditFault
from stacks.base import LabError, Section
from stacks.faults import reason
from stacks.safe_yaml import load_yaml
from stacks.sets import NameSet, names_of

EXAMPLE = (
    "- {check: pcie-link, nodes: 'gpu[01-04]', reason: riser cards are ordered, "
    "expires: 2027-03-31}"
)


class Waiver(Section):
    """One accepted fault."""

    check: str
    """Code of the check."""
    nodes: NameSet | None = None
    """None: everywhere."""
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    expires: date
    """The last day on which it counts, in UTC."""


class Waivers:
    """The waivers of a file on one day."""

    def __init__(self, waivers: Sequence[Waiver], today: date) -> None:
        self._expired = [waiver for waiver in waivers if waiver.expires < today]
        self._active: list[tuple[Waiver, frozenset[str] | None]] = []
        for waiver in waivers:
            if waiver.expires >= today:
                nodes = waiver.nodes and frozenset(names_of(waiver.nodes))
                self._active.append((waiver, nodes or None))

    def waiver_for(self, code: str, fault: AuditFault) -> Waiver | None:
        """The first waiver that covers a fault."""
        for waiver, nodes in self._active:
            if waiver.check == code and (nodes is None or fault.node in nodes):
                return waiver
        return None

    def expired(self) -> Iterator[str]:
        """Each waiver whose day has passed, in words."""
        for waiver in self._expired:
            where = f" on {waiver.nodes}" if waiver.nodes else ""
            yield f"{waiver.check}{where} expired on {waiver.expires}: {waiver.reason}"


NONE = Waivers((), date.min)


def read_waivers(path: Path, codes: Collection[str], today: date) -> Waivers:
    """The waivers of a YAML file.

    Raises:
        LabError: with every entry that is refused.
    """
    try:
        given = load_yaml(path.read_text(encoding="utf-8"))
        waivers = TypeAdapter(tuple[Waiver, ...]).validate_python(given or ())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LabError(
            f"{path}: not YAML ({' '.join(str(error).split())}); an entry looks like {EXAMPLE}"
        ) from None
    except ValidationError as error:
        lines = [f"{path} is not a list of waivers, such as {EXAMPLE}"]
        for fault in error.errors(include_url=False):
            place = ".".join(map(str, fault["loc"])) or "file"
            lines.append(f"  {place}: {reason(fault)}")
        raise LabError("\n".join(lines)) from None
    unknown = sorted({waiver.check for waiver in waivers} - set(codes))
    if unknown:
        raise LabError(
            f"{path}: there is no check {', '.join(unknown)}; docs/audit-checks.md lists the codes"
        )
    return Waivers(waivers, today)
