"""All pages: their links lead somewhere, and the commands that they show exist and run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.cli.app import main, rocelab
from tests.conftest import ROOT

FOLDERS = ("docs", "engine", "examples", "simulator", "templates", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path, program: str) -> Iterator[list[str]]:
    """The words behind a program in the page's code blocks, up to a comment, a pipe or a redirection."""
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(rf"(?:^|&& ){program} (.*)", line.strip())
            if found:
                yield shlex.split(re.split(r" [|>&<]|&&", re.sub(r"\s#.*", "", found[1]))[0], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=name_of)
def test_a_page_is_about_one_task_and_so_not_long(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= 250


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_is_in_the_makefile(page: Path) -> None:
    targets = {word for words in commands(page, "make") for word in words if re.fullmatch(r"[a-z-]+", word)}
    makefile = (ROOT / "Makefile").read_text()

    made = {name for line in re.findall(r"^([a-z -]+):", makefile, re.MULTILINE) for name in line.split()}
    assert targets <= made


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_rocelab_command_knows_the_options_that_the_page_gives_it(page: Path) -> None:
    for words in commands(page, "rocelab"):
        if words == ["--help"]:
            continue
        command = rocelab
        rest = list(words)
        while hasattr(command, "commands") or hasattr(command, "list_commands"):
            following = command.get_command(None, rest[0])
            assert following is not None, " ".join(words)
            command, rest = following, rest[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        assert [word for word in rest if word.startswith("--") and word not in known] == [], " ".join(words)


@pytest.mark.parametrize("page", [page for page in PAGES if "examples" in page.parts], ids=name_of)
def test_what_an_example_shows_without_hardware_runs_without_hardware(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", "")  # neither pulumi nor docker nor ssh
    offline = [words for words in commands(page, "rocelab") if "--config-file" in words]

    assert len(offline) >= 2
    for words in offline:
        assert main(words) == 0, f"{' '.join(words)}: {capsys.readouterr().err}"
        assert len(capsys.readouterr().out) > 100, " ".join(words)


def test_the_first_step_of_a_contributor_is_the_check_that_test_registries_adds_to_a_copy() -> None:
    example = (ROOT / "tests" / "additions" / "audit_check.py").read_text().partition("\n\n")[2].strip()

    assert f"```python\n{example}\n```" in (ROOT / "CONTRIBUTING.md").read_text()
