"""After kubeadm join: whether the API server knows the node, asked as the kubelet itself would."""

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from components.hosts.program import membership
from components.hosts.program.machine import Machine, StepError
from components.hosts.program.membership import CERTIFICATE, PAUSE_S, wait_until_registered

CA = "/etc/kubernetes/pki/ca.crt"


class Plane:
    """An API server that asks for the kubelet's certificate and answers by a list."""

    def __init__(self, certificate: Path) -> None:
        self.answers = [200]
        self.asked: list[str] = []
        plane = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plane.asked.append(self.path)
                self.send_response(plane.answers.pop(0) if len(plane.answers) > 1 else plane.answers[0])
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.load_verify_locations(certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"


def certificate() -> str:
    """One that signs itself, for the server, for the kubelet and as the authority of both."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    begin = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + timedelta(days=3650))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), False)
    signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256())
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = serialization.Encoding.PEM
    return (signed.public_bytes(pem) + key.private_bytes(pem, *form)).decode()


class Patient(Machine):
    """Its clock goes by its own pauses alone."""

    clock_s = 0.0

    def now_s(self) -> float:
        return self.clock_s

    def pause(self, seconds: float) -> None:
        self.clock_s += seconds


@pytest.fixture
def machine(tmp_path: Path) -> Patient:
    text = certificate()
    for path in (CERTIFICATE, CA):
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True)
        place.write_text(text)
    return Patient(str(tmp_path))


@pytest.fixture
def plane(machine: Machine) -> Iterator[Plane]:
    found = Plane(Path(machine.path(CERTIFICATE)))
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_a_node_that_the_cluster_knows_is_asked_for_once(machine: Machine, plane: Plane) -> None:
    wait_until_registered(machine, plane.url, "gpu01", CA)

    assert plane.asked == ["/api/v1/nodes/gpu01"]


def test_a_kubelet_that_takes_a_while_is_waited_for(machine: Machine, plane: Plane) -> None:
    plane.answers = [404, 404, 200]
    wait_until_registered(machine, plane.url, "gpu01", CA)

    assert len(plane.asked) == 3


def test_a_node_that_never_comes_is_a_failure_with_what_to_read(
    machine: Patient, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "REGISTERED_S", 9)
    plane.answers = [404]

    with pytest.raises(StepError, match=r"\bgpu01\b") as caught:
        wait_until_registered(machine, plane.url, "gpu01", CA)
    assert "journalctl -u kubelet" in caught.value.hint
    assert 9 < machine.clock_s <= 9 + PAUSE_S


@pytest.mark.parametrize("answer", [403, 500])
def test_an_answer_that_says_nothing_of_the_node_leaves_it_at_kubeadm_s_word(
    machine: Machine, plane: Plane, answer: int
) -> None:
    plane.answers = [answer]
    wait_until_registered(machine, plane.url, "gpu01", CA)

    assert len(plane.asked) == 1


def test_another_cluster_s_server_is_not_believed(machine: Machine, plane: Plane) -> None:
    Path(machine.path(CA)).write_text(certificate())
    plane.answers = [404]

    wait_until_registered(machine, plane.url, "gpu01", CA)
    assert plane.asked == []


def test_a_host_without_a_kubelet_s_certificate_makes_no_request(machine: Machine, plane: Plane) -> None:
    Path(machine.path(CERTIFICATE)).unlink()
    wait_until_registered(machine, plane.url, "gpu01", CA)

    assert plane.asked == []
