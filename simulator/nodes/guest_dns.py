"""The DNS of the pods of a node, where a cluster has CoreDNS: `guest_dns.py ADDRESS API-SERVER`, run in the guest.

Answers what pods need to find each other, from the API and for A records alone: `SERVICE.NAMESPACE.svc.cluster.local`
and `HOSTNAME.SERVICE.NAMESPACE.svc.cluster.local`. Nothing is remembered, so it may be part of a snapshot.
"""

import json
import socket
import ssl
import struct
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPSConnection
from typing import Any

DOMAIN = ("svc", "cluster", "local")
PKI = "/etc/kubernetes/pki"
TTL_S = 5
"""As CoreDNS has it for names of a cluster."""
TIMEOUT_S = 10
A, AAAA, INTERNET = 1, 28, 1
HEAD = struct.Struct("!6H")
NO_ERROR, SERVER_FAILED, NO_SUCH_NAME, REFUSED = 0, 2, 3, 5
RECORD = struct.Struct("!3HIH4s")
DATAGRAM_BYTES = 512

Get = Callable[[str], dict[str, Any] | None]
"""An object of the API by its path; None where there is none."""


def addresses(get: Get, labels: tuple[str, ...]) -> list[str] | None:
    """Addresses of a name of the cluster without its domain; None where there is no such name."""
    *host, service, namespace = labels
    if not host:
        found = get(f"/api/v1/namespaces/{namespace}/services/{service}")
        address = (found or {}).get("spec", {}).get("clusterIP")
        if address != "None":
            return [address] if address else None
    query = urllib.parse.urlencode({"labelSelector": f"kubernetes.io/service-name={service}"})
    slices = get(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{query}") or {}
    ready = [one for one in _endpoints(slices) if not host or one.get("hostname") == host[0]]
    return [address for one in ready for address in one["addresses"]] or None


def _endpoints(slices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those that are ready, or do not say."""
    for one in slices.get("items", []):
        for endpoint in one.get("endpoints") or []:
            if endpoint.get("conditions", {}).get("ready") is not False:
                yield endpoint


def answer(get: Get, query: bytes) -> bytes:
    """The answer to one question."""
    number, flags, questions, *_ = HEAD.unpack_from(query)
    labels, end = name_of(query, HEAD.size)
    kind, kind_of_network = struct.unpack_from("!2H", query, end)
    question = query[HEAD.size : end + 4]
    found: list[str] = []
    if labels[-len(DOMAIN) :] != DOMAIN:
        code = NO_SUCH_NAME if labels[-2:] == DOMAIN[1:] else REFUSED
    elif questions != 1 or kind_of_network != INTERNET or len(labels) not in (5, 6):
        code = NO_SUCH_NAME
    else:
        try:
            known = addresses(get, labels[: -len(DOMAIN)])
        except (OSError, HTTPException, ValueError) as error:
            sys.stderr.write(f"{'.'.join(labels)}: {error}\n")
            known, code = None, SERVER_FAILED
        else:
            code = NO_SUCH_NAME if known is None else NO_ERROR
        room = (DATAGRAM_BYTES - HEAD.size - len(question)) // RECORD.size
        found = (known or [])[:room] if kind == A else []
    # an answer, by who knows the name best, with the asker's own wish for recursion
    head = HEAD.pack(number, 0x8400 | (flags & 0x0100) | code, 1, len(found), 0, 0)
    # each record names what was asked by its place in this answer
    records = (RECORD.pack(0xC000 | HEAD.size, A, INTERNET, TTL_S, 4, socket.inet_aton(one)) for one in found)
    return head + question + b"".join(records)


def name_of(message: bytes, place: int) -> tuple[tuple[str, ...], int]:
    """The labels of a name in a message, and where it ends.

    Raises:
        ValueError: for a name that a question cannot have.
    """
    labels = []
    while length := message[place]:
        if length > 63:
            raise ValueError("a question does not abbreviate names")
        labels.append(message[place + 1 : place + 1 + length].decode("ascii").lower())
        place += 1 + length
    return tuple(labels), place + 1


class Api:
    """The API server, over one connection that is made again when it is lost."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._connection: HTTPSConnection | None = None

    def get(self, path: str) -> dict[str, Any] | None:
        """An object, or None where there is none."""
        try:
            return self._get(path)
        except (OSError, HTTPException):
            # the server ended it since the last question, or was away
            self._connection = None
            return self._get(path)

    def _get(self, path: str) -> dict[str, Any] | None:
        if self._connection is None:
            context = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
            context.load_cert_chain(f"{PKI}/dns.crt", f"{PKI}/dns.key")
            self._connection = HTTPSConnection(self._server, timeout=TIMEOUT_S, context=context)
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        content = response.read()
        if response.status == 404:
            return None
        if response.status != 200:
            raise ValueError(f"the API server answers {response.status} to {path}")
        found: dict[str, Any] = json.loads(content)
        return found


def main(address: str, server: str) -> None:
    """Answers one question after the other."""
    api = Api(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind((address, 53))
        while True:
            query, asker = listening.recvfrom(DATAGRAM_BYTES)
            try:
                listening.sendto(answer(api.get, query), asker)
            except (struct.error, IndexError, ValueError) as error:
                sys.stderr.write(f"{asker[0]}: no question: {error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
