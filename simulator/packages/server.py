"""Serves a folder over HTTP on loopback: `python -m simulator.packages.server FOLDER ADDRESS PORT`."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # apt keeps its connection, and each new one starts a process at the node's door
    timeout = 60


def main(folder: str, address: str, port: str) -> None:
    """Runs until it is ended."""
    with ThreadingHTTPServer((address, int(port)), partial(_Handler, directory=folder)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
