"""Properties of our dynamic resources as the engine hands them back. Knows no Pulumi."""

Props = dict[str, object]


def whole(value: object) -> dict[str, object]:
    """A mapping: the engine keeps every number as a float, and ours are whole."""
    found = value if isinstance(value, dict) else {}
    return {str(key): int(one) if isinstance(one, float) else one for key, one in found.items()}


def names(props: Props, key: str) -> list[str]:
    """A list of words; empty where it is not known yet."""
    found = props.get(key)
    return [str(one) for one in found] if isinstance(found, list) else []


def words(props: Props, key: str) -> dict[str, str]:
    """A mapping to words, without those that are not known yet."""
    return {name: value for name, value in whole(props.get(key)).items() if isinstance(value, str)}
