"""The cluster's certificate authority, with a certificate per server and an identity per client."""

import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = timedelta(days=3650)
_LOCK = threading.Lock()
"""Control plane and nodes start at the same time."""
CLOCK_SKEW = timedelta(days=1)
"""Certificates stay valid if the clock of a laptop is set back."""


@dataclass(frozen=True)
class Client:
    """A user, as Kubernetes reads it from a client certificate."""

    file: str
    user: str
    groups: tuple[str, ...] = ()


SERVER_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
SERVERS = ("apiserver", "kubelet")
CLIENTS = (
    Client("admin", "rocelab-admin", ("system:masters",)),
    Client("apiserver-to-kubelet", "kube-apiserver-kubelet-client", ("system:masters",)),
    Client("controller-manager", "system:kube-controller-manager"),
    Client("scheduler", "system:kube-scheduler"),
    Client("kwok", "rocelab:kwok"),
)
DNS = Client("dns", "rocelab:dns")
"""Who looks names up for real pods."""


def issue(folder: Path, address: str) -> bool:
    """Makes all keys and certificates of a cluster unless they exist; returns whether it did.

    The folder gets its name last, so that an interrupted run leaves no incomplete folder of that name.
    """
    with _LOCK:
        return _issue(folder, address)


def issue_for_kubelet(folder: Path, name: str, addresses: Sequence[str]) -> tuple[str, str]:
    """Makes the identities of a node's kubelet unless they exist; returns the names of its client and server files."""
    client, server = f"kubelet-{name}", f"kubelet-{name}-server"
    issue_client(folder, Client(client, f"system:node:{name}", ("system:nodes",)))
    issue_further(folder, server, addresses)
    return client, server


def issue_client(folder: Path, client: Client) -> None:
    """Makes one more identity of a client unless it exists."""
    with _LOCK:
        if not (folder / f"{client.file}.crt").exists():
            Authority(folder).sign_client(client)


def issue_further(folder: Path, server: str, addresses: Sequence[str]) -> None:
    """Makes one more identity of a server unless it exists."""
    with _LOCK:
        if not (folder / f"{server}.crt").exists():
            Authority(folder).sign_server(server, *addresses)


def _issue(folder: Path, address: str) -> bool:
    if (folder / address).exists():
        return False
    partial = folder.with_name(folder.name + ".partial")
    for old in (partial, folder):
        shutil.rmtree(old, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    authority = Authority(partial)
    _new_key(partial / "service-accounts.key")
    for server in SERVERS:
        authority.sign_server(server, address)
    for client in CLIENTS:
        authority.sign_client(client)
    (partial / address).touch()
    partial.rename(folder)
    return True


class Authority:
    """Signs certificates for one server and its clients; its key stays in their folder."""

    def __init__(self, folder: Path) -> None:
        """Uses the authority in this folder, or makes a new one."""
        self._folder = folder
        self._name = _name("rocelab simulator")
        if (folder / "ca.crt").exists():
            self._key = _read_key(folder / "ca.key")
            return
        self._key = _new_key(folder / "ca.key")
        certificate = (
            _unsigned(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS_ONLY, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign_server(self, file: str, *addresses: str) -> None:
        """Writes key and certificate of a server with these addresses."""
        hosts = [*(x509.IPAddress(ip_address(one)) for one in addresses), *map(x509.DNSName, SERVER_NAMES)]
        self._sign(file, _name(file), hosts)

    def sign_client(self, client: Client) -> None:
        """Writes key and certificate of a client."""
        self._sign(client.file, _name(client.user, client.groups))

    def _sign(self, file: str, subject: x509.Name, hosts: Sequence[x509.GeneralName] = ()) -> None:
        key = _new_key(self._folder / f"{file}.key")
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        # OpenSSL 3's strict mode, the default of Python 3.13, refuses a certificate that does not name its issuer's key
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _unsigned(subject, self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        (self._folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


_SIGNS_ONLY = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return key


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} holds a key of another kind than this simulator makes")
    return key


def _name(common: str, groups: Iterable[str] = ()) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALID_FOR)
    )
