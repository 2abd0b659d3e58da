"""Answers of the host program's verb `bench`, to be changed value by value."""

import json
from typing import Any

Values = dict[str, Any]
"""By the name of a leaf; None: it could not be read."""


def answer_of(host: Values, **ports: Values) -> str:
    """An answer with these values of the host, and of each port by its RDMA device."""
    nothing = {"schema": 1, "host": {}, "ports": []}
    for device in ports:
        nothing["ports"].append({"device": device, "interface": f"net-{device}", "leaves": {}})  # type: ignore[attr-defined]
    return with_values(json.dumps(nothing), host, **ports)


def with_values(text: str, host: Values | None = None, **ports: Values) -> str:
    """The answer with other values."""
    answer = json.loads(text)
    _put(answer["host"], host or {})
    for port in answer["ports"]:
        _put(port["leaves"], ports.get(port["device"], {}))
    return json.dumps(answer)


def with_gid(text: str, device: str, index: int, /, **fields: object) -> str:
    """The answer with another entry in the GID table of a port."""
    answer = json.loads(text)
    for port in answer["ports"]:
        for gid in port["leaves"]["gids"]["value"]:
            if (port["device"], gid["index"]) == (device, index):
                gid.update(fields)
    return json.dumps(answer)


def _put(leaves: dict[str, Any], values: Values) -> None:
    for name, value in values.items():
        leaves[name] = {"value": value, "source": "test"}
        if value is None:
            leaves[name] = {"unknown": "Input/output error", "source": "test"}
