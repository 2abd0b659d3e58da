"""The recording engine itself: a mock that loses things would make every other test worthless."""

import asyncio
import gc

import pulumi
import pytest

from tests.engine import Engine


class Box(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:test:Box", name, None, opts)
        self.first = Thing(f"{name}-first", {"secret": pulumi.Output.secret("x")}, pulumi.ResourceOptions(parent=self))
        Thing(f"{name}-second", {"after": self.first.urn}, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


class Thing(pulumi.CustomResource):
    def __init__(self, name: str, props: dict[str, object], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("test:index:Thing", name, props, opts)


def test_parents_data_flow_secrets_and_protection_are_recorded(engine: Engine) -> None:
    seen = engine.run(lambda: Box("box", pulumi.ResourceOptions(protect=True)))

    assert set(seen.resources) == {"box", "box-first", "box-second"}
    assert seen["box-second"].parent == "box"
    assert seen["box-second"].depends_on == {"box-first"}
    assert (seen["box-first"].inputs["secret"], seen["box-first"].secrets) == ("x", {"secret"})
    assert all(resource.protect for resource in seen.resources.values())


def test_a_name_used_twice_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match=r"(?s)two.*box-first|box-first.*two"):
        engine.run(lambda: (Box("box"), Thing("box-first", {})))


def test_an_error_in_an_apply_fails_the_run(engine: Engine) -> None:
    def program() -> None:
        Thing("thing", {}).urn.apply(lambda urn: pytest.fail("reached"))

    with pytest.raises(BaseException, match="reached"):
        engine.run(program)


def test_two_runs_in_one_process_are_independent(engine: Engine) -> None:
    assert set(engine.run(lambda: Thing("one", {})).resources) == {"one"}
    assert set(engine.run(lambda: Thing("two", {})).resources) == {"two"}


def test_no_run_leaves_an_event_loop_behind_not_even_one_that_fails(engine: Engine) -> None:
    """The garbage collector would end it within another test, in an order of its own, and fail that one."""
    before = open_loops()

    engine.run(lambda: Box("box"))
    with pytest.raises(Exception, match=r"(?s)two.*box-first|box-first.*two"):
        engine.run(lambda: (Box("box"), Thing("box-first", {})))

    assert [loop for loop in open_loops() if loop not in before] == []


def open_loops() -> list[asyncio.BaseEventLoop]:
    objects = gc.get_objects()
    # there are a million of them, of a few thousand types
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, asyncio.BaseEventLoop)}
    return [thing for thing in objects if type(thing) in kinds and not thing.is_closed()]
