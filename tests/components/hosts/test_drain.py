"""The cluster behind a kubeconfig, when it answers, refuses, or is not there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from components.hosts.drain import DrainError, NodeDrainer
from tests.messages import stating


class Api(BaseHTTPRequestHandler):
    """An API server that knows one node, and no longer than it is told to."""

    protocol_version = "HTTP/1.1"
    known = True
    refuses = False
    asked: tuple[str, ...] = ()

    def _answer(self) -> None:
        Api.asked = (*Api.asked, f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = 403 if Api.refuses else 200 if Api.known else 404
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "gpu01"}, "spec": {}}
        text = json.dumps(node if status == 200 else {"kind": "Status", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PATCH = do_DELETE = _answer  # noqa: N815  # the library's names

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    for name, value in {"known": True, "refuses": False, "asked": ()}.items():
        monkeypatch.setattr(Api, name, value)
    server = HTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def cluster(port: int) -> NodeDrainer:
    place = {"name": "lab", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "lab", "context": {"cluster": "lab", "user": "lab"}}
    users = [{"name": "lab", "user": {}}]
    return NodeDrainer(
        json.dumps({"clusters": [place], "contexts": [context], "users": users, "current-context": "lab"})
    )


def test_a_node_is_known_closed_opened_and_forgotten(port):
    api = cluster(port)

    assert api.knows("gpu01") is True
    assert api.cordon("gpu01") is True
    api.uncordon("gpu01")
    api.forget("gpu01")
    assert [line.split()[0] for line in Api.asked] == ["GET", "GET", "PATCH", "PATCH", "DELETE"]


def test_a_node_that_is_gone_is_not_known_and_nothing_to_forget(port, monkeypatch):
    monkeypatch.setattr(Api, "known", False)
    api = cluster(port)

    assert api.knows("gpu01") is False
    api.forget("gpu01")


@pytest.mark.parametrize("what", ["knows", "cordon", "uncordon", "forget", "empty"])
def test_a_refusal_is_a_reason_and_no_traceback(port, monkeypatch, what):
    monkeypatch.setattr(Api, "refuses", True)

    with pytest.raises(DrainError, check=stating("Kubernetes API", "Forbidden")):
        getattr(cluster(port), what)("gpu01")
