"""An example's stack file as the whole program previews it, without any of its machines."""

import json
import os
import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from stacks.read import KEY
from tests.components.fabric.test_fabric import LOOKUPS
from tests.conftest import ROOT
from tests.engine import Engine, Recorded
from tests.test_program import answer

GOLDEN = ROOT / "tests" / "golden" / "examples"
SECRETS = {
    "rocelab:vcenterPassword": "canary-of-the-vcenter",
    "rocelab:licenceToken": "canary-of-the-licence",
    "rocelab:hostKeySeed": "canary-of-the-seed-of-all-host-keys",
}


def plays(kind: str, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What providers add: the hosts' NICs beside what every lab needs."""
    return {"device": "vmnic4"} if kind.endswith(":Uplink") else answer(kind, name, inputs)


def previewed(file: Path) -> Recorded:
    """The program's resources in a preview with the stack's secrets alone, as its README sets them."""
    lab = yaml.safe_load(file.read_text())["config"][KEY]
    config = {KEY: json.dumps(lab), **SECRETS}
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


def no_secret_in(seen: Recorded) -> bool:
    """Whether the stack's secrets are in no input but those that are secrets themselves."""
    return not any(
        canary in json.dumps({key: value for key, value in one.inputs.items() if key not in one.secrets}, default=str)
        for one in seen.resources.values()
        for canary in SECRETS.values()
    )


def deviations(folder: Path) -> list[list[str]]:
    """The rows of the table in an example's README."""
    lines = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("| ")]
    body = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[1:]]
    for where, *rest in body:
        assert re.fullmatch(r"\d+(-\d+)?(, \d+(-\d+)?)*", where), where
        assert len(rest) == 3, where
        assert all(rest), where
    return body
