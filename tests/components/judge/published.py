"""Published results, with what their authors say of them and what judge may say."""

import csv
import shlex
from dataclasses import dataclass

from components.judge.assessment import Assessment
from components.judge.judge import judge
from components.judge.known import KnownHardware, nic_gbit_s
from components.judge.reader import read_results
from tests.conftest import ROOT


@dataclass(frozen=True, kw_only=True)
class Published:
    """One row of a table in tests/samples/judge."""

    id: str
    source: str
    text: str
    options: str
    published: str
    """Verdict of its authors."""
    verdict: str
    """Verdict of judge; where it differs, `reason` says why."""
    code: str
    reason: str

    @property
    def known(self) -> KnownHardware:
        words = shlex.split(self.options)
        values: dict[str, object] = {}
        for option, value in zip(words[::2], words[1::2], strict=True):
            name = option.removeprefix("--").replace("-", "_")
            if name == "nic":
                values["nic_gbit_s"] = nic_gbit_s(value)
            elif name == "mtu":
                values["path_mtu_bytes"] = int(value)
            elif name == "link":
                values["framing"] = value
            elif name == "gpu":
                values["gpu"] = value
            else:
                values[name] = int(value)
        return KnownHardware(**values)  # type: ignore[arg-type]

    def judged(self) -> Assessment:
        (result,) = read_results(self.text.replace("\\n", "\n"))
        return judge(result, self.known)


def published(name: str = "public") -> list[Published]:
    with (ROOT / "tests" / "samples" / "judge" / f"{name}.tsv").open() as file:
        return [Published(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
