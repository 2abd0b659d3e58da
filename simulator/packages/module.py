"""A kernel module with metadata for modinfo and no code."""

import struct
from collections.abc import Mapping

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_X86_64, _RELOCATABLE, _PROGBITS, _STRTAB = 62, 1, 1, 3


def module_file(says: Mapping[str, str]) -> bytes:
    """An ELF object with a section .modinfo for kmod's tools; a kernel refuses to load it."""
    info = b"".join(f"{key}={value}\0".encode() for key, value in says.items())
    names = b"\0.modinfo\0.shstrtab\0"
    info_at = _HEADER.size
    names_at = info_at + len(info)
    table_at = (names_at + len(names) + 7) // 8 * 8
    sections = (
        _SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        _SECTION.pack(names.index(b".modinfo"), _PROGBITS, 2, 0, info_at, len(info), 0, 0, 1, 0),
        _SECTION.pack(names.index(b".shstrtab"), _STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0),
    )
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    sizes = (_HEADER.size, 0, 0, _SECTION.size, len(sections), len(sections) - 1)
    header = _HEADER.pack(identity, _RELOCATABLE, _X86_64, 1, 0, 0, table_at, 0, *sizes)
    return (header + info + names).ljust(table_at, b"\0") + b"".join(sections)
