"""What lies below a machine that is no hardware itself, as far as somebody can look there."""

from collections.abc import Iterable, Mapping
from typing import Protocol


class Seen(Protocol):
    """The HCA below one machine at one moment."""

    @property
    def host(self) -> str:
        """ESXi host; empty where nobody knows it."""

    @property
    def device(self) -> str:
        """RDMA device of the host."""

    @property
    def sent_bytes(self) -> int | None:
        """Counted since the host started; None where it cannot be read."""

    @property
    def received_bytes(self) -> int | None:
        """The same of what came in."""

    @property
    def why(self) -> str:
        """Why something is not known."""


class Hcas(Protocol):
    """Whoever can look below the machines."""

    def look(self, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Seen]:
        """By (rail, machine). Blocks; raises LabError when nothing can be seen."""
