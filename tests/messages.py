"""The facts of a message without its sentence, so that a sentence can be improved and its test stays.

Facts are what a reader acts on: names, fields of the lab file, values, limits, commands.
"""

import re
from collections.abc import Callable


def states(text: str, *facts: object) -> bool:
    """Whether a text has all these facts, in any order, each as a whole: `10.0.0.1` is not in `10.0.0.10`."""
    return all(_has(text, str(fact)) for fact in facts)


def stating(*facts: object) -> Callable[[BaseException], bool]:
    """For `pytest.raises(LabError, check=stating("esx1", "vmnic4"))`."""

    def check(error: BaseException) -> bool:
        absent = [str(fact) for fact in facts if not _has(str(error), str(fact))]
        assert absent == [], f"not in: {error}"
        return True

    return check


def lines_naming(text: str, *facts: object) -> list[str]:
    """The lines of a command's output that have all these facts as whole words: `gpu01` is in `nodes.gpu01:` too."""
    return [
        line
        for line in text.splitlines()
        if all(re.search(rf"(?<!\w){re.escape(str(fact))}(?!\w)", line) for fact in facts)
    ]


def _has(text: str, fact: str) -> bool:
    before = r"(?<!\w)(?<!\w[.-])" if re.match(r"\w", fact) else ""
    after = r"(?!\w|[.-]\w)" if re.search(r"\w$", fact) else ""
    return re.search(f"{before}{re.escape(fact)}{after}", text) is not None
