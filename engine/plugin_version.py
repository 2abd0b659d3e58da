"""Prints the version of a resource plugin, read as the engine reads it: python engine/plugin_version.py <program>."""

import subprocess
import sys

# Speaks the engine's own protocol, whose classes come with the SDK; grpc and protobuf ship no types.
import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc  # noqa: TID251

TIMEOUT_S = 10.0


def ask(program: str) -> str:
    """Starts the plugin, reads its version, and ends it."""
    # A plugin requires an engine's address, but never calls it here.
    plugin = subprocess.Popen([program, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int((plugin.stdout.readline() if plugin.stdout else "").strip())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            info: plugin_pb2.PluginInfo = stub.GetPluginInfo(empty_pb2.Empty(), timeout=TIMEOUT_S)
            return info.version
    finally:
        plugin.kill()
        plugin.wait()


if __name__ == "__main__":
    sys.stdout.write(ask(sys.argv[1]) + "\n")
