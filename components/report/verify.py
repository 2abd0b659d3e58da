"""`python -m components.report verify --store FOLDER --report FILE`: are the numbers those of the raw outputs?"""

import argparse
import sys
from pathlib import Path

from components.report.bundles import BundleError, digest_of, outputs_in
from components.report.checking import Claims, differences
from components.report.claims import claims_in
from components.validation.memory.bundle import RAW
from stacks.base import LabError
from stacks.words import plural

MOST_LINES = 14
EXITS = """\
exit status
  0  every measured number that is shown was found again
  1  a byte of the stored outputs or a number of the report is another one
  2  it could not be compared: the outputs are not here, or the file is no report with numbers
"""


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when every number was found again, 1 when something differs, 2 when nothing could be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m components.report verify",
        description="Works the numbers of a report out again from the stored raw outputs, and compares every digit.",
        epilog=EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--store",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the lab keeps its runs; `make history` names it",
    )
    parser.add_argument("--report", type=Path, required=True, metavar="FILE", help="a report as HTML or JSON")
    asked = parser.parse_args(arguments)
    try:
        claims = claims_in(_read(asked.report))
        found = _check(claims, asked.store)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for line in found[:MOST_LINES]:
        sys.stdout.write(f"{line}\n")
    if found:
        more = f" ({len(found) - MOST_LINES} more)" if len(found) > MOST_LINES else ""
        sys.stdout.write(f"{asked.report.name} is not what was measured: {plural(len(found), 'difference')}{more}\n")
        return 1
    if left := sum(claims.open(claim) for claim in claims.numbers):
        sys.stderr.write(
            f"{asked.report.name}: it does not list the raw outputs of {left} of {len(claims.numbers)} numbers, since "
            "there are so many; the report in JSON does (--json): check that one\n"
        )
        return 2
    sys.stdout.write(
        f"{asked.report.name}: {plural(len(claims.numbers), 'number')} worked out again from "
        f"{len(claims.digests)} raw outputs of run {claims.run_id}\n"
    )
    return 0


def _check(claims: Claims, store: Path) -> list[str]:
    if not claims.numbers:
        raise LabError(f"the report of run {claims.run_id} has no number with a raw output behind it")
    file = store / f"{claims.run_id}{RAW}"
    try:
        digest = digest_of(file)
    except OSError as error:
        raise LabError(
            f"{file} cannot be read: {error.strerror}. It is where the report was made; --store names its folder"
        ) from None
    found = []
    if digest != claims.bundle_sha256:
        found.append(f"{file.name}: SHA-256 {digest[:16]}… instead of {claims.bundle_sha256[:16]}…: it was changed")
    try:
        found += differences(claims, outputs_in(file))
    except BundleError as error:
        found.append(str(error))
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{file} cannot be read: {error}") from None
