"""Thousands of transfers as a short text: columns, compressed.

The state of a stack must stay small, and yet each pair must be there to be judged again when a threshold changes.
"""

import base64
import bz2
import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

Fields = Mapping[str, JsonValue]
"""A transfer as JSON; fields with their default value are left out."""

ABSENT = None
"""In a column: this transfer has the field's default. None is only ever a default, so no other field is."""
USUAL = "usual"
"""Key of what stands instead of the names of raw outputs that follow from the transfer itself: their number."""
LARGEST_BYTES = 64_000_000
"""Of what is unpacked: a damaged or hostile text must not fill the memory."""


def raw_names(rail: str, stage: str, client: str, server: str, runs: int) -> tuple[str, ...]:
    """Names of the client outputs of a transfer, from which its values were read; the server's lie beside them."""
    return tuple(f"{rail}/{stage}/{client}-to-{server}/{number}.client" for number in range(runs))


def pack(transfers: Sequence[Fields]) -> str:
    """The transfers as one text."""
    short = [_without_usual_names(transfer) for transfer in transfers]
    names = dict.fromkeys(name for transfer in short for name in transfer)
    columns: dict[str, JsonValue] = {name: [transfer.get(name, ABSENT) for transfer in short] for name in names}
    text = json.dumps({"count": len(transfers), "columns": columns}, separators=(",", ":"))
    # a third smaller than zlib, which finds no repeats in random numbers
    return base64.b85encode(bz2.compress(text.encode())).decode()


def _opened(data: bytes) -> bytes:
    """The compressed text.

    Raises:
        ValueError: when it is damaged, cut short, or larger than any run.
    """
    opener = bz2.BZ2Decompressor()
    try:
        text = opener.decompress(data, LARGEST_BYTES)
    except OSError as error:
        raise ValueError(f"packed transfers are damaged: {error}") from None
    if not opener.eof:
        raise ValueError("packed transfers are cut short, or larger than any run")
    return text


def unpack(packed: str) -> list[dict[str, JsonValue]]:
    """The transfers again.

    Raises:
        ValueError: when the text is damaged.
    """
    content = json.loads(_opened(base64.b85decode(packed)))
    columns, count = content["columns"], content["count"]
    if any(len(column) != count for column in columns.values()):
        raise ValueError("packed transfers are damaged: columns of different lengths")
    rows = [
        {name: column[number] for name, column in columns.items() if column[number] is not ABSENT}
        for number in range(count)
    ]
    return [_with_usual_names(row) for row in rows]


def _stage(fields: Fields) -> str:
    test, shape = fields.get("test", "ib_write_bw"), fields.get("shape", "one_way")
    return str(test) if shape == "one_way" else f"{test}-{shape}"


def _names(fields: Fields, runs: int) -> list[JsonValue]:
    return list(raw_names(str(fields["rail"]), _stage(fields), str(fields["client"]), str(fields["server"]), runs))


def _without_usual_names(fields: Fields) -> Fields:
    raw = fields.get("raw")
    if isinstance(raw, list) and raw == _names(fields, len(raw)):
        return {**fields, "raw": {USUAL: len(raw)}}
    return fields


def _with_usual_names(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    raw = fields.get("raw")
    if isinstance(raw, dict) and isinstance(runs := raw.get(USUAL), int):
        return {**fields, "raw": _names(fields, runs)}
    return fields
