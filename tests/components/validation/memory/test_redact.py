"""Redaction: a canary in every disguise is gone, and what tools print of speeds stays as it was."""

import base64

import pytest

from components.validation.redact import needles, redacted
from tests.components.validation.samples import perftest
from tests.conftest import ROOT

CANARY = "c4n4ry-in-a-coal-mine"
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA{CANARY}AAAA\n-----END OPENSSH PRIVATE KEY-----\n"
KUBECONFIG = f"""apiVersion: v1
clusters: [{{name: lab, cluster: {{server: "https://127.0.12.200:6443"}}}}]
users:
- name: admin
  user:
    client-key-data: {base64.b64encode(KEY.encode()).decode()}
    token: {CANARY}
"""


@pytest.mark.parametrize(
    "text",
    [
        f"export PASSWORD={CANARY}",
        f"db-password: '{CANARY}'",
        f'{{"name": "REGISTRY_TOKEN", "token": "{CANARY}"}}',
        f"Authorization: Bearer {CANARY}",
        f"AWS_SECRET_ACCESS_KEY={CANARY}",
        f"http://user:{CANARY}@proxy:3128/",
        f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIx{CANARY}.c2ln",
        KEY,
        KEY.partition("-----END")[0],
        KUBECONFIG,
        f'{{"config": {{}}, "env": ["HOME=/root", "A=[\\"{CANARY}\\"]"], "rank": 0}}',
    ],
)
def test_an_unconfigured_secret_is_recognized_by_its_format(text: str) -> None:
    assert CANARY not in redacted(text)
    assert "redacted" in redacted(text)


@pytest.mark.parametrize(
    ("configured", "text"),
    [
        (CANARY, f"the host said {CANARY}"),
        (KEY, f"a line of it: b3BlbnNzaC1rZXktdjEA{CANARY}AAAA"),
        (KUBECONFIG, f"{CANARY} and b3BlbnNzaC1rZXktdjEA{CANARY}AAAA"),
    ],
)
def test_a_configured_secret_is_removed_everywhere(configured: str, text: str) -> None:
    assert CANARY not in redacted(text, needles([configured, None]))


def test_a_kubeconfig_makes_no_secret_of_its_server() -> None:
    assert "https://127.0.12.200:6443" in redacted("at https://127.0.12.200:6443", needles([KUBECONFIG]))


def test_what_tools_print_of_speeds_stays_as_it_was() -> None:
    folder = ROOT / "tests" / "samples"
    texts = [path.read_text() for path in sorted(folder.rglob("*.txt"))]

    assert len(texts) > 10
    assert [text for text in texts if redacted(text, needles([CANARY, KEY])) != text] == []
    assert "BW average" in redacted(perftest("wbw.client"))
