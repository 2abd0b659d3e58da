"""Takes secrets out of texts that are kept: those that are configured, and whatever looks like one.
Pure.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pydantic import JsonValue

from stacks.host_keys import SEED_KEY
from stacks.secret_files import BITFUSION_KEY, LICENCE_KEY

if TYPE_CHECKING:
    from components.ssh.credentials import LabAccess, Setting

SECRETS = ("sshPrivateKey", "kubeconfig", "vcenterPassword", SEED_KEY, LICENCE_KEY, BITFUSION_KEY)
GONE = "[redacted]"
SHORTEST_SECRET = 6
"""Shorter words also occur by chance; a whole secret of so few letters protects nothing."""
SHORTEST_LINE = 16
"""Each longer line of a secret counts on its own: tools print keys in parts."""

PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}")
JSON_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*")
NAMED = re.compile(
    r"(?i)(passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|client-key-data|credential)"
    r"""([\w.-]*["']?[ \t]*[:=][ \t]*)("(?:[^"\\\n]|\\.)+"|'[^'\n]+'|[^\s"',;}\])]{3,})"""
)
"""A value after a name that marks it as a secret, in shell, YAML and JSON."""
USER_IN_URL = re.compile(r"(\w+://[^\s:/@]+:)[^\s/@]+@")
ENVIRONMENT = re.compile(r'"env"\s*:\s*\[(?:\s*"(?:[^"\\]|\\.)*"\s*,?)*\s*\]')
"""nccl-tests write the whole environment of a rank into their JSON."""
KUBECONFIG_SECRET = re.compile(
    r"^\s*(?:token|password|client-key-data|client-certificate-data):\s*[\"']?([^\s\"']+)",
    re.MULTILINE,
)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets; what is no secret stays as it was, so that numbers can still be
    read from it.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        text = text.replace(secret, GONE)
    text = PRIVATE_KEY.sub(GONE, text)
    text = JSON_WEB_TOKEN.sub(GONE, text)
    text = BEARER.sub(rf"\1 {GONE}", text)
    text = NAMED.sub(rf"\1\2{GONE}", text)
    text = USER_IN_URL.sub(rf"\1{GONE}@", text)
    return ENVIRONMENT.sub(f'"env": ["{GONE}"]', text)


def redacted_fields(fields: JsonValue, secrets: Iterable[str] = ()) -> JsonValue:
    """The fields with each text redacted separately: in JSON text a replaced quotation mark would
    do damage.
    """
    known = tuple(secrets)
    texts: dict[str, str] = {}

    def walk(value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            if value not in texts:  # a large run names its nodes and rails thousands of times
                texts[value] = redacted(value, known)
            return texts[value]
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        return value

    return walk(fields)


def needles_of(setting: "Setting", access: "LabAccess | None") -> tuple[str, ...]:
    """The texts of a stack that must not be stored: its secrets, and the keys to hosts and cluster,
    if it has any.
    """
    values = [setting(name) for name in SECRETS]
    configured = [value for value in values if isinstance(value, str)]
    opened = []
    if access:
        opened = [access.login.private_key, access.kubeconfig]
    return needles([*configured, *opened])


def needles(configured: Iterable[str | None]) -> tuple[str, ...]:
    """The texts that must not be kept, from what is configured: passwords, keys, and what a
    kubeconfig holds.
    """
    return tuple(dict.fromkeys(needle for value in configured if value for needle in _of(value)))


def _of(value: str) -> Iterator[str]:
    if "apiVersion:" in value and "clusters:" in value:
        for secret in KUBECONFIG_SECRET.findall(value):
            yield secret
            yield from _lines(_decoded(secret))
        return
    yield from _lines(value)


def _lines(value: str) -> Iterator[str]:
    if "\n" not in value.strip():
        if len(value.strip()) >= SHORTEST_SECRET:
            yield value.strip()
        return
    for line in value.splitlines():
        if len(line.strip()) >= SHORTEST_LINE and not line.startswith("-----"):
            yield line.strip()


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
