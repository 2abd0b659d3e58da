"""The workflows of docs/review.md: they parse, and GitLab's finds its own comment behind those of others."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from components.cli.review import FAIL_ON
from components.finding import COMMENT_LIMIT
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "review.md").read_text()
GITHUB, GITLAB = (yaml.load(text, yaml.BaseLoader) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))  # noqa: S506  # `on` stays a word
GITHUB_STEPS = GITHUB["jobs"]["pod1"]["steps"]
SCRIPTS = [step["run"] for step in GITHUB_STEPS if "run" in step] + GITLAB["review:pod1"]["script"]
MARKER = "<!-- rocelab:review pod1 -->"
ME, OTHER = 7, 8


class Notes(BaseHTTPRequestHandler):
    """GitLab's notes of one merge request, two pages of them, with what was written."""

    pages: ClassVar[list[list[dict[str, Any]]]] = []
    written: ClassVar[list[tuple[str, str, str]]] = []

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        page = int(parse_qs(url.query).get("page", ["1"])[0])
        if url.path.endswith("/user"):
            self._answer({"id": ME}, "")
        else:
            self._answer(self.pages[page - 1], str(page + 1) if page < len(self.pages) else "")

    def do_PUT(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["body"][0]
        self.written.append((self.command, self.path, body))
        self._answer({}, "")

    do_POST = do_PUT  # noqa: N815  # the server asks for this name

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, content: object, following: str) -> None:
        refused = self.headers["PRIVATE-TOKEN"] != "a-token"
        text = json.dumps(content).encode()
        self.send_response(401 if refused else 200)
        self.send_header("X-Next-Page", following)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def gitlab(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Notes, "written", [])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api/v4"
    server.shutdown()
    server.server_close()


def note(number: int, author: int, body: str) -> dict[str, Any]:
    return {"id": number, "author": {"id": author}, "body": body}


def commented(api: str, folder: Path) -> int:
    work = folder / "work"
    work.mkdir()
    (work / "comment.md").write_text(f"{MARKER}\n### pod1: 7 hosts reboot & more\n")
    *_, first, last = GITLAB["review:pod1"]["script"]
    (trap,) = re.findall("^trap .*", first, re.MULTILINE)
    script = f"set -eo pipefail\nwork={work} code=3\n{trap}\n{last}"
    env = {"CI_API_V4_URL": api, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "5", "REVIEW_TOKEN": "a-token"}
    done = subprocess.run(
        ["bash", "-c", script],
        env={**env, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "a-token" not in done.stdout + done.stderr
    assert done.stderr == ""
    return done.returncode


needs_tools = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("jq")), reason="GitLab's comment is not tried: no curl or no jq"
)


@needs_tools
def test_gitlab_s_comment_is_replaced_on_whichever_page_it_is(
    gitlab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [note(1, OTHER, f"{MARKER}\nforged"), note(2, ME, "<!-- rocelab:review pod10 -->\n")]
    monkeypatch.setattr(Notes, "pages", [first, [note(3, ME, f"{MARKER}\nold")]])

    assert commented(gitlab, tmp_path) == 3
    written = [("PUT", "/api/v4/projects/1/merge_requests/5/notes/3", f"{MARKER}\n### pod1: 7 hosts reboot & more\n")]
    assert Notes.written == written
    assert not (tmp_path / "work").exists(), "the token does not stay on the runner"


@needs_tools
def test_gitlab_s_first_comment_is_made(gitlab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notes, "pages", [[note(1, OTHER, f"{MARKER}\nforged")], []])

    assert commented(gitlab, tmp_path) == 3
    assert [(verb, path) for verb, path, _ in Notes.written] == [("POST", "/api/v4/projects/1/merge_requests/5/notes")]


@needs_tools
def test_github_s_comment_is_found_by_marker_and_author() -> None:
    (query,) = re.findall(r"'(\.\[\] .*)'", SCRIPTS[2])
    comments = [
        {"id": 1, "user": {"login": "somebody"}, "body": f"{MARKER}\nforged"},
        {"id": 2, "user": {"login": "github-actions[bot]"}, "body": "<!-- rocelab:review pod10 -->"},
        {"id": 3, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\r\nold"},
    ]
    done = subprocess.run(
        ["jq", query],
        env={"MARKER": MARKER, "PATH": "/usr/bin:/bin"},
        input=json.dumps(comments),
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout == "3\n"


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_is_one_that_bash_reads(script: str) -> None:
    subprocess.run(["bash", "-n", "-c", script], check=True, timeout=10)


def test_a_fork_s_change_gets_neither_secrets_nor_a_comment() -> None:
    assert GITHUB["on"] == "pull_request"
    assert "head.repo.full_name == github.repository" in GITHUB["jobs"]["pod1"]["if"]
    assert "SOURCE_PROJECT_ID == $CI_PROJECT_ID" in GITLAB["review:pod1"]["rules"][0]["if"]


def test_only_the_step_that_comments_has_the_token_and_only_the_preview_the_passphrase() -> None:
    holders = {name: step["name"] for step in GITHUB_STEPS for name in step.get("env", {})}

    assert holders == {"PULUMI_CONFIG_PASSPHRASE": "Preview", "GH_TOKEN": "Comment"}
    assert "env" in GITHUB["jobs"]["pod1"]
    assert not {"GH_TOKEN", "PULUMI_CONFIG_PASSPHRASE"} & set(GITHUB["jobs"]["pod1"]["env"])


def test_the_page_has_every_effect_of_fail_on_and_the_limit() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `--fail-on"))

    assert re.findall(r"`([a-z]+)`", row) == list(FAIL_ON)
    assert f"{COMMENT_LIMIT:,} by default" in PAGE
