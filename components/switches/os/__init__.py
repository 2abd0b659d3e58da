"""The switch OSes, one file each: what rocelab sends, and how it reads the answers. `switches[].os` names the file."""

from components.by_name import class_named
from components.switches.dialect import Dialect
from stacks.switches import Switch


def dialect_of(switch: Switch) -> Dialect:
    """How to talk to this switch."""
    dialect: type[Dialect] = class_named(__name__, switch.os, Dialect)
    return dialect(switch)
