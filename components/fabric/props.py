"""Properties of dynamic resources as the engine hands them back. Does not import Pulumi."""

Props = dict[str, object]


def mapping(value: object) -> dict[str, object]:
    """A mapping. The engine keeps every number as a float, and ours are integers."""
    found = value if isinstance(value, dict) else {}
    return {str(key): int(item) if isinstance(item, float) else item for key, item in found.items()}


def strings(props: Props, key: str) -> list[str]:
    """A list of strings; empty while it is unknown."""
    found = props.get(key)
    return [str(item) for item in found] if isinstance(found, list) else []


def string_map(props: Props, key: str) -> dict[str, str]:
    """A mapping to strings, without values that are still unknown."""
    return {name: value for name, value in mapping(props.get(key)).items() if isinstance(value, str)}
