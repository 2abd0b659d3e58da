"""Whom a session trusts, with a real TLS server on loopback: a wrong one gets a handshake and nothing else."""

import datetime as dt
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import pulumi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from components.fabric.fabric import refuse_another_peer
from components.fabric.vcenter import session
from components.fabric.vcenter.session import VcenterEndpoint, connected, verify
from stacks.base import LabError
from stacks.fabric import Fabric
from tests.labs import FABRIC
from tests.messages import stating

ADDRESS, CANARY = "127.0.0.1", "canary-of-the-vcenter"
WAIT_S = 20


@dataclass
class Server:
    """Answers every handshake and keeps what it is sent after it."""

    folder: Path
    address: str
    thumbprint: str
    port: int = 0
    said: list[bytes] = field(default_factory=list)
    heard: threading.Event = field(default_factory=threading.Event)

    def endpoint(self, **others: object) -> VcenterEndpoint:
        return VcenterEndpoint(address=ADDRESS, port=self.port, user="rocelab", password=CANARY, **others)  # type: ignore[arg-type]  # of two kinds

    def all_said(self) -> bytes:
        """What it was sent in its one connection, which has ended."""
        assert self.heard.wait(WAIT_S)
        return b"".join(self.said)


def certificate(folder: Path, address: str) -> Path:
    """A certificate that is its own authority, and its key beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vcenter")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{address}.crt"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.with_suffix(".key").write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return file


def serve(server: Server, listening: socket.socket, context: ssl.SSLContext) -> None:
    """Answers until its socket is closed."""
    while True:
        try:
            plain, _ = listening.accept()
        except OSError:
            return
        try:
            with context.wrap_socket(plain, server_side=True) as peer:
                peer.settimeout(WAIT_S)
                while text := peer.recv(4096):
                    server.said.append(text)
        except OSError:
            plain.close()  # the client does not like the certificate
        server.heard.set()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(certified: str = ADDRESS) -> Server:
        file = certificate(tmp_path, certified)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file, file.with_suffix(".key"))
        der = ssl.PEM_cert_to_DER_cert(file.read_text())
        server = Server(tmp_path, certified, hashlib.sha256(der).hexdigest())
        listening = socket.create_server((ADDRESS, 0))
        server.port = listening.getsockname()[1]
        opened.append(listening)
        thread = threading.Thread(target=serve, args=(server, listening, context), daemon=True)
        thread.start()
        threads.append(thread)
        return server

    yield start
    for one in opened:
        one.shutdown(socket.SHUT_RDWR)
        one.close()
    for thread in threads:
        thread.join(WAIT_S)


def test_the_right_thumbprint_is_trusted_whatever_name_the_certificate_bears(serving: Callable[..., Server]) -> None:
    server = serving("192.0.2.7")

    verify(server.endpoint(thumbprint_sha256=server.thumbprint))


def test_the_right_authority_is_trusted(serving: Callable[..., Server]) -> None:
    server = serving()

    verify(server.endpoint(ca_file=server.folder / f"{ADDRESS}.crt"))


def test_another_certificate_than_the_pinned_one_is_refused_and_gets_nothing(serving: Callable[..., Server]) -> None:
    server = serving()

    with (
        pytest.raises(LabError, check=stating(server.thumbprint, "fabric.thumbprint_sha256")),
        connected(server.endpoint(thumbprint_sha256="0" * 64)),
    ):
        pass

    assert server.all_said() == b""


def test_an_authority_that_did_not_sign_it_is_refused_and_nothing_is_sent(serving: Callable[..., Server]) -> None:
    server = serving()
    other = certificate(server.folder, "127.0.0.9")

    with (
        pytest.raises(LabError, match=r"self.signed", check=stating("vCenter 127.0.0.1", "fabric.ca_file")),
        connected(server.endpoint(ca_file=other)),
    ):
        pass

    assert server.all_said() == b""


def test_the_right_authority_for_another_name_is_refused(serving: Callable[..., Server]) -> None:
    server = serving("192.0.2.7")

    with pytest.raises(LabError, match="IP address mismatch"):
        verify(server.endpoint(ca_file=server.folder / "192.0.2.7.crt"))

    assert server.all_said() == b""


def test_the_system_s_authorities_are_asked_where_the_lab_names_none(serving: Callable[..., Server]) -> None:
    server = serving()

    with pytest.raises(LabError, match=r"self.signed", check=stating("vCenter 127.0.0.1", "fabric.ca_file")):
        verify(server.endpoint())


def test_an_authority_s_file_that_is_missing_or_holds_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.crt").write_text("")
    with socket.create_server((ADDRESS, 0)) as listening:
        place = {"address": ADDRESS, "port": listening.getsockname()[1]}

        with pytest.raises(LabError, check=stating("fabric.ca_file", "gone.crt", "No such file")):
            verify(VcenterEndpoint(**place, ca_file=tmp_path / "gone.crt"))
        with pytest.raises(LabError, check=stating("fabric.ca_file", "empty.crt")):
            verify(VcenterEndpoint(**place, ca_file=tmp_path / "empty.crt"))


def test_a_vcenter_that_does_not_answer_is_named() -> None:
    with socket.create_server((ADDRESS, 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(LabError, match=f"vCenter 127.0.0.1:{port} does not answer"):
        verify(VcenterEndpoint(address=ADDRESS, port=port))


def test_a_program_looks_before_there_is_a_provider_and_ends_with_a_sentence(
    serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serving()
    monkeypatch.setattr(session, "verify", verify)
    place = {"vcenter": ADDRESS, "port": server.port}
    wrong = Fabric.model_validate(FABRIC | place | {"thumbprint_sha256": "0" * 64})
    right = Fabric.model_validate(FABRIC | place | {"thumbprint_sha256": server.thumbprint})

    refuse_another_peer(right)
    with pytest.raises(pulumi.RunError, check=stating(server.thumbprint, "fabric.thumbprint_sha256")):
        refuse_another_peer(wrong)


def test_where_the_provider_checks_by_itself_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[VcenterEndpoint] = []
    monkeypatch.setattr(session, "verify", looked.append)

    refuse_another_peer(Fabric.model_validate(FABRIC))

    assert looked == []
