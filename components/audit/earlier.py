"""The earlier look of an audit: only counters are compared, so only they are read from its file."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.inventory.model import SCHEMA, Counters, Host, Inventory, Pf, System
from components.inventory.reading import NOT_READ, Reading
from stacks.base import LabError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pf:
    pci: str
    carrier_changes: Reading[int] = NOT_READ
    counters: Reading[Counters] = NOT_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class _System:
    boot_id: Reading[str] = NOT_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    name: str
    address: str
    read_at: datetime | None = None
    unread: str = ""
    system: _System = field(default_factory=_System)
    pfs: Reading[tuple[_Pf, ...]] = NOT_READ


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    schema: int
    read_at: datetime
    hosts: tuple[_Host, ...] = ()


_LOOK = TypeAdapter(_Look)


def load_earlier(path: Path) -> Inventory:
    """The counters of an inventory's file, without all else, which saves hundreds of megabytes.

    Raises:
        LabError: when it holds none.
    """
    try:
        look = _LOOK.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise LabError(
            f"{path}: no inventory: {first['msg']}; give --since a file of rocelab look"
        ) from None
    if look.schema != SCHEMA:
        raise LabError(
            f"{path}: schema {look.schema}, and this version reads {SCHEMA}; look again with it"
        )
    return Inventory(schema=SCHEMA, read_at=look.read_at, hosts=tuple(map(_host_of, look.hosts)))


def _host_of(host: _Host) -> Host:
    return Host(
        name=host.name,
        address=host.address,
        read_at=host.read_at,
        unread=host.unread,
        system=System(boot_id=host.system.boot_id),
        pfs=host.pfs.map(lambda pfs: tuple(map(_pf_of, pfs))),
    )


def _pf_of(pf: _Pf) -> Pf:
    return Pf(pci=pf.pci, carrier_changes=pf.carrier_changes, counters=pf.counters)
