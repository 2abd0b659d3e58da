"""Asking a registry: a server on loopback that answers like one, over plain HTTP as labs have it."""

import io
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from components.jobs import registry
from components.jobs.registry import ImageStatus, Reference, look, parse

DIGEST = "sha256:" + "cd" * 32


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, dict[str, str]], str]]:
    """Starts a registry that answers everything alike; returns its address."""
    monkeypatch.setenv("no_proxy", "*")
    servers: list[ThreadingHTTPServer] = []

    def start(status: int, headers: dict[str, str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                assert self.path == "/v2/nccl-roce-test/manifests/deepops"
                assert "manifest.list" in self.headers["Accept"]
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_an_existing_image_has_its_digest(serve: Callable[[int, dict[str, str]], str]) -> None:
    host = serve(200, {"Docker-Content-Digest": DIGEST})

    assert look(f"{host}/nccl-roce-test:deepops") == ImageStatus(outcome="present", digest=DIGEST)


def test_an_image_that_is_not_there_is_missing(serve: Callable[[int, dict[str, str]], str]) -> None:
    assert look(f"{serve(404, {})}/nccl-roce-test:deepops").outcome == "missing"


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_answer_that_does_not_say_is_unknown(serve: Callable[[int, dict[str, str]], str], status: int) -> None:
    host = serve(status, {"WWW-Authenticate": 'Bearer realm="http://elsewhere/token"'})

    assert look(f"{host}/nccl-roce-test:deepops") == ImageStatus(outcome="unknown", why=f"{host} answers {status}")


def test_a_registry_that_is_not_there_is_unknown_and_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    found = look("127.0.0.1:9/nccl-roce-test:deepops")

    assert found.outcome == "unknown"
    assert "refused" in found.why


def test_credentials_are_asked_for_over_https_only() -> None:
    assert registry._token('Bearer realm="http://elsewhere/token",service="x"') == ""


def test_a_registry_that_wants_a_token_of_everybody_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: urllib.request.Request) -> Answer:
        asked.append((request.full_url, request.get_header("Authorization") or ""))
        if request.full_url.startswith("https://auth.example/"):
            return Answer(b'{"token": "abc"}', {})
        if asked[-1][1] != "Bearer abc":
            header = HTTPMessage()
            header["WWW-Authenticate"] = 'Bearer realm="https://auth.example/t",service="s",scope="repository:a:pull"'
            raise urllib.error.HTTPError(request.full_url, 401, "", header, None)
        return Answer(b"", {"Docker-Content-Digest": DIGEST})

    monkeypatch.setattr(registry, "_open", answer)
    assert look("ghcr.io/a/b:v1") == ImageStatus(outcome="present", digest=DIGEST)
    assert asked[1][0] == "https://auth.example/t?service=s&scope=repository%3Aa%3Apull"


class Answer(io.BytesIO):
    """What urllib gives for an answer: its body, and its headers."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(body)
        self.headers = headers


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("192.168.100.10:5000/nccl-roce-test:deepops", ("192.168.100.10:5000", "nccl-roce-test", "deepops")),
        ("nvcr.io/nvidia/tensorflow:24.03-tf2-py3", ("nvcr.io", "nvidia/tensorflow", "24.03-tf2-py3")),
        (f"ghcr.io/a/b:v1@{DIGEST}", ("ghcr.io", "a/b", DIGEST)),
        ("mpioperator/tensorflow-benchmarks", ("registry-1.docker.io", "mpioperator/tensorflow-benchmarks", "latest")),
        ("docker.io/ubuntu:24.04", ("registry-1.docker.io", "library/ubuntu", "24.04")),
    ],
)
def test_a_name_is_read_as_container_runtimes_read_it(image: str, parts: tuple[str, str, str]) -> None:
    host, repository, version = parts

    assert parse(image) == Reference(host=host, repository=repository, version=version)
