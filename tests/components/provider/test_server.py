"""The provider's calls without an engine; tests/engine/test_provider.py has the engine."""

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any, NoReturn

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, status_pb2
from pydantic import Field

from components.provider import log
from components.provider.base import REPLACES, SECRET, Failure, PartialError, Properties, ProviderConfig, Resource
from components.provider.resources import RESOURCES, VERSION
from components.provider.server import THREADS, UNKNOWN_TEXT, Servicer, differences, pack, unpack
from engine.environment import PARALLEL
from stacks.base import LabError, Section
from tests.conftest import ROOT
from tests.messages import states

TYPE = "rocelab:probe:Wire"
URN = f"urn:pulumi:t::probe::{TYPE}::wire"


class Bend(Section):
    angle: int = 90


class WireInputs(Properties):
    length_m: int
    place: Annotated[str, REPLACES] = "rack"
    code: Annotated[str, SECRET] = ""
    bends: dict[str, Bend] = Field(default_factory=dict)


class WireState(WireInputs):
    serial: str


class Wire(Resource[WireInputs, WireState]):
    async def check(self, old: WireInputs | None, new: WireInputs) -> Iterator[Failure]:
        return iter([Failure("length_m", "longer than 100 m")] if new.length_m > 100 else [])

    async def create(self, new: WireInputs) -> WireState:
        log.warn("it is cut")
        state = WireState(**dict(new), serial=str(self.config.get("serial")))
        if new.place == "roof":
            raise LabError("place: roof: no wire survives there; use rack")
        if new.place == "floor":
            raise PartialError("the connector is missing", state)
        return state

    def identify(self, state: WireState) -> str:
        return state.serial


class RefusedCallError(Exception):
    """What `abort` ends a call with."""


class Context:
    """The context of a call; keeps how it was aborted."""

    code: grpc.StatusCode
    details: str
    metadata: tuple[tuple[str, bytes], ...] = ()

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.code, self.details = code, details
        raise RefusedCallError(details)

    def abort_with_status(self, status: Any) -> NoReturn:
        self.metadata = status.trailing_metadata
        self.abort(status.code, status.details)


@pytest.fixture
def servicer(monkeypatch: pytest.MonkeyPatch) -> Servicer:
    monkeypatch.setitem(RESOURCES, TYPE, f"{__name__}:Wire")
    servicer = Servicer({"serial": "current"})
    servicer.Configure(provider_pb2.ConfigureRequest(name="default", args=pack({"serial": "of the state"}, ())), None)
    return servicer


def call(servicer: Servicer, method: str, context: Context | None = None, **fields: Any) -> Any:
    request = getattr(provider_pb2, f"{method}Request")(urn=URN, type=TYPE, name="wire", **fields)
    return getattr(servicer, method)(request, context or Context())


def properties(**values: object) -> struct_pb2.Struct:
    return pack({"length_m": 5, **values}, ())


def diff(servicer: Servicer, before: dict[str, object], **after: object) -> Any:
    olds = properties(**{"serial": "1", "place": "rack", "code": "", "bends": {}, **before})
    return call(servicer, "Diff", id="1", olds=olds, news=properties(**after))


def test_values_come_back_from_the_wire_with_their_types_and_marks() -> None:
    values = {"count": 3, "ratio": 0.5, "names": ["a"], "deep": {"on": True, "none": None}, "pin": "4711"}

    found = unpack(pack({**values, "__defaults": []}, {"pin"}))

    assert found.values == values
    assert [type(found.values[name]) for name in ("count", "ratio")] == [int, float]
    assert found.secrets == {"pin"}


def test_a_wrong_type_and_a_wrong_value_are_refused_by_property(servicer: Servicer) -> None:
    wrong = call(servicer, "Check", news=pack({"length_m": "long", "color": "red"}, ()))
    long = call(servicer, "Check", news=properties(length_m=200))

    assert {failure.property for failure in wrong.failures} == {"length_m", "color"}
    assert [(failure.property, failure.reason) for failure in long.failures] == [("length_m", "longer than 100 m")]


def test_an_input_that_a_preview_does_not_know_is_neither_refused_nor_lost(servicer: Servicer) -> None:
    checked = call(servicer, "Check", news=pack({"length_m": UNKNOWN_TEXT, "place": "rack"}, ()))
    changed = diff(servicer, {}, length_m=UNKNOWN_TEXT)

    assert not checked.failures
    assert checked.inputs["length_m"] == UNKNOWN_TEXT
    assert changed.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert set(changed.detailedDiff) == {"length_m"}


def test_a_difference_is_named_by_its_path_and_replaces_only_where_the_field_says_so(servicer: Servicer) -> None:
    bent = diff(servicer, {"bends": {"1/1": {"angle": 45}}}, bends={"1/1": {"angle": 30}})
    moved = diff(servicer, {}, place="wall")
    same = diff(servicer, {}, bends={})

    assert dict(bent.detailedDiff) == {'bends["1/1"].angle': provider_pb2.PropertyDiff(kind="UPDATE")}
    assert list(bent.replaces) == []
    assert dict(moved.detailedDiff) == {"place": provider_pb2.PropertyDiff(kind="UPDATE_REPLACE")}
    assert list(moved.replaces) == ["place"]
    assert same.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_a_key_that_joins_is_an_addition_and_one_that_leaves_a_deletion() -> None:
    assert differences("ports", {"a": 1, "b": 2}, {"b": 2, "c": 3}) == {"ports.a": "DELETE", "ports.c": "ADD"}


def test_a_default_provider_uses_the_stack_s_current_configuration_and_another_its_own(servicer: Servicer) -> None:
    default = call(servicer, "Create", properties=properties())
    servicer.Configure(provider_pb2.ConfigureRequest(name="mine", args=pack({"serial": "own"}, ())), None)
    explicit = call(servicer, "Create", properties=properties())

    assert (default.id, explicit.id) == ("current", "own")


def test_only_a_provider_that_a_program_makes_keeps_its_configuration_in_the_state(servicer: Servicer) -> None:
    news = pack({"serial": "given"}, ())
    default = servicer.CheckConfig(provider_pb2.CheckRequest(name="default", news=news), None)
    explicit = servicer.CheckConfig(provider_pb2.CheckRequest(name="mine", news=news), None)

    assert unpack(default.inputs).values == {}
    assert unpack(explicit.inputs).values == {"serial": "given"}


def test_a_secret_of_the_class_or_of_the_program_stays_one_in_the_state(servicer: Servicer) -> None:
    made = call(servicer, "Create", properties=pack({"length_m": 5, "code": "4711", "place": "shelf"}, {"place"}))

    assert unpack(made.properties).secrets == {"code", "place"}


def test_an_error_of_the_lab_is_its_text_and_a_fault_of_the_code_a_traceback(servicer: Servicer) -> None:
    plain, fault = Context(), Context()
    with pytest.raises(RefusedCallError):
        call(servicer, "Create", plain, properties=properties(place="roof"))
    with pytest.raises(RefusedCallError):
        call(servicer, "Create", fault, properties=pack({}, ()))

    assert plain.code == grpc.StatusCode.FAILED_PRECONDITION
    assert plain.details == "place: roof: no wire survives there; use rack"
    assert fault.code == grpc.StatusCode.UNKNOWN
    assert fault.details.startswith("Traceback")


def test_a_failure_halfway_carries_the_state_and_its_id(servicer: Servicer) -> None:
    context = Context()
    with pytest.raises(RefusedCallError):
        call(servicer, "Create", context, properties=properties(place="floor"))

    status = status_pb2.Status.FromString(dict(context.metadata)["grpc-status-details-bin"])
    left = provider_pb2.ErrorResourceInitFailed()
    status.details[0].Unpack(left)
    assert (left.id, list(left.reasons)) == ("current", ["the connector is missing"])
    assert unpack(left.properties).values["serial"] == "current"


def test_state_of_another_version_is_refused_with_the_remedy(servicer: Servicer) -> None:
    context = Context()
    with pytest.raises(RefusedCallError):
        call(servicer, "Delete", context, id="1", properties=properties(__provider="code", length_km=1))

    assert states(context.details, "serial", "Destroy", "CHANGELOG.md")


def test_an_import_is_refused_by_type(servicer: Servicer) -> None:
    context = Context()
    with pytest.raises(RefusedCallError):
        call(servicer, "Read", context, id="1")

    assert states(context.details, TYPE, "cannot be imported")


def test_a_refresh_shows_the_state_as_inputs_too(servicer: Servicer) -> None:
    found = call(servicer, "Read", id="1", properties=properties(serial="1", place="wall"))

    assert (found.id, unpack(found.inputs).values) == ("1", {"length_m": 5, "place": "wall", "code": "", "bends": {}})


def test_a_message_names_the_resource(servicer: Servicer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(log, "send", lambda *words: sent.append(words))

    call(servicer, "Create", properties=properties())

    assert sent == [("warning", "it is cut", URN)]


def begin(servicer: Servicer, work: Coroutine[Any, Any, None]) -> Thread:
    def run() -> None:
        with suppress(asyncio.CancelledError):
            servicer.run(work)

    thread = Thread(target=run)
    thread.start()
    return thread


def test_a_second_signal_does_not_interrupt_the_cleanup_that_the_first_one_began() -> None:
    servicer, begun, cleaning, cleaned = Servicer({}), Event(), Event(), Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaning.set()
            await asyncio.sleep(0.1)
            cleaned.set()

    thread = begin(servicer, work())
    for event in (begun, cleaning):
        assert event.wait(5)
        servicer.cancel()
    thread.join(5)

    assert cleaned.is_set()


def test_the_process_ends_after_the_threads_that_still_delete_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    servicer, begun, stop = Servicer({}), Event(), Event()
    order: list[str] = []
    monkeypatch.setattr(os, "_exit", lambda _: order.append("exit"))

    def in_cluster() -> None:
        begun.set()
        stop.wait(5)
        time.sleep(0.1)
        order.append("deleted")

    async def work() -> None:
        try:
            await asyncio.to_thread(in_cluster)
        finally:
            stop.set()

    thread = begin(servicer, work())
    assert begun.wait(5)
    servicer.end()
    thread.join(5)

    assert order == ["deleted", "exit"]


def test_a_cancel_finds_a_free_thread_while_as_many_operations_run_as_the_engine_starts() -> None:
    assert THREADS > PARALLEL


def test_a_resource_without_read_is_kept_and_without_delete_forgotten() -> None:
    class Plain(Resource[WireInputs, WireState]):
        """Nothing is overridden."""

    state = WireState(length_m=1, serial="1")
    plain = Plain(ProviderConfig({}))

    assert asyncio.run(plain.read(state)) == state
    assert asyncio.run(plain.delete(state)) is None


def test_the_version_is_that_of_the_package() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()


def test_each_type_of_the_provider_exists_where_it_is_listed() -> None:
    for place in RESOURCES.values():
        module, _, name = place.partition(":")
        assert f"class {name}(Resource[" in (ROOT / Path(*module.split("."))).with_suffix(".py").read_text()
