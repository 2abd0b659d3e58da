"""Which raw outputs stand behind a number, and where on the page they are listed."""

from components.report.html.parts import anchor_of
from components.report.html.tags import Html, tag
from components.report.lines import number
from components.report.sources import Material, RawFile, names_again
from components.validation.records import JobResult, TransferResult
from components.validation.summary import JudgedTest

OTHERS = "other outputs"
AGAIN = "again"
"""Stands for the shape of a group that lists repetitions of suspect transfers."""

Group = tuple[str, str, str]
"""Test, shape and rail."""
Pair = tuple[str, str, str, str, str]
"""Test, shape, rail, client and server."""


class Sources:
    """The raw outputs of a report by the numbers that were read from them."""

    def __init__(self, material: Material) -> None:
        self.files = {file.name: file for file in material.raw}
        self.groups: dict[Group, list[str]] = {}
        """Names of the outputs that the values of a test on a rail were read from."""
        self._judged: dict[Pair, Group] = {}
        """What a transfer is judged by: its own outputs, or those of its repetitions."""
        record = material.record if self.files else None
        self._nccl = record.nccl.raw if record and record.nccl else ""
        measured = [t for t in record.transfers if t.outcome == "measured" and t.raw] if record else []
        again = names_again(measured, self.files)
        for transfer in measured:
            group, repetitions = _group(transfer), (transfer.test, AGAIN, transfer.rail)
            repeated = again.get(transfer.raw[0], ())
            self.groups.setdefault(group, []).extend(transfer.raw)
            if repeated:
                self.groups.setdefault(repetitions, []).extend(repeated)
            if repeated or not transfer.retest:
                self._judged[*group, transfer.client, transfer.server] = repetitions if repeated else group

    def transfer(self, transfer: TransferResult, value: float) -> Html:
        """A value of a transfer: its median, or a point of its curve."""
        return _linked(value, _group(transfer) if transfer.raw and self.files else ())

    def median(self, test: JudgedTest, value: float) -> Html:
        """The median over a test's transfers on a rail, or of the all-reduce over all rails."""
        if test.rail is None:
            # with a transport as its shape it is one of several jobs
            is_nccl = (test.test, test.shape) == ("nccl_all_reduce", "")
            return self._of_log(value, self._nccl if is_nccl else "")
        group = (test.test, test.shape, test.rail)
        return _linked(value, group if group in self.groups else ())

    def worst(self, test: JudgedTest) -> Html:
        """The slowest transfer of a test, as it is judged."""
        worst = test.worst
        if worst is None:
            return Html("")
        pair = (test.test, test.shape, test.rail or "", worst.client, worst.server)
        return _linked(worst.value, self._judged.get(pair, ()))

    def job(self, job: JobResult, value: float) -> Html:
        """The median of a job."""
        return self._of_log(value, job.raw)

    def others(self) -> list[RawFile]:
        """Outputs that no transfer's value was read from: the servers' ends, logs of jobs, looks at hosts."""
        used = {name for names in self.groups.values() for name in names}
        return [file for name, file in self.files.items() if name not in used]

    def _of_log(self, value: float, name: str) -> Html:
        return _linked(value, (OTHERS,) if name in self.files else ())


def _group(transfer: TransferResult) -> Group:
    return transfer.test, transfer.shape, transfer.rail


def _linked(value: float, listed: tuple[str, ...]) -> Html:
    """A number, with a link to its outputs where the page lists them."""
    if not listed:
        return tag("span", number(value), class_="num")
    return tag("a", number(value), class_="to num", href=f"#{anchor_of(*listed)}")
