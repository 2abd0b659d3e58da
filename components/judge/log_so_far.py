"""What was read of a log up to here; what comes before a table belongs to it."""

from components.judge.nccl_lines import NcclLines
from components.judge.results import Facts, Kind, Result


class LogSoFar:
    """The state that tables share."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.claims: list[Result] = []
        self.current: Result | None = None
        self.collective, self.point_to_point, self.ucx_operation = "", "", ""
        self._clear()

    def _clear(self) -> None:
        self.facts = Facts()
        self.notes: list[str] = []
        self.nccl = NcclLines()

    def begin(self, program: str, kind: Kind, number: int) -> Result:
        """A new table."""
        self.nccl.count_nics(self.facts)
        result = Result(program=program, kind=kind, line=number, facts=self.facts, open=True)
        result.notes, result.network = self.notes, self.nccl.network
        self.results.append(result)
        self.current = result
        self._clear()
        return result
