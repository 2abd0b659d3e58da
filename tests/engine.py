"""A recording engine: runs Pulumi code without a provider and keeps what it asked for."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pulumi
from pulumi.runtime import rpc, settings
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks, set_mocks
from pulumi.runtime.proto import resource_pb2, source_pb2
from pulumi.runtime.stack import Stack

PROJECT, STACK = "rocelab", "lab"
ROOT = "pulumi:pulumi:Stack"


@dataclass(frozen=True)
class Registration:
    """One resource as the program asked for it."""

    name: str
    type: str
    inputs: Mapping[str, Any]
    """Deserialised; a secret is the value itself, and its top-level key is in `secrets`."""
    secrets: frozenset[str]
    parent: str
    """Name of the parent; empty for the children of the stack."""
    depends_on: frozenset[str]
    """Names, from data flow and from the option alike."""
    protect: bool
    provider: str
    custom: bool
    retained: bool = False
    """Whether a destroy leaves it where it is."""
    ignored: frozenset[str] = frozenset()
    """Paths whose changes make no difference."""


@dataclass
class Recorded:
    """What happened while a program ran."""

    resources: dict[str, Registration] = field(default_factory=dict)
    hooks: dict[str, Any] = field(default_factory=dict)
    """Resource and error hooks by name; the engine would call them, a test may."""

    def __getitem__(self, name: str) -> Registration:
        return self.resources[name]

    def of_type(self, type_: str) -> dict[str, Registration]:
        """The registrations of one type by name."""
        return {name: seen for name, seen in self.resources.items() if seen.type == type_}


Answer = Callable[[str, str, Mapping[str, Any]], Mapping[str, Any]]
"""(type, name, inputs) -> what the provider adds to the outputs."""


class Engine:
    """Runs a program; `answer` plays the providers, and any lookup is refused unless `lookups` has it."""

    def __init__(self, answer: Answer | None = None, lookups: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._answer = answer or (lambda _type, _name, _inputs: {})
        self._lookups = lookups or {}

    def run(
        self, program: Callable[[], object], *, preview: bool = False, config: Mapping[str, str] | None = None
    ) -> Recorded:
        """Runs to the end, all registrations and applies included, so that absence can be asserted afterwards.

        In a context of its own, since the SDK keeps its settings in context variables: whatever a failed run leaves
        behind is seen by no other.
        """
        return contextvars.copy_context().run(self._run, program, preview, dict(config or {}))

    def _run(self, program: Callable[[], object], preview: bool, config: dict[str, str]) -> Recorded:
        recorded = Recorded()
        settings.reset_options()
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # a failure is raised below; the SDK's tasks would print it again
        asyncio.set_event_loop(loop)
        mocks = _Mocks(self._answer, self._lookups)
        monitor = _Monitor(mocks, recorded)
        set_mocks(mocks, project=PROJECT, stack=STACK, preview=preview, monitor=monitor)
        # the SDK serves hooks to a real engine only
        settings.SETTINGS.callbacks = _Hooks(recorded)  # type: ignore[assignment]  # two methods of it are used
        pulumi.runtime.set_all_config(config)
        _open_entrypoint()

        @pulumi.runtime.test  # type: ignore[untyped-decorator]
        def whole() -> Awaitable[object] | None:
            program()
            return _entrypoint()

        try:
            # the SDK would describe every frame of the stack, pytest's too, for each resource
            with mock.patch("pulumi.runtime.resource._get_stack_trace", new=source_pb2.StackTrace):
                whole()
        finally:
            _drain(loop)
            monitor.close()
            settings.reset_options()
            asyncio.set_event_loop(None)
            loop.close()
        return recorded


def _open_entrypoint() -> None:
    """Lets a program call `pulumi.run` once, which the SDK's mocks refuse."""
    stack = settings.get_root_resource()
    assert isinstance(stack, Stack)
    stack._async_program_registration_closed = False


def _entrypoint() -> Awaitable[object] | None:
    """What the program has passed to `pulumi.run`, begun; None if nothing."""
    stack = settings.get_root_resource()
    assert isinstance(stack, Stack)
    entrypoint = stack._take_async_program()
    return None if entrypoint is None else entrypoint()


def _drain(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what a failed run has left: collected later, its pieces would raise in the middle of another test."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())


class _Hooks:
    """Where the SDK registers hooks with a real engine."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    def register_resource_hook(self, hook: Any) -> None:
        self._recorded.hooks[hook.name] = hook

    def register_error_hook(self, hook: Any) -> None:
        self._recorded.hooks[hook.name] = hook


class _Mocks(Mocks):
    def __init__(self, answer: Answer, lookups: Mapping[str, Mapping[str, Any]]) -> None:
        self._answer, self._lookups = answer, lookups

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"{args.name}-id", {**args.inputs, **self._answer(args.typ, args.name, args.inputs)}

    def call(self, args: MockCallArgs) -> dict[Any, Any]:
        if args.token not in self._lookups:
            raise AssertionError(f"unexpected lookup {args.token}")
        return dict(self._lookups[args.token])


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks, recorded: Recorded) -> None:
        super().__init__(mocks)
        self._recorded = recorded
        self._loops: dict[threading.Thread, asyncio.AbstractEventLoop] = {}

    def close(self) -> None:
        """Ends the event loops of the worker threads, which have ended by then."""
        for loop in self._loops.values():
            loop.close()

    def _with_a_loop(self) -> None:
        """Gives a worker thread an event loop. The SDK's mock would make one for each call, and forget it.

        The garbage collector may take its sockets before the loop itself, whose end then fails: in whatever test runs
        by then.
        """
        thread = threading.current_thread()
        if thread is not threading.main_thread() and thread not in self._loops:
            self._loops[thread] = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loops[thread])

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> Any:  # noqa: N802  # the SDK's name
        self._with_a_loop()
        return super().Invoke(request)

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> Any:  # noqa: N802  # the SDK's name
        self._with_a_loop()
        return super().ReadResource(request)

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:  # noqa: N802  # the SDK's name
        self._with_a_loop()
        self._record(request)
        return super().RegisterResource(request)

    def _record(self, request: resource_pb2.RegisterResourceRequest) -> None:
        if request.type != ROOT:
            if request.name in self._recorded.resources:
                raise AssertionError(f"two resources are named {request.name}")
            raw = rpc.deserialize_properties(request.object, keep_unknowns=True)
            self._recorded.resources[request.name] = Registration(
                name=request.name,
                type=request.type,
                inputs={key: rpc.unwrap_rpc_secret(value) for key, value in raw.items()},
                secrets=frozenset(key for key, value in raw.items() if rpc.is_rpc_secret(value)),
                parent=_name(request.parent),
                depends_on=frozenset(_name(urn) for urn in request.dependencies),
                protect=request.protect,
                provider=_name(request.provider.rpartition("::")[0]),
                custom=request.custom,
                retained=request.retainOnDelete,
                ignored=frozenset(request.ignoreChanges),
            )


def _name(urn: str) -> str:
    """The logical name in a URN; empty for the stack itself."""
    return "" if not urn or f"::{ROOT}::" in urn else urn.rpartition("::")[2]


def dynamic_answer(type_: str, _name: str, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the provider yields: hosts that are ready, and a record that says nothing."""
    if type_.endswith(":Fleet"):
        return {"results": {}, "facts": {}, "vf_layout": "0123456789abcdef"}
    return {}
