"""YAML in and out through PyYAML's safe loader and dumper, in C where the build has them: a tenth
of the time.

PyYAML's wheels are built with libyaml; other builds may not be.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue
from yaml.constructor import ConstructorError

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SAFE_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

PLAIN_SCALARS = {
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "null": (("~", "n", "N", ""), r"~|null|Null|NULL|"),
    "merge": ("<", r"<<"),
    "int": ("-+0123456789", r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)"),
    "float": (
        "-+.0123456789",
        (
            r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
    ),
}
"""First letters and form of plain scalars that are not text, as Pulumi reads them (`resolve.go` of
yaml.v3).

Text are therefore `off`, `22:22` and dates, which YAML 1.1 and PyYAML read as a boolean, a number
and dates.
"""


# PyYAML was built with one of two classes
class _PulumiLoader(LOADER):  # type: ignore[misc]
    """Reads a stack file as Pulumi does."""

    # PyYAML's own name
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked: set[yaml.MappingNode] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuses repeated keys, before the pairs that a merge adds are among them."""
        if node not in self._checked:
            self._checked.add(node)
            lines: dict[str, int] = {}
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
                if key.value in lines:
                    problem = (
                        f"key {key.value} is already set at line {lines[key.value]}; remove one"
                    )
                    raise ConstructorError(None, None, problem, key.start_mark)
                lines[key.value] = key.start_mark.line + 1
        super().flatten_mapping(node)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Whole numbers are integers in the JSON that a program gets from Pulumi: `1e3` is 1000."""
        number: float = super().construct_yaml_float(node)
        return int(number) if number.is_integer() else number


class _Dumper(_SAFE_DUMPER):  # type: ignore[misc]
    """Quotes what Pulumi reads as a number, such as the PCI vendor 19e5, and what YAML 1.1 does."""


DUMPER = _Dumper

for _name, (_letters, _form) in PLAIN_SCALARS.items():
    _tag, _pattern = f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_form})\Z")
    _PulumiLoader.add_implicit_resolver(_tag, _pattern, _letters)
    _Dumper.add_implicit_resolver(_tag, _pattern, _letters)
_PulumiLoader.add_constructor("tag:yaml.org,2002:float", _PulumiLoader.construct_yaml_float)


def load_yaml(text: str) -> Any:
    """The first document of a text that people write for rocelab.

    Raises:
        yaml.YAMLError: when the text is not YAML, with `problem_mark` where it stops.
    """
    try:
        return yaml.load(text, Loader=_PulumiLoader)  # noqa: S506  # both its bases are safe
    except (
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:  # from PyYAML's constructors
        raise yaml.YAMLError(f"a value cannot be read ({error})") from None


def load_beside(module_file: str, name: str) -> Any:
    """A YAML file of ours in the folder of a module."""
    return load_yaml(Path(module_file).with_name(name).read_text())


def load_kubernetes_yaml(text: str) -> Any:
    """The first document of a text as Kubernetes reads it: YAML 1.1, where `no` is false.

    Raises:
        yaml.YAMLError: when the text is not YAML.
    """
    return yaml.load(text, Loader=LOADER)  # noqa: S506  # both loaders are safe


@lru_cache(maxsize=1)
def compose_yaml(text: str) -> yaml.Node | None:
    """The first document as nodes that know their lines. Kept for the next question about the same
    text.

    Raises:
        yaml.YAMLError: when the text is not YAML.
    """
    return yaml.compose(text, Loader=LOADER)


class _PlainDumper(_Dumper):
    """Repeats what appears in several places: a reviewer should not have to follow anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A script in its own lines, not as one quoted string."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_PlainDumper.add_representer(str, _represent_text)


def to_yaml(document: JsonValue) -> str:
    """The document in its own order."""
    return str(yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=120))
