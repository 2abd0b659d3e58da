"""The answers of simulated hosts, which are written down apart from the host program, agree with what it wants."""

import json
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.records import target_fields
from simulator.hosts.farm import places_of
from simulator.hosts.fields import conforming
from simulator.hosts.labfile import lab_of, routed_lab_of
from stacks.read import parse_lab


@pytest.mark.parametrize("lab_file", [lab_of, routed_lab_of])
def test_a_simulated_host_conforms_to_its_lab_as_the_host_program_understands_it(
    lab_file: Callable[[str, dict[str, IPv4Address], int, Path], dict[str, Any]],
) -> None:
    places = places_of(["gpu0001", "gpu0002"], IPv4Address("127.1.9.1"))
    lab = parse_lab(json.dumps(lab_file("scale", places, 2222, Path("/"))), "scale")

    for node in lab.nodes:
        document = host_document(lab, node)
        assert conforming(document) == target_fields(document)
