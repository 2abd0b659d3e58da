"""The comparison with the live object: a check that finds nothing must be able to find something."""

from tests.components.cluster.readback import missing

SENT = {"spec": {"config": "x", "list": [{"a": 1}, {"b": 2}], "status": {}}}


def test_what_the_server_adds_does_not_count() -> None:
    live = {"spec": {**SENT["spec"], "default": 1}, "status": {"phase": "y"}}

    assert list(missing(SENT, live)) == []


def test_a_pruned_field_is_found_where_it_was() -> None:
    live = {"spec": {"config": "x", "list": [{"a": 1}, {}]}}

    assert list(missing(SENT, live)) == [".spec.list[1].b is gone", ".spec.status is gone"]


def test_a_changed_value_and_a_shorter_list_are_found() -> None:
    live = {"spec": {"config": "y", "list": [{"a": 1}], "status": {}}}

    found = list(missing(SENT, live))
    assert found[0] == ".spec.config: 'x' has become 'y'"
    assert found[1].startswith(".spec.list: ")
