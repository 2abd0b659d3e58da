"""LLDP announcements (IEEE 802.1AB), read from the frames that nodes send."""

from dataclasses import dataclass

ETHERTYPE = b"\x88\xcc"
_END, _CHASSIS, _PORT, _PORT_DESCRIPTION, _SYSTEM = 0, 1, 2, 4, 5
_MAC_SUBTYPES = {_CHASSIS: 4, _PORT: 3}


@dataclass(frozen=True)
class Heard:
    """The last announcement received on a port."""

    chassis: str
    port: str
    port_description: str = ""
    system: str = ""


def heard_in(frame: bytes) -> Heard | None:
    """The announcement in a frame, or None if the frame has no valid one."""
    if frame[12:14] != ETHERTYPE:
        return None
    found: dict[int, str] = {}
    rest = frame[14:]
    while len(rest) >= 2:
        kind, length = rest[0] >> 1, (rest[0] & 1) << 8 | rest[1]
        value, rest = rest[2 : 2 + length], rest[2 + length :]
        if kind == _END or len(value) < length:
            break
        found[kind] = _text(kind, value)
    if not found.get(_CHASSIS) or not found.get(_PORT):
        return None
    return Heard(found[_CHASSIS], found[_PORT], found.get(_PORT_DESCRIPTION, ""), found.get(_SYSTEM, ""))


def _text(kind: int, value: bytes) -> str:
    if kind in _MAC_SUBTYPES:  # the first byte is the kind of name
        subtype, value = value[:1], value[1:]
        if subtype == bytes([_MAC_SUBTYPES[kind]]):
            return value.hex(":")
    return "".join(letter for letter in value.decode(errors="replace") if letter.isprintable())[:120]
