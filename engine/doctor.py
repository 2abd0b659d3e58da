"""Lists what is installed and where it comes from, and what you must install before `make up`. Changes nothing."""

import argparse
import importlib.util
import json
import platform
import sys

from engine import install, machine, python_env
from engine.findings import Finding
from engine.needs import has_real_pods, is_simulated, needed
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
            origin: str = located.origin
        elif part not in needs:
            origin = f"not needed by lab {stack}"
        else:
            absent.append(part)
            origin = FROM_SETUP
        findings.append(Finding(part.name, part.version, origin))
    return findings, absent


FROM_SETUP = "make setup provides it"
STANDINS_IN_PODS = (
    Finding("pause image", "Debian's busybox", "stand-in"),
    Finding("SR-IOV device plugin's image", "of 2022 with an adapter", "older than the bill's"),
)
"""Images on nodes with real pods that are not what their names say."""


def python_finding() -> Finding:
    """The Python that runs this, and whether `.venv` matches the lock files or can be made."""
    installed = python_env.installed_locks()
    version = platform.python_version()
    if installed and installed == python_env.lock_hashes(dev=False, installed=installed):
        return Finding("python", version, VENV.name)
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{version.rpartition('.')[0]}-venv"
        return Finding("python", version, "-", "it cannot make environments", "every command", f"install {package}")
    if installed:
        return Finding("python", version, f"{VENV.name} is older than the lock files: make setup updates it")
    return Finding("python", version, f"no {VENV.name} yet: {FROM_SETUP}")


def table(findings: list[Finding], stack: str | None) -> str:
    """The findings as aligned columns, then what you must install, or the command that does the rest."""
    unused = [finding.part for finding in findings if finding.origin == f"not needed by lab {stack}"]
    rows = [("part", "version", "origin")]
    for finding in findings:
        if finding.part not in unused:
            rows.append((finding.part, finding.version, "MISSING" if finding.lack else finding.origin))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{part:<{widths[0]}}  {version:<{widths[1]}}  {origin}" for part, version, origin in rows]
    if unused:
        lines += ["", f"not needed by lab {stack}: {', '.join(unused)}"]
    standins = [finding.part for finding in findings if finding.origin == "stand-in"]
    if standins:
        lines += ["", f"stand-ins, for simulator stacks only: {', '.join(standins)} (see engine/README.md)"]
    missing = [f"{lack.part}: {lack.lack} -> {lack.wanted_by}; {lack.remedy}" for lack in findings if lack.lack]
    if missing:
        return "\n".join([*lines, "", "What you must do first:", *missing])
    command = "up" if stack is None or is_simulated(stack) else "setup"
    selection = "" if stack in {None, "lab"} else f" STACK={stack}"
    return "\n".join([*lines, "", f"This machine has what it needs; `make {command}{selection}` provides the rest."])


def main() -> int:
    """The command `engine/doctor`; 1 when you must install something first."""
    parser = argparse.ArgumentParser(prog="engine/doctor", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--stack", help="check only what the lab of this stack needs")
    options = parser.parse_args()
    parts, absent = engine_findings(options.stack)
    in_pods = STANDINS_IN_PODS if options.stack and has_real_pods(options.stack) else ()
    simulated = options.stack is None or is_simulated(options.stack)
    findings = [python_finding(), *parts, *in_pods, *machine.look(absent, simulated=simulated)]
    if options.json:
        sys.stdout.write(json.dumps([finding.to_json() for finding in findings], indent=1) + "\n")
    else:
        sys.stdout.write(table(findings, options.stack) + "\n")
    return int(any(finding.lack for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
