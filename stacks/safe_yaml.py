"""YAML in and out through PyYAML's safe loader and dumper, in C where the build has them: a tenth of the time.

PyYAML's wheels are built with libyaml; other builds may not be.
"""

from functools import lru_cache
from typing import Any

import yaml
from pydantic import JsonValue

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load_yaml(text: str) -> Any:
    """The first document of a text.

    Raises:
        yaml.YAMLError: when the text is not YAML, with `problem_mark` where it stops.
    """
    return yaml.load(text, Loader=LOADER)  # noqa: S506  # both loaders are safe


@lru_cache(maxsize=1)
def compose_yaml(text: str) -> yaml.Node | None:
    """The first document as nodes that know their lines. Kept for the next question about the same text.

    Raises:
        yaml.YAMLError: when the text is not YAML.
    """
    return yaml.compose(text, Loader=LOADER)


class _PlainDumper(DUMPER):  # type: ignore[misc]  # one of two classes, by what PyYAML was built with
    """Repeats what appears in several places: a reviewer should not have to follow anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A script in its own lines, not as one quoted string."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_PlainDumper.add_representer(str, _represent_text)


def to_yaml(document: JsonValue) -> str:
    """The document in its own order."""
    return str(yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=120))
