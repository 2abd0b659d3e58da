"""A session with a vCenter: certificate check, one new login when the session expires, and a logout
at the end.
"""

import hashlib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import SoapAdapter, vim, vmodl

from components.fabric.vcenter.refusals import explained, message
from components.ssh.credentials import Setting, required_secret
from stacks.base import LabError, UnreachableError
from stacks.fabric import Fabric, read_password
from stacks.frozen import frozen

CONNECT_S = 20


@frozen
class VcenterEndpoint:
    """Address, login and pinned identity of a vCenter."""

    address: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: Path | None = None
    thumbprint_sha256: str | None = None


@contextmanager
def connected(endpoint: VcenterEndpoint) -> Iterator[vim.ServiceInstance]:
    """The API after a login; always logs out at the end.

    Raises:
        LabError: when the vCenter does not answer, is another one, or refuses the login.
    """
    where = _named(endpoint)
    with _reaching(endpoint):
        first = SmartConnect(
            host=endpoint.address,
            port=endpoint.port,
            user=endpoint.user,
            pwd=endpoint.password,
            sslContext=_trust(endpoint),
            httpConnectionTimeout=CONNECT_S,
        )
    try:
        yield vim.ServiceInstance("ServiceInstance", _Relogging(first._GetStub(), endpoint))
    except vim.fault.NotAuthenticated:
        raise LabError(
            f"{where} ended the session twice within one task; raise its session limit, then run "
            "again"
        ) from None
    except vmodl.MethodFault as fault:
        raise LabError(f"{where}: {explained(fault)}") from None
    except (ConnectionError, TimeoutError) as error:
        raise LabError(
            f"{where} broke the connection: {message(error)}. What was done is in the state; run "
            "again"
        ) from None
    finally:
        Disconnect(first)


def verify(endpoint: VcenterEndpoint) -> None:
    """Makes a TLS handshake and sends nothing else.

    Raises:
        LabError: when nothing answers, or another vCenter does.
    """
    with _reaching(endpoint):
        context = _trust(endpoint)
        with (
            socket.create_connection((endpoint.address, endpoint.port), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=endpoint.address),
        ):
            pass


def _named(endpoint: VcenterEndpoint) -> str:
    return f"vCenter {endpoint.address}:{endpoint.port}"


@contextmanager
def _reaching(endpoint: VcenterEndpoint) -> Iterator[None]:
    try:
        yield
    except vim.fault.InvalidLogin:
        raise LabError(
            f"{_named(endpoint)} refuses the login of {endpoint.user}; correct "
            "rocelab:vcenterPassword"
        ) from None
    except ssl.SSLCertVerificationError as error:
        raise LabError(
            f"{_named(endpoint)}: {error.verify_message}; set fabric.ca_file to its certificate "
            "authority"
        ) from None
    except (OSError, vmodl.MethodFault) as error:
        raise UnreachableError(f"{_named(endpoint)} does not answer: {message(error)}") from None


class _Relogging(SoapAdapter.StubAdapterBase):
    """Logs in again when the vCenter has ended the session, and repeats the refused call.

    pyVmomi's own adapter also repeats calls after broken connections, when the first may have
    succeeded.
    """

    def __init__(self, stub: SoapAdapter.SoapStubAdapter, endpoint: VcenterEndpoint) -> None:
        # pyVmomi types its objects only
        super().__init__(version=stub.version)  # type: ignore[no-untyped-call]
        self._stub, self._endpoint = stub, endpoint

    def InvokeMethod(  # noqa: N802  # the adapter's interface
        self, mo: object, info: object, args: object, _outer: object = None
    ) -> object:
        """Calls, and repeats a call that was refused because the login had expired."""
        status, answer = self._stub.InvokeMethod(mo, info, args, self)
        if status != 200 and isinstance(answer, vim.fault.NotAuthenticated):
            self._log_in()
            status, answer = self._stub.InvokeMethod(mo, info, args, self)
        if status != 200:
            raise answer
        return answer

    def _log_in(self) -> None:
        content = vim.ServiceInstance("ServiceInstance", self._stub).RetrieveContent()
        if content.sessionManager is not None:
            content.sessionManager.Login(self._endpoint.user, self._endpoint.password, None)


def _trust(endpoint: VcenterEndpoint) -> ssl.SSLContext:
    if endpoint.thumbprint_sha256 is None:
        try:
            return ssl.create_default_context(cafile=endpoint.ca_file)
        except OSError as error:
            why = error.strerror or "no certificate in it"
            raise LabError(f"fabric.ca_file: {endpoint.ca_file} cannot be read ({why})") from None
    address = (endpoint.address, endpoint.port)
    presented = ssl.get_server_certificate(address, timeout=CONNECT_S)
    thumbprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(presented)).hexdigest()
    if thumbprint != endpoint.thumbprint_sha256:
        raise LabError(
            f"{_named(endpoint)} presents a certificate with sha256 {thumbprint}, not "
            "fabric.thumbprint_sha256; nothing was sent. If this is your vCenter, correct the "
            "thumbprint"
        )
    # pinned: only this certificate is accepted, whatever its name
    context = ssl.create_default_context(cadata=presented)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def endpoint_of(fabric: Fabric, setting: Setting, root: Path) -> VcenterEndpoint:
    """The vCenter of a lab.

    Raises:
        LabError: when the password is missing.
    """
    in_file = fabric.password == "file"  # noqa: S105  # where it is, not what
    if in_file:
        password = read_password(fabric, root)
    else:
        password = required_secret(setting, "vcenterPassword")
    return replace(peer_of(fabric, root), user=fabric.user, password=password)


def peer_of(fabric: Fabric, root: Path) -> VcenterEndpoint:
    """The vCenter of a lab without a login."""
    ca_file = root / fabric.ca_file if fabric.ca_file else None
    return VcenterEndpoint(
        address=fabric.vcenter,
        port=fabric.port,
        ca_file=ca_file,
        thumbprint_sha256=fabric.thumbprint_sha256,
    )
