"""An API server for fault handling only: a few paths over plain HTTP on loopback, answered from a dict."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import yaml

from components.validation import Say
from components.validation.benchmarks.plan import Plan
from components.validation.mpijobs import ClusterRun

Object = dict[str, object]


@dataclass
class FakeApi:
    """What the server answers, and what was asked of it."""

    statuses: list[Object] = field(default_factory=list)
    """Status of the job at each look at it; the last one stays."""
    log: str = ""
    events: list[Object] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    pod_conditions: list[Object] = field(default_factory=list)
    containers: list[Object] = field(default_factory=list)
    """States of the pods' containers."""
    left: list[str] = field(default_factory=list)
    """Jobs that a killed run left."""
    create_status: int = 201
    deleted: list[str] = field(default_factory=list)
    created: list[Object] = field(default_factory=list)
    url: str = ""

    @property
    def kubeconfig(self) -> str:
        named = {"name": "lab"}
        return yaml.safe_dump(
            {
                "clusters": [{**named, "cluster": {"server": self.url}}],
                "users": [{**named, "user": {"token": "t"}}],
                "contexts": [{**named, "context": {"cluster": "lab", "user": "lab"}}],
                "current-context": "lab",
            }
        )

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, str]:
        last = path.rpartition("/")[2]
        if method == "POST":
            if self.create_status < 300:
                self.created.append(json.loads(body))
            return self.create_status, json.dumps({"message": "refused by the test"})
        if method == "DELETE":
            self.deleted.append(last)
            return 200, "{}"
        if last == "mpijobs":
            return 200, items([{"metadata": {"name": name}} for name in self.left])
        if "/mpijobs/" in path:
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            return 200, json.dumps({"metadata": {"name": last}, "status": status})
        if last == "log":
            return 200, self.log
        found = {"events": self.events, "nodes": self.nodes, "pods": self._pods(query)}.get(last)
        return (404, "{}") if found is None else (200, items(found))

    def _pods(self, query: dict[str, list[str]]) -> list[Object]:
        role = "launcher" if "launcher" in query.get("labelSelector", [""])[0] else "worker"
        pod = {
            "metadata": {"name": f"x-{role}", "creationTimestamp": "2026-11-21T06:00:00Z"},
            "spec": {"nodeName": "gpu01"},
            "status": {"conditions": self.pod_conditions, "containerStatuses": self.containers},
        }
        return [pod]


def cluster_run(plan: Plan, kubeconfig: str, say: Say = print, run_id: str = "r1") -> ClusterRun:
    """A run of a plan against a cluster."""
    return ClusterRun(kubeconfig=kubeconfig, lab=plan.lab, run_id=run_id, simulated=plan.simulated, say=say)


def items(objects: list[Object]) -> str:
    return json.dumps({"items": objects})


def true(kind: str, message: str = "") -> Object:
    """A status with one condition that is true."""
    return {"conditions": [{"type": kind, "status": "True", "message": message}]}


def waiting(reason: str, message: str = "") -> Object:
    """A container that waits for its image."""
    return {"image": "registry:5000/nccl:1", "state": {"waiting": {"reason": reason, "message": message}}}


@contextmanager
def serving(api: FakeApi) -> Iterator[FakeApi]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # one connection and one thread per client, not per request
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = api.answer(self.command, parts.path, parse_qs(parts.query), body)
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815  # the names that http.server looks for

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
