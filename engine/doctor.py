"""Lists what is installed, where it comes from, and what each command still needs. Changes nothing."""

import argparse
import json
import platform
import sys

from engine import install, machine, python_env
from engine.findings import Finding
from engine.needs import has_real_pods, needed
from engine.parts import PARTS, Part
from engine.places import VENV


def engine_findings(stack: str | None) -> tuple[list[Finding], list[Part]]:
    """A finding per part of the engine, and the parts that setup still has to provide for the stack."""
    needs = needed(PARTS, stack)
    findings: list[Finding] = []
    absent: list[Part] = []
    for part in PARTS:
        located = install.locate(part)
        if located:
            findings.append(Finding(part.name, part.version, located.origin))
        elif part not in needs:
            findings.append(Finding(part.name, part.version, f"not needed by lab {stack}"))
        else:
            absent.append(part)
            findings.append(Finding(part.name, part.version, "-", "not in place", part.wanted_by, "run: make setup"))
    return findings, absent


STANDINS_IN_PODS = (
    Finding("pause image", "Debian's busybox", "stand-in"),
    Finding("SR-IOV device plugin's image", "of 2022 with an adapter", "older than the bill's"),
)
"""Images on nodes with real pods that are not what their names say."""


def python_finding() -> Finding:
    """The Python that runs this, and whether `.venv` matches the lock files."""
    installed = python_env.installed_locks()
    version = platform.python_version()
    if not installed:
        return Finding("python", version, "-", f"no {VENV.name} made by make setup", "every command", "run: make setup")
    if installed != python_env.lock_hashes(dev=False, installed=installed):
        lack = f"{VENV.name} is older than the lock files"
        return Finding("python", version, VENV.name, lack, "every command", "run: make setup")
    return Finding("python", version, VENV.name)


def table(findings: list[Finding]) -> str:
    """The findings as aligned columns, then a line per missing item."""
    rows = [("part", "version", "origin")]
    rows += [(one.part, one.version, "MISSING" if one.lack else one.origin) for one in findings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{part:<{widths[0]}}  {version:<{widths[1]}}  {origin}" for part, version, origin in rows]
    missing = [f"{one.part}: {one.lack} -> {one.wanted_by}; {one.remedy}" for one in findings if one.lack]
    standins = [one.part for one in findings if one.origin == "stand-in"]
    if standins:
        lines += ["", f"stand-ins, for simulator stacks only: {', '.join(standins)} (see engine/README.md)"]
    return "\n".join([*lines, *([""] if missing else []), *missing])


def main() -> int:
    """The command `engine/doctor`; 1 when something is missing."""
    parser = argparse.ArgumentParser(prog="engine/doctor", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--stack", help="check only what the lab of this stack needs")
    options = parser.parse_args()
    parts, absent = engine_findings(options.stack)
    in_pods = STANDINS_IN_PODS if options.stack and has_real_pods(options.stack) else ()
    findings = [python_finding(), *parts, *in_pods, *machine.look(absent)]
    if options.json:
        sys.stdout.write(json.dumps([one.to_json() for one in findings], indent=1) + "\n")
    else:
        sys.stdout.write(table(findings) + "\n")
    return int(any(one.lack for one in findings))


if __name__ == "__main__":
    sys.exit(main())
