"""Converts a job file: `python -m components.jobs.convert old.yaml > new.yaml`. What changed is told on stderr."""

import argparse
import sys
from pathlib import Path

from components.cluster.definitions import parse_definition
from components.cluster.store import Store
from components.jobs.convert.conversion import convert
from components.jobs.convert.schema import schema_of
from components.jobs.text import to_yaml
from stacks.base import LabError
from stacks.bill import MPIJOBS_DEFINITION


def main(arguments: list[str] | None = None) -> int:
    """Prints the new jobs, and a line for each thing that a person has to know."""
    parser = argparse.ArgumentParser(prog="python -m components.jobs.convert", description=__doc__)
    parser.add_argument("file", type=Path, help="job file of v1alpha2 or v1; - reads stdin")
    parser.add_argument("--device-resource", help="replaces privileged and hostPath, such as rdma/hca_shared")
    asked = parser.parse_args(arguments)
    name = "stdin" if str(asked.file) == "-" else asked.file.name
    try:
        schema = schema_of(parse_definition(Store.from_environment().read(MPIJOBS_DEFINITION)), "v2beta1")
        converted = convert(_read(asked.file), name, schema, asked.device_resource)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("---\n".join(to_yaml(document) for document in converted.documents))
    sys.stderr.write("".join(f"{name}, {note}\n" for note in converted.notes))
    return 0


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LabError(f"{path} is not UTF-8: save it as UTF-8") from None


if __name__ == "__main__":
    sys.exit(main())
