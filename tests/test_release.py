"""What a release consists of: the workflow, the site's pages, the archive and its bill, and the recording."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))


def release(name: str) -> ModuleType:
    """A script of release/, which needs none of its own packages until it runs."""
    spec = importlib.util.spec_from_file_location(f"release_{name}", ROOT / "release" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ci_runs_what_a_checkout_runs_with_enough_time() -> None:
    """`.ci/run` starts tests for up to 65 minutes, and ends in 90."""
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    (checkout,) = (step for step in jobs["test"]["steps"] if "checkout" in step.get("uses", ""))

    assert ".ci/run" in [step.get("run") for step in jobs["test"]["steps"]]
    assert jobs["test"]["timeout-minutes"] > 90
    assert checkout["with"]["fetch-depth"] == 0, "the number of commits chooses the quarter"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_has_what_github_requires(form: Path) -> None:
    content = yaml.safe_load(form.read_text())
    fields = [field for field in content["body"] if field["type"] != "markdown"]

    assert {"name", "description", "body"} <= set(content)
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_a_linked_file_is_part_of_the_site_and_a_linked_folder_gets_a_page(tmp_path: Path) -> None:
    release("site").stage(tmp_path)

    assert "](stacks/hosts.py)" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "stacks" / "hosts.py").is_file()
    assert "](decisions/index.md)" in (tmp_path / "README.md").read_text().replace("](docs/", "](")
    assert "0014-own-provider.md" in (tmp_path / "docs" / "decisions" / "index.md").read_text()


def test_two_archives_of_a_commit_have_the_same_bytes() -> None:
    dist = release("dist")

    assert dist.archive() == dist.archive()


def test_the_bill_names_each_go_module_once_in_each_pinned_version() -> None:
    urls = [module["purl"] for module in release("dist").go_modules()]

    assert len(urls) == len(set(urls))
    assert "pkg:golang/github.com/pulumi/pulumi/sdk/v3@v3.259.0" in urls


def test_the_recording_is_a_picture_that_says_what_it_shows() -> None:
    picture = ET.parse(ROOT / "docs" / "images" / "make-up.svg").getroot()  # noqa: S314  # a file of ours
    texts = "".join(picture.itertext())

    assert "make up on the simulator" in texts
    assert "not rated (simulated)" in texts


def test_the_version_has_a_dated_section_in_the_changelog() -> None:
    version = re.escape(release("dist").version())

    assert re.search(rf"^## {version} \(\d{{4}}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
