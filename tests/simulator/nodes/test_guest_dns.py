"""The names of pods: questions as a resolver asks them, on objects as the API has them."""

import struct
from ipaddress import IPv4Address
from typing import Any

import pytest

from simulator.nodes.guest_dns import AAAA, NO_ERROR, NO_SUCH_NAME, REFUSED, SERVER_FAILED, A, answer, name_of

SLICES = "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Djob"
ENDPOINTS = [
    {"addresses": ["10.244.1.7"], "hostname": "job-worker-0", "conditions": {"ready": True}},
    {"addresses": ["10.244.2.9"], "hostname": "job-worker-1", "conditions": {}},
    {"addresses": ["10.244.2.8"], "hostname": "job-worker-2", "conditions": {"ready": False}},
]
OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/services/kubernetes": {"spec": {"clusterIP": "10.96.0.1"}},
    "/api/v1/namespaces/bench/services/job": {"spec": {"clusterIP": "None"}},
    SLICES: {"items": [{"endpoints": ENDPOINTS[:1]}, {"endpoints": ENDPOINTS[1:]}, {"endpoints": None}]},
}


def question(name: str, kind: int = A) -> bytes:
    """As glibc asks: one question, recursion wanted."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def asked(name: str, kind: int = A, objects: dict[str, dict[str, Any]] = OBJECTS) -> tuple[int, list[str]]:
    """Code and addresses of the answer."""
    message = answer(objects.get, question(name, kind))
    number, flags, questions, answers, *_ = struct.unpack_from("!6H", message)
    assert (number, flags & 0x8000, questions) == (7, 0x8000, 1)
    _, end = name_of(message, 12)
    records = [message[end + 4 :][start : start + 16] for start in range(0, 16 * answers, 16)]
    assert len(message) == end + 4 + 16 * answers
    assert all(record[:2] == b"\xc0\x0c" for record in records)
    return flags & 0xF, [str(IPv4Address(record[12:])) for record in records]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("job-worker-0.job.bench.svc.cluster.local", ["10.244.1.7"]),
        ("Job-Worker-1.Job.bench.svc.cluster.local", ["10.244.2.9"]),
        ("job.bench.svc.cluster.local", ["10.244.1.7", "10.244.2.9"]),
        ("kubernetes.default.svc.cluster.local", ["10.96.0.1"]),
    ],
)
def test_a_pod_is_found_by_its_hostname_and_a_service_by_its_name(name: str, found: list[str]):
    assert asked(name) == (NO_ERROR, found)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("job-worker-2.job.bench.svc.cluster.local", NO_SUCH_NAME),
        ("job-worker-9.job.bench.svc.cluster.local", NO_SUCH_NAME),
        ("other.bench.svc.cluster.local", NO_SUCH_NAME),
        # what a resolver tries first: it appends each domain of its list
        ("job-worker-0.job.bench.svc.bench.svc.cluster.local", NO_SUCH_NAME),
        ("job-worker-0.job.bench.svc.svc.cluster.local", NO_SUCH_NAME),
        ("bench.cluster.local", NO_SUCH_NAME),
        ("example.com", REFUSED),
    ],
)
def test_what_is_not_there_or_not_ready_has_no_address(name: str, code: int):
    assert asked(name) == (code, [])


def test_a_name_without_an_address_of_ipv6_is_still_a_name():
    assert asked("job-worker-0.job.bench.svc.cluster.local", AAAA) == (NO_ERROR, [])


def test_an_api_server_that_is_away_is_no_proof_that_there_is_no_such_name():
    def away(_: str) -> None:
        raise ConnectionRefusedError

    message = answer(away, question("job.bench.svc.cluster.local"))
    assert message[3] & 0xF == SERVER_FAILED


def test_an_answer_fits_into_a_datagram_however_many_pods_there_are():
    many = [{"addresses": [f"10.244.1.{number}"]} for number in range(1, 200)]
    service, namespace = "j" * 63, "b" * 63
    path = f"/api/v1/namespaces/{namespace}/services/{service}"

    def get(asked: str) -> dict[str, Any]:
        return OBJECTS["/api/v1/namespaces/bench/services/job"] if asked == path else {"items": [{"endpoints": many}]}

    assert 450 < len(answer(get, question(f"{service}.{namespace}.svc.cluster.local"))) <= 512
