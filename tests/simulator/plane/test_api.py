"""The API over a connection that is kept, against a server that ends it behind our back."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from simulator.plane.api import Api
from simulator.plane.layout import Layout


class Ending(BaseHTTPRequestHandler):
    """Answers once, promises to keep the connection, and ends it all the same."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.server.asked.append(self.command)
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: what pytest shows is the test's."""


@pytest.fixture
def server(layout: Layout) -> Iterator[ThreadingHTTPServer]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(layout.pki("apiserver.crt"), layout.pki("apiserver.key"))
    with ThreadingHTTPServer((layout.address, 0), Ending) as server:
        server.asked = []
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_connection_that_the_server_has_ended_is_opened_again(layout: Layout, server: ThreadingHTTPServer) -> None:
    with Api(layout, port=server.server_port) as api:
        assert [api.get("/"), api.merge("/", {}), api.get("/")] == [{}, {}, {}]

    assert server.asked == ["GET", "PATCH", "GET"]
