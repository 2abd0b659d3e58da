"""YAML in and out through PyYAML's safe loader and dumper, in C where the build has them: a tenth of the time.

PyYAML's wheels are built with libyaml; other builds may not be.
"""

from functools import lru_cache
from typing import Any

import yaml

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
