"""Serves the resources to the engine: the only file that knows Pulumi's provider protocol.

Every provider speaks it. Why not the SDK's own server: docs/decisions/0014-own-provider.md.
"""

# ruff: noqa: N802  (the protocol names the methods)

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent import futures
from contextlib import suppress
from importlib.util import find_spec
from threading import get_ident
from types import ModuleType
from typing import Any, NamedTuple

# grpc and protobuf ship no types
import grpc  # type: ignore[import-untyped]
from google.protobuf import any_pb2, empty_pb2, struct_pb2  # type: ignore[import-untyped]
from pydantic import ValidationError

BARE = [] if "pulumi" in sys.modules else ["pulumi", "pulumi.runtime"]
for name in BARE:  # without `__init__`: the rest of the SDK would double what is loaded
    spec = find_spec(name)
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = list(spec.submodule_search_locations or ()) if spec else []
from pulumi.runtime.proto import (  # noqa: E402
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)

for name in BARE:
    del sys.modules[name]

from components.provider import log  # noqa: E402
from components.provider.base import (  # noqa: E402
    REPLACES,
    SECRET,
    UNKNOWN,
    Failure,
    PartialError,
    Properties,
    ProviderConfig,
    Resource,
    UnknownValueError,
    changed,
)
from components.provider.resources import VERSION, resource_class  # noqa: E402
from stacks.base import LabError  # noqa: E402

AnyResource = Resource[Any, Any]

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Marks of secrets and unknown values (pulumi/pulumi, `sdk/go/common/resource/plugin/rpc.go`)."""

DIFF_NONE, DIFF_SOME = provider_pb2.DiffResponse.DIFF_NONE, provider_pb2.DiffResponse.DIFF_SOME
PropertyDiff = provider_pb2.PropertyDiff
Running = tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]

THREADS = 64 + 8
"""The environment of `make env` lets the engine start 64 operations at a time. The other threads
are for its checks and for `Cancel`, which must not wait until an operation ends."""
PARENT_POLL_S = 0.5
GRACE_S = 4.0
"""How long operations may clean up; the engine kills a provider five seconds after its signal."""
CANCELLED = "cancelled; the next run continues with what is there"


class Unpacked(NamedTuple):
    """Properties from the wire, without marks and without what others add (`__defaults`)."""

    values: dict[str, Any]
    secrets: set[str]
    """Names of the properties that contain a secret."""


def unpack(struct: Any) -> Unpacked:
    """An input that contains an unknown value is `UNKNOWN` as a whole."""
    values, secrets = {}, set()
    for name, value in struct.fields.items():
        if name.startswith("__"):
            continue
        marks: set[str] = set()
        plain = _plain(value, marks)
        if UNKNOWN_TEXT in marks:
            plain = UNKNOWN
        if SECRET_SIGNATURE in marks:
            secrets.add(name)
        if plain is not None:
            values[name] = plain
    return Unpacked(values, secrets)


def _plain(value: Any, marks: set[str]) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        fields = value.struct_value.fields
        if SIGNATURE not in fields:
            return {name: _plain(item, marks) for name, item in fields.items()}
        marks.add(fields[SIGNATURE].string_value)
        return _plain(fields["value"], marks)
    if kind == "list_value":
        return [_plain(item, marks) for item in value.list_value.values]
    if kind == "null_value":
        return None
    plain = getattr(value, kind)
    if kind == "number_value" and plain.is_integer():
        plain = int(plain)
    if plain == UNKNOWN_TEXT:
        marks.add(UNKNOWN_TEXT)
    return plain


def pack(values: Mapping[str, Any], secrets: Collection[str]) -> Any:
    """The reverse of `unpack`."""
    struct = struct_pb2.Struct()
    for name, value in values.items():
        if name in secrets:
            struct.update({name: {SIGNATURE: SECRET_SIGNATURE, "value": value}})
        else:
            struct.update({name: value})
    return struct


class _Status(NamedTuple):
    """What `grpc.Status` asks for."""

    code: Any
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]


Handler = Callable[["Servicer", Any], Coroutine[Any, Any, Any]]


def operation(handle: Handler) -> Callable[["Servicer", Any, Any], Any]:
    """A call of the protocol: errors become messages, and a cancelled run ends it."""

    def serve(servicer: "Servicer", request: Any, context: Any) -> Any:
        log.URN.set(getattr(request, "urn", ""))
        try:
            return servicer.run(handle(servicer, request))
        except asyncio.CancelledError:
            context.abort(grpc.StatusCode.CANCELLED, CANCELLED)
        except PartialError as error:
            context.abort_with_status(servicer.partial(request, error))
        except LabError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except Exception:  # noqa: BLE001  (the person who reports it needs the place)
            context.abort(grpc.StatusCode.UNKNOWN, traceback.format_exc())

    return serve


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The calls that this provider answers; the others are refused as unimplemented."""

    def __init__(self, stack_config: Mapping[str, object], engine: str = "") -> None:
        self._stack_config = stack_config
        self._engine = engine
        self._config = ProviderConfig({})
        self._running: dict[int, Running] = {}

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, _request: Any, _context: Any) -> Any:
        # here: it imports the component
        from components.provider.schema import package_schema  # noqa: PLC0415

        return provider_pb2.GetSchemaResponse(schema=json.dumps(package_schema()))

    def CheckConfig(self, request: Any, _context: Any) -> Any:
        """Keeps the configuration out of the state; a default provider has the current one."""
        kept = struct_pb2.Struct() if self._is_current(request) else request.news
        return provider_pb2.CheckResponse(inputs=kept)

    def DiffConfig(self, _request: Any, _context: Any) -> Any:
        """Leaves the comparison to the engine: nothing replaces a provider."""
        return provider_pb2.DiffResponse()

    def Configure(self, request: Any, _context: Any) -> Any:
        """A default provider uses the stack's current configuration, also in a refresh or destroy.

        There the engine passes that of the last `up`, before a key may have been rotated.
        """
        settings = self._stack_config if self._is_current(request) else unpack(request.args).values
        self._config = ProviderConfig(settings)
        return provider_pb2.ConfigureResponse(acceptSecrets=True)

    def Cancel(self, _request: Any, _context: Any) -> Any:
        self.cancel()
        return empty_pb2.Empty()

    @operation
    async def Check(self, request: Any) -> Any:
        resource, news, olds = self._resource(request), unpack(request.news), unpack(request.olds)
        try:
            new = resource.inputs.model_validate(news.values)
        except ValidationError as error:
            failures = _failures(_faults(error))
            return provider_pb2.CheckResponse(inputs=request.news, failures=failures)
        try:
            old = resource.inputs.model_validate(olds.values) if olds.values else None
        except ValidationError:  # another version wrote them
            old = None
        try:
            new = await resource.complete(old, new)
            refused = list(await resource.check(old, new))
        except UnknownValueError:
            refused = []
        inputs = dict.fromkeys(new.unknown, UNKNOWN_TEXT) | new.plain()
        secrets = news.secrets | resource.inputs.marked(SECRET)
        return provider_pb2.CheckResponse(inputs=pack(inputs, secrets), failures=_failures(refused))

    @operation
    async def Diff(self, request: Any) -> Any:
        resource = self._resource(request)
        old = _state(resource, request.olds)
        new = resource.inputs.model_validate(unpack(request.news).values)
        try:
            names = list(await resource.diff(old, new))
        except UnknownValueError:
            names = changed(old, new)
        replaces = sorted(resource.inputs.marked(REPLACES).intersection(names))
        before, after = old.plain(), new.plain()
        detailed: dict[str, Any] = {}
        for name in names:
            kinds = differences(name, before.get(name), after.get(name, UNKNOWN))
            for path, kind in kinds.items():
                word = f"{kind}_REPLACE" if name in replaces else kind
                detailed[path] = PropertyDiff(kind=PropertyDiff.Kind.Value(word))
        changes = DIFF_SOME if names else DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=changes,
            diffs=names,
            replaces=replaces,
            deleteBeforeReplace=resource.delete_before_replace,
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    @operation
    async def Create(self, request: Any) -> Any:
        resource, news = self._resource(request), unpack(request.properties)
        state = await resource.create(resource.inputs.model_validate(news.values))
        name = resource.identify(state) or request.name
        return provider_pb2.CreateResponse(id=name, properties=_packed_state(state, news.secrets))

    @operation
    async def Read(self, request: Any) -> Any:
        resource, olds = self._resource(request), unpack(request.properties)
        if not olds.values:
            raise LabError(f"{request.type} cannot be imported: only `pulumi up` makes it")
        state = await resource.read(_state(resource, request.properties))
        if state is None:
            return provider_pb2.ReadResponse()
        properties = _packed_state(state, olds.secrets)
        read = _packed_state(resource.inputs_of(state), olds.secrets)
        inputs = struct_pb2.Struct()
        for name in resource.inputs.model_fields.keys() & read.fields.keys():
            inputs.fields[name].CopyFrom(read.fields[name])
        return provider_pb2.ReadResponse(id=request.id, properties=properties, inputs=inputs)

    @operation
    async def Update(self, request: Any) -> Any:
        resource, news = self._resource(request), unpack(request.news)
        new = resource.inputs.model_validate(news.values)
        state = await resource.update(_state(resource, request.olds), new)
        return provider_pb2.UpdateResponse(properties=_packed_state(state, news.secrets))

    @operation
    async def Delete(self, request: Any) -> Any:
        resource = self._resource(request)
        await resource.delete(_state(resource, request.properties))
        return empty_pb2.Empty()

    @operation
    async def Construct(self, request: Any) -> Any:
        # here: it imports the program of a lab, and the rest of the SDK
        from components.provider.construct import construct  # noqa: PLC0415

        return await construct(request, self._config, self._engine)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs work that `cancel` can end; it ends with the threads that it has started."""
        try:
            return asyncio.run(self._cancellable(work))
        finally:
            self._running.pop(get_ident(), None)

    async def _cancellable(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.ensure_future(work)
        self._running[get_ident()] = asyncio.get_running_loop(), task
        return await task

    def cancel(self) -> None:
        """Cancels all operations; what blocks instead of awaiting runs to its end."""
        for loop, task in list(self._running.values()):
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(_cancel_once, task)

    def end(self) -> None:
        """Ends the process, after the operations that can still clean up."""
        self.cancel()
        until_s = time.monotonic() + GRACE_S
        while self._running and time.monotonic() < until_s:
            time.sleep(0.05)
        os._exit(0)

    def partial(self, request: Any, error: PartialError) -> _Status:
        """The status of an operation that failed halfway, with the state that it left."""
        name = getattr(request, "id", "")
        name = name or self._resource(request).identify(error.state) or request.name
        given = request.news if hasattr(request, "news") else request.properties
        secrets = unpack(given).secrets
        detail = provider_pb2.ErrorResourceInitFailed(
            id=name,
            properties=_packed_state(error.state, secrets),
            inputs=given,
            reasons=[str(error)],
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        code = grpc.StatusCode.UNKNOWN
        status = status_pb2.Status(code=code.value[0], message=str(error), details=[packed])
        return _Status(code, str(error), (("grpc-status-details-bin", status.SerializeToString()),))

    def _is_current(self, request: Any) -> bool:
        """Whether the stack's configuration is this provider's, because no program made it."""
        return request.name.startswith("default") and bool(self._stack_config)

    def _resource(self, request: Any) -> AnyResource:
        return resource_class(request.type)(self._config)


def _cancel_once(task: asyncio.Task[Any]) -> None:
    """A second signal must not interrupt the cleanup that the first one began."""
    if not task.cancelling():
        task.cancel()


def differences(path: str, before: object, after: object) -> dict[str, str]:
    """ADD, DELETE or UPDATE by path, as `ports["1/1"].mtu_bytes`; UPDATE to what is unknown."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        nested: dict[str, str] = {}
        for key in sorted({*before, *after}):
            inner = f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"
            nested |= differences(inner, before.get(key), after.get(key))
        return nested
    if before == after:
        return {}
    if before is None:
        return {path: "ADD"}
    return {path: "DELETE" if after is None else "UPDATE"}


def _faults(error: ValidationError) -> list[Failure]:
    return [Failure(".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors()]


def _failures(failures: list[Failure]) -> list[Any]:
    return [provider_pb2.CheckFailure(property=it.property, reason=it.reason) for it in failures]


def _state(resource: AnyResource, struct: Any) -> Properties:
    try:
        return resource.state.model_validate(unpack(struct).values)
    except ValidationError as error:
        fault = _faults(error)[0]
        raise LabError(
            f"another version of rocelab wrote this resource's state ({fault.property}: "
            f"{fault.reason}). Destroy the stack with that version first; CHANGELOG.md says "
            "which versions are compatible"
        ) from None


def _packed_state(state: Properties, secrets: Collection[str]) -> Any:
    return pack(state.plain(), {*secrets, *state.marked(SECRET)})


def _log_to(engine: str) -> Callable[[str, str, str], None]:
    """Sends messages to the engine at this address."""
    severities = {"info": engine_pb2.INFO, "warning": engine_pb2.WARNING}
    stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine))

    def send(severity: str, message: str, urn: str) -> None:
        with suppress(grpc.RpcError):  # an engine that is gone reads nothing
            stub.Log(engine_pb2.LogRequest(severity=severities[severity], message=message, urn=urn))

    return send


def main() -> None:
    """Arguments: options of the engine, which are ignored, then its address."""
    parent = os.getppid()
    # out of the environment, where each process that starts from here would see the stack's secrets
    servicer = Servicer(json.loads(os.environ.pop("PULUMI_CONFIG", "{}")), sys.argv[-1])
    signal.signal(signal.SIGINT, lambda *_: servicer.end())
    signal.signal(signal.SIGTERM, lambda *_: servicer.end())
    log.send = _log_to(sys.argv[-1])
    threads = futures.ThreadPoolExecutor(max_workers=THREADS)
    server = grpc.server(threads, options=[("grpc.max_receive_message_length", -1)])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    servicer.end()
