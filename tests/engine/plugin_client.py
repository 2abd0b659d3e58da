"""Talks to a resource plugin as the engine does: gRPC, without the CLI in between."""

import subprocess
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc
from ssh_host import wait_until

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Properties = dict[str, Any]

LONGEST_S = 120


class Logged(engine_pb2_grpc.EngineServicer):
    """The engine's end: keeps what the plugin logs."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    # Named by the protocol.
    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        self.messages.append(request.message)
        return empty_pb2.Empty()


class Plugin:
    """A running plugin; `close` ends it."""

    def __init__(self, program: Path, cwd: Path, env: dict[str, str], settings: dict[str, str] | None = None) -> None:
        self.log = Logged()
        self._engine = grpc.server(futures.ThreadPoolExecutor(4))
        engine_pb2_grpc.add_EngineServicer_to_server(self.log, self._engine)
        address = f"127.0.0.1:{self._engine.add_insecure_port('127.0.0.1:0')}"
        self._engine.start()
        self.process = subprocess.Popen(
            [program, address], cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        self._channel = grpc.insecure_channel(f"127.0.0.1:{int(self.process.stdout.readline())}")
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        self._stub.Configure(
            provider_pb2.ConfigureRequest(
                acceptSecrets=True, acceptResources=True, sends_old_inputs=True, variables=settings or {}
            )
        )

    def close(self) -> None:
        self._channel.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self._engine.stop(None)

    def version(self) -> str:
        info: plugin_pb2.PluginInfo = self._stub.GetPluginInfo(empty_pb2.Empty())
        return info.version

    def check(self, type_: str, inputs: Properties, old: Properties | None = None) -> tuple[Properties, list[str]]:
        """The inputs with their defaults, and the reasons of a refusal."""
        request = provider_pb2.CheckRequest(urn=urn(type_), news=struct(inputs), olds=struct(old or {}))
        answer = self._stub.Check(request)
        return MessageToDict(answer.inputs), [failure.reason for failure in answer.failures]

    def diff(self, type_: str, old: Properties, new: Properties) -> tuple[str, set[str]]:
        """What a change does (`none`, `update` or `replace`), and the top-level properties that changed.

        The SDK adds `replace_on_changes=["triggers[*]"]` to each resource, which the engine applies to the answer.
        """
        old_inputs, new_inputs = self.check(type_, old)[0], self.check(type_, new)[0]
        state = old_inputs | {"stdout": "", "stderr": ""}
        request = provider_pb2.DiffRequest(
            id="x", urn=urn(type_), olds=struct(state), news=struct(new_inputs), old_inputs=struct(old_inputs)
        )
        answer = self._stub.Diff(request)
        kinds = {path: detail.kind for path, detail in answer.detailedDiff.items()}
        replaces = [
            path
            for path, kind in kinds.items()
            if provider_pb2.PropertyDiff.Kind.Name(kind).endswith("REPLACE") or path.startswith("triggers[")
        ]
        changed = {path.split(".")[0].split("[")[0] for path in kinds}
        if answer.changes != provider_pb2.DiffResponse.DIFF_SOME:
            return "none", changed
        return ("replace" if replaces or answer.replaces else "update"), changed

    def create(self, type_: str, inputs: Properties, *, preview: bool = False, timeout_s: float = 0) -> Properties:
        """The new resource's outputs; its ID under `id`."""
        checked = self.check(type_, inputs)[0]
        request = provider_pb2.CreateRequest(
            urn=urn(type_), name="web", type=type_, properties=struct(checked), preview=preview, timeout=timeout_s
        )
        answer = self._stub.Create(request, timeout=LONGEST_S)
        return MessageToDict(answer.properties) | {"id": answer.id}

    def construct(self, type_: str) -> None:
        """Makes a component resource; the provider's error, if it has one, is raised."""
        self._stub.Construct(provider_pb2.ConstructRequest(type=type_, name="web"), timeout=LONGEST_S)

    def update(self, type_: str, state: Properties, inputs: Properties, *, preview: bool = False) -> Properties:
        checked = self.check(type_, inputs)[0]
        request = provider_pb2.UpdateRequest(
            id=state["id"], urn=urn(type_), name="web", type=type_, olds=struct(state), news=struct(checked),
            old_inputs=struct(checked), preview=preview,
        )  # fmt: skip
        return MessageToDict(self._stub.Update(request, timeout=LONGEST_S).properties) | {"id": state["id"]}

    def delete(self, type_: str, state: Properties) -> None:
        request = provider_pb2.DeleteRequest(
            id=state["id"], urn=urn(type_), name="web", type=type_, properties=struct(state)
        )
        self._stub.Delete(request, timeout=LONGEST_S)

    def cancel_when(self, holds: Callable[[], bool]) -> None:
        """What the engine does at Ctrl-C, as soon as something is so."""

        def cancel() -> None:
            wait_until(holds)
            self._stub.Cancel(empty_pb2.Empty())

        threading.Thread(target=cancel).start()


def urn(type_: str) -> str:
    return f"urn:pulumi:test::rocelab::{type_}::web"


def struct(properties: Properties) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update({key: value for key, value in properties.items() if key != "id"})
    return message


def reveal(value: object) -> object:
    """A value without the marks of secrets, wherever in it."""
    if isinstance(value, dict):
        return reveal(value["value"]) if is_secret(value) else {key: reveal(one) for key, one in value.items()}
    if isinstance(value, list):
        return [reveal(one) for one in value]
    return value


def is_secret(value: object) -> bool:
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def text_asset(text: str, hash_: str = "h1") -> Properties:
    return {SIGNATURE: ASSET, "text": text, "hash": hash_}


def file_asset(path: Path, hash_: str = "h1") -> Properties:
    return {SIGNATURE: ASSET, "path": str(path), "hash": hash_}


def folder_archive(path: str, hash_: str = "h1") -> Properties:
    return {SIGNATURE: ARCHIVE, "path": path, "hash": hash_}
