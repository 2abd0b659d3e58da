"""The cluster behind a kubeconfig, when it answers, refuses, or is not there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from components.hosts.drain import DrainError, NodeDrainer
from tests.messages import stating

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "gpu01"}, "spec": {}}


def merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """A merge patch (RFC 7386)."""
    kept = dict(old)
    for key, value in change.items():
        kept[key] = merged(old.get(key) or {}, value) if isinstance(value, dict) else value
        if value is None:
            del kept[key]
    return kept


class Api(BaseHTTPRequestHandler):
    """An API server that knows one node, and no longer than it is told to."""

    protocol_version = "HTTP/1.1"
    known = True
    refuses = False
    asked: tuple[str, ...] = ()
    node: dict[str, Any] = NODE

    def _answer(self) -> None:
        Api.asked = (*Api.asked, f"{self.command} {self.path}")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        Api.node = merged(Api.node, body)
        status = 403 if Api.refuses else 200 if Api.known else 404
        text = json.dumps(Api.node if status == 200 else {"kind": "Status", "code": status}).encode()
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
    for name, value in {"known": True, "refuses": False, "asked": (), "node": NODE}.items():
        monkeypatch.setattr(Api, name, value)
    # a failed test keeps its connection open, and a server without threads would wait for it
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
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


def test_a_node_that_a_killed_roll_has_cordoned_is_opened_by_the_next_one(port):
    assert cluster(port).cordon("gpu01") is True

    assert cluster(port).cordon("gpu01") is True, "its own, so this run may open it"
    cluster(port).reopen("gpu01")
    assert Api.node == {**NODE, "metadata": {"name": "gpu01", "annotations": {}}}


def test_a_node_that_a_person_has_cordoned_stays_closed(port, monkeypatch):
    by_hand = {**NODE, "spec": {"unschedulable": True}}
    monkeypatch.setattr(Api, "node", by_hand)

    assert cluster(port).cordon("gpu01") is False
    cluster(port).reopen("gpu01")
    assert Api.node == by_hand


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
