"""Which raw output stands behind a number, and where on the page it is listed."""

from components.report.checking import ROUNDED
from components.report.html.parts import anchor_of, sourced
from components.report.html.tags import Html, tag
from components.report.lines import number
from components.report.material import Material
from components.report.raw import RawFile, names_again, names_of, nccl_name
from components.report.values import (
    AGAIN,
    NCCL_KEY,
    group_of,
    job_key,
    judged_key,
    measured_by,
    point_key,
    series_key,
    slowest_of,
    transfer_key,
    values_of,
)
from components.validation.records import RunRecord, TransferResult

OTHERS = "other outputs"


class Sources:
    """The raw outputs of a report by the numbers that were read from them."""

    def __init__(self, material: Material) -> None:
        self.run_id = material.summary.run_id
        self.files = {file.name: file for file in material.raw}
        self.groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
        """Per test, shape and rail: name of each output, and the client and server whose transfer it measured."""
        record = material.record
        self._again = names_again(record.transfers, self.files) if record else {}
        self._slowest = slowest_of(record, material.summary, self._again) if record else {}
        self._values = values_of(record) | self._slowest if record else {}
        self._found: dict[str, tuple[str, str]] = {}
        """By key: the outputs as one text, and where they are listed."""
        if record is not None and self.files:
            self._read(record)

    def _read(self, record: RunRecord) -> None:
        for transfer in record.transfers:
            names = names_of(transfer, self.files) if transfer.outcome == "measured" else ()
            if names:
                self._transfer(transfer, names)
        # of a record without all transfers, what is said of all of them cannot be worked out again
        for group in self.groups if record.left_out == 0 else ():
            for what in ("median", "least", "greatest"):
                key = series_key(*group, what)
                if key in self._values and self._values[key].traceable:
                    self._point(key, f"{'/'.join(group)}/*", group)
        for job in record.jobs:
            if job.raw in self.files:
                self._point(job_key(job), job.raw, (OTHERS,))
        if name := nccl_name(record, self.files):
            self._point(NCCL_KEY, name, (OTHERS,))

    def _transfer(self, transfer: TransferResult, names: tuple[str, ...]) -> None:
        group, repetitions = group_of(transfer), (transfer.test, AGAIN, transfer.rail)
        repeated = self._again.get(names[0], ())
        self._list(group, names, transfer)
        self._list(repetitions, repeated, transfer)
        if transfer.shape == "sizes":
            for name, point in zip(names, transfer.curve, strict=False):
                self._point(point_key(measured_by(transfer), point.message_bytes), name, group)
        else:
            self._point(transfer_key(transfer), " ".join(names), group)
        if (key := judged_key(measured_by(transfer))) in self._slowest:
            if not transfer.retest:
                self._point(key, " ".join(names), group)
            elif repeated:
                self._point(key, " ".join(repeated), repetitions)

    def _list(self, group: tuple[str, str, str], names: tuple[str, ...], transfer: TransferResult) -> None:
        pair = f"{transfer.client} {transfer.server}"
        if names:
            self.groups.setdefault(group, []).extend((name, pair) for name in names)

    def _point(self, key: str, names: str, group: tuple[str, ...]) -> None:
        self._found[key] = (f"{self.run_id}:{names}", anchor_of(*group))

    def show(self, key: str, value: float) -> Html:
        """A number; with its source where raw outputs of this run are known.

        A verdict may round what the record has in full. One that says something else is shown as it is: that it
        contradicts its own raw outputs is for the verifier to find.
        """
        if key not in self._found:
            return tag("span", number(value), class_="num")
        full = self._values.get(key)
        near = full is not None and abs(full.value - value) <= ROUNDED * abs(full.value)
        return sourced(full.value if full and near else value, key, *self._found[key])

    def others(self) -> list[RawFile]:
        """Outputs that no transfer's value was read from: the servers' ends, logs of jobs, looks at hosts."""
        used = {name for listed in self.groups.values() for name, _ in listed}
        return [file for name, file in self.files.items() if name not in used]
