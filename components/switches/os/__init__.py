"""The switch OSes, one file each: what rocelab sends, and how it reads the answers. `switches[].os`
names the file.
"""

from typing import cast

from components.by_name import class_named
from components.switches.dialect import Dialect
from stacks.base import members
from stacks.switches import Switch

SWITCH_OSES = members(Switch, "os")
"""The model of each OS, by its name."""


def dialect_of(switch: Switch) -> Dialect:
    dialect: type[Dialect] = class_named(__name__, switch.os, Dialect)
    return dialect(switch)


def default_dialect(os: str) -> Dialect:
    """How to talk to a switch that no lab file describes: with the settings that its model has by
    default.
    """
    return dialect_of(cast(Switch, SWITCH_OSES[os].model_construct(os=os)))
