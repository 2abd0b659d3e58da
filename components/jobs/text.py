"""Objects as YAML for people."""

import yaml
from pydantic import JsonValue

from stacks.safe_yaml import DUMPER


class _PlainDumper(DUMPER):
    """Writes what stands in several places in each of them: a reviewer should not have to follow anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def to_yaml(document: JsonValue) -> str:
    """The document in its own order."""
    return str(yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=120))
