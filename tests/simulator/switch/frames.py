"""Ethernet frames."""

GPU01, GPU02, GPU03 = (bytes.fromhex(f"52540011000{number}") for number in (1, 2, 3))
BROADCAST = b"\xff" * 6
IPV4 = b"\x08\x00"


def frame(to: bytes, source: bytes, payload: int = 100, vlan: int | None = None, priority: int = 0) -> bytes:
    tag = b"" if vlan is None else b"\x81\x00" + (priority << 13 | vlan).to_bytes(2, "big")
    return to + source + tag + IPV4 + b"x" * payload


def lldp_frame(system: str, port: str) -> bytes:
    def part(kind: int, value: bytes) -> bytes:
        return (kind << 9 | len(value)).to_bytes(2, "big") + value

    parts = part(1, b"\x04" + GPU01) + part(2, b"\x05" + port.encode()) + part(3, b"\x00\x78")
    parts += part(5, system.encode()) + part(0, b"")
    return bytes.fromhex("0180c200000e") + GPU01 + b"\x88\xcc" + parts
