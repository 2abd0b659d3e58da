"""Connections to hosts: pinned host keys, a deadline on everything, and errors that say which host
and why.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from stacks.access import known_hosts_name
from stacks.base import LabError, Section, UnreachableError

if TYPE_CHECKING:
    import asyncssh

REFUSED = (
    "the key of access.identity is not authorized there, perhaps since a rotation; authorize it, "
    "or name the new key"
)
CONNECT_S = 10
LOGIN_S = 30
"""From the accepted connection to the end of the login: a host whose cores are all busy is slow."""
KEEPALIVE_S = 15
MISSED_KEEPALIVES = 4
PREFERRED_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Preferred; all others stay allowed. AsyncSSH's first choice, ChaCha20, needs five cipher
contexts per packet: a third of the processor time of thousands of short sessions."""

HOST_KEY_ALGORITHMS = ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "rsa-sha2-512", "rsa-sha2-256")
"""For hosts without an ed25519 key."""

Connection: TypeAlias = "asyncssh.SSHClientConnection"
Keys: TypeAlias = "list[asyncssh.SSHKey]"
"""Keys of a login; empty: the running ssh-agent has them."""


class Endpoint(Section):
    """Where a host's SSH answers, and the only key that may answer there."""

    address: str
    port: int
    user: str
    host_key: str

    @property
    def place(self) -> str:
        """Address and port as errors name them."""
        return f"{self.address}:{self.port}"


class NoAnswerError(UnreachableError):
    """A host did not answer; the text says why."""


class BrokenError(NoAnswerError):
    """A connection that failed or broke: worth a second try."""


def keys_of(private_key: str | None) -> Keys:
    """The lab's key from its text; none when the ssh-agent has it.

    Raises:
        LabError: when the key is damaged or has a passphrase.
    """
    import asyncssh  # noqa: PLC0415  # takes a tenth of a second, which previews need not pay

    try:
        return [asyncssh.import_private_key(private_key)] if private_key else []
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise LabError(
            f"the private key of the SSH login cannot be used: {in_short(error)}. Load it into the "
            "ssh-agent with ssh-add, or use an intact key without a passphrase "
            "(ssh-keygen -y -f FILE checks it)"
        ) from None


@asynccontextmanager
async def connected(
    endpoint: Endpoint,
    keys: Keys,
    *,
    name: str = "",
    keepalive_s: float = KEEPALIVE_S,
    pinned_in: str = "access.known_hosts_file",
) -> AsyncIterator[Connection]:
    """A connection to a host. Leaving the block cuts it, so programs there see their input close.

    Args:
        endpoint: the host.
        keys: keys of the login.
        name: the host's name for errors; without it they name the place alone.
        keepalive_s: how often a keepalive is sent to a silent host.
        pinned_in: where the host key comes from, for errors.

    Raises:
        NoAnswerError: when the host does not answer, or is another host.
    """
    import asyncssh  # noqa: PLC0415  # as in keys_of

    where = f"{name} ({endpoint.place})" if name else endpoint.place
    agent = None if keys else ()  # the agent of SSH_AUTH_SOCK
    label = known_hosts_name(endpoint.address, endpoint.port)

    class Accepted(asyncssh.SSHClient):
        """Gives the login its time, once the host has accepted the connection."""

        def connection_made(self, _: Connection) -> None:
            limit.reschedule(asyncio.get_running_loop().time() + LOGIN_S)

    try:
        async with asyncio.timeout(CONNECT_S) as limit:
            connection = await asyncssh.connect(
                endpoint.address,
                endpoint.port,
                client_factory=Accepted,
                username=endpoint.user,
                client_keys=keys,
                agent_path=agent,
                known_hosts=asyncssh.import_known_hosts(f"{label} {endpoint.host_key}\n"),
                config=None,
                preferred_auth="publickey",
                keepalive_interval=keepalive_s,
                keepalive_count_max=MISSED_KEEPALIVES,
                encryption_algs=PREFERRED_CIPHERS,
            )
    except asyncssh.HostKeyNotVerifiable:
        text = f"{where} has another host key than {pinned_in}: nothing was sent"
        raise NoAnswerError(text) from None
    except asyncssh.PermissionDenied:
        raise NoAnswerError(f"{where} refuses the login of {endpoint.user}: {REFUSED}") from None
    except TimeoutError:
        raise NoAnswerError(f"{where} does not answer over SSH in time") from None
    except (OSError, asyncssh.Error) as error:
        raise BrokenError(f"{where} does not answer over SSH: {in_short(error)}") from None
    try:
        yield connection
    finally:
        connection.abort()


async def offered_key(address: str, port: int) -> str:
    """The public key that a host offers, `ssh-ed25519 AAAA…`, without a login. It is not trusted.

    Raises:
        NoAnswerError: when none is offered.
    """
    import asyncssh  # noqa: PLC0415  # as in keys_of

    try:
        async with asyncio.timeout(CONNECT_S):
            kinds = ["ssh-ed25519", *HOST_KEY_ALGORITHMS]
            key = await asyncssh.get_server_host_key(
                address, port, config=None, server_host_key_algs=kinds
            )
    except TimeoutError:
        raise NoAnswerError(f"{address}:{port} does not answer over SSH in time") from None
    except (OSError, asyncssh.Error) as error:
        text = f"{address}:{port} does not answer over SSH: {in_short(error)}"
        raise NoAnswerError(text) from None
    if key:
        return " ".join(key.export_public_key().decode().split()[:2])
    return ""


async def answers(address: str, port: int, timeout_s: float) -> bool:
    """Whether an SSH server greets there; nothing is sent."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return (await reader.read(4)) == b"SSH-"
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def in_short(error: BaseException) -> str:
    """The first line of an error, or what kind it is."""
    return (str(error) or type(error).__name__).splitlines()[0][:160]
