"""Everything that a report is made of; how it was found is the business of `sources`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.report.past import PastRun
from components.report.raw import RawFile
from components.validation.records import RunRecord
from components.validation.summary import Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class RailMtu:
    """What a rail's Ethernet MTU is meant to be, in bytes; None where nobody declares it."""

    rail: str
    switch: int | None
    """Of the switch ports that the rail is cabled to."""
    pf: int | None
    pod: int | None
    """Of the VFs that pods get."""
    path: int | None
    """The RDMA path MTU that follows from it."""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """The PF of each node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """A verdict, and as much of what is behind it as this machine can reach."""

    summary: Summary
    record: RunRecord | None = None
    record_from: str = ""
    """Where the record was found, in words."""
    bundle: str = ""
    """Name of the file with the raw outputs; empty when it is not here, or is not the one of this run."""
    raw: tuple[RawFile, ...] = ()
    rails: tuple[RailMtu, ...] = ()
    history: tuple[PastRun, ...] = ()
    """Earlier runs and the present one, which is the last."""
    missing: tuple[str, ...] = ()
    """What could not be read, and what it means for the report."""
