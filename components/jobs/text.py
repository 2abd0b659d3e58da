"""Objects as YAML for people."""

import yaml
from pydantic import JsonValue

from stacks.safe_yaml import DUMPER


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
