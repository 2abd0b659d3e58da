"""Previews an example as its README describes it: its stack file and the secrets that the README sets, no machines."""

import json
import os
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from stacks.read import KEY
from tests.components.fabric.lookups import LOOKUPS
from tests.conftest import ROOT
from tests.engine import Engine, Recorded, dynamic_answer

GOLDEN = ROOT / "tests" / "golden" / "examples"


def secrets_of(page: Path) -> dict[str, str]:
    """The stack secrets that a page tells the reader to set, each with a value that is easy to search for."""
    names = re.findall(r"pulumi config set --secret (rocelab:\w+)", page.read_text())
    return {name: f"canary-for-{name}-of-at-least-32-characters" for name in names}


def plays(kind: str, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What providers add: the hosts' NICs beside what every lab needs."""
    return {"device": "vmnic4"} if kind.endswith(":Uplink") else dynamic_answer(kind, name, inputs)


def previewed(file: Path, *, page: Path | None = None, without: Sequence[str] = ()) -> Recorded:
    """The program's resources in a preview.

    Args:
        file: the stack file.
        page: what the reader follows. None: the README next to the file.
        without: sections that the reader deletes.
    """
    lab = yaml.safe_load(file.read_text())["config"][KEY]
    lab = {section: value for section, value in lab.items() if section not in without}
    config = {KEY: json.dumps(lab), **secrets_of(page or file.with_name("README.md"))}
    program = str(ROOT / "__main__.py")
    return Engine(plays, LOOKUPS).run(lambda: runpy.run_path(program), preview=True, config=config)


def same_names(seen: Recorded, example: str) -> bool:
    """Whether the names are the golden ones; a renamed resource is deleted and made again."""
    names = "".join(f"{one.type} {name}\n" for name, one in sorted(seen.resources.items()))
    golden = GOLDEN / f"{example}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(names)
    return names == golden.read_text()


def same_inputs(seen: Recorded, example: str, names: Sequence[str]) -> bool:
    """Whether these resources are given the golden values, for people to read: what stands in a name shows no value.

    A secret shows as such; the program's own digest and pickled code change with every line of it and are left out.
    """
    given = {}
    for name in names:
        one = seen.resources[name]
        values = {key: "secret" if key in one.secrets else value for key, value in one.inputs.items()}
        if "stdin" in values:
            values = {"stdin": json.loads(values["stdin"])}
        given[name] = {key: value for key, value in values.items() if not key.startswith("__")}
    text = yaml.safe_dump(json.loads(json.dumps(given)), width=110)
    golden = GOLDEN / f"{example}-inputs.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    return text == golden.read_text()


def no_secret_in(seen: Recorded, file: Path) -> bool:
    """Whether the stack's secrets are in no input but those that are secrets themselves."""
    secrets = secrets_of(file.with_name("README.md"))
    assert secrets
    return not any(
        canary in json.dumps({key: value for key, value in one.inputs.items() if key not in one.secrets}, default=str)
        for one in seen.resources.values()
        for canary in secrets.values()
    )


def deviations(folder: Path) -> list[list[str]]:
    """The rows of the table "Where it differs" in an example's README."""
    table = (folder / "README.md").read_text().partition("\n## Where it differs")[2]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    body = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[1:]]
    for where, *rest in body:
        assert re.fullmatch(r"\d+(-\d+)?(, \d+(-\d+)?)*", where), where
        assert len(rest) == 3, where
        assert all(rest), where
    return body
