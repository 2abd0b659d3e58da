"""The changed copies of pinned modules: a text that has moved ends the build, and what was taken out is said to be."""

import os
import subprocess
from pathlib import Path

import grpc
import pytest
from plugin_client import Plugin

from engine import store, upstream
from engine.parts import PARTS
from tests.messages import lines_naming, stating

BUILT = {part.name: store.built_folder(part) / part.binaries[0] for part in PARTS}
KUBERNETES = next(part for part in PARTS if part.name == "kubernetes")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    file = tmp_path / "server.go"
    file.write_text("one two two")
    return file


def test_a_text_is_replaced_where_it_occurs_once(copied: Path) -> None:
    upstream.edit(copied, [("one", "1")])

    assert copied.read_text() == "1 two two"


@pytest.mark.parametrize(("text", "times"), [("three", 0), ("two", 2)])
def test_a_text_that_has_moved_ends_the_build_by_its_name(copied: Path, text: str, times: int) -> None:
    with pytest.raises(SystemExit, check=stating("server.go:", f"'{text}'", f"{times} times")):
        upstream.edit(copied, [("one", "1"), (text, "x")])

    assert copied.read_text() == "one two two"


def test_a_text_is_cut_from_its_start_up_to_what_follows(copied: Path) -> None:
    copied.write_text("one two three four")

    upstream.cut(copied, "two", "four")

    assert copied.read_text() == "one four"


@pytest.mark.parametrize(("start", "end"), [("three", "one"), ("one", "three"), ("one", "two")])
def test_a_cut_whose_ends_have_moved_ends_the_build(copied: Path, start: str, end: str) -> None:
    with pytest.raises(SystemExit, match="expected"):
        upstream.cut(copied, start, end)

    assert copied.read_text() == "one two two"


@pytest.mark.sim
@pytest.mark.parametrize(
    "component",
    ["yaml/v2:ConfigFile", "yaml/v2:ConfigGroup", "helm.sh/v4:Chart", "kustomize/v2:Directory"],
)
def test_a_component_that_the_built_provider_lacks_is_refused_by_its_name(component: str, tmp_path: Path) -> None:
    program = BUILT["kubernetes"]
    if not program.exists():
        pytest.skip("our Kubernetes provider is not built as its sources are now: run make setup")
    # rendering to files needs no cluster
    plugin = Plugin(program, tmp_path, dict(os.environ), {"kubernetes:config:renderYamlToDirectory": str(tmp_path)})
    try:
        with pytest.raises(grpc.RpcError, check=stating(f"kubernetes:{component}", "this build")):
            plugin.construct(f"kubernetes:{component}")
        assert plugin.version() == KUBERNETES.version, "it goes on"
    finally:
        plugin.close()


@pytest.mark.sim
@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["login", "gs://bucket"], "backend gs://"),
        (["login", "azblob://container"], "backend azblob://"),
        *(
            (["stack", "init", "s", "--secrets-provider", f"{scheme}://key"], f"secrets provider {scheme}://")
            for scheme in ("awskms", "azurekeyvault", "gcpkms", "hashivault")
        ),
    ],
)
def test_what_the_built_cli_goes_without_is_named_by_its_error(
    arguments: list[str], missing: str, tmp_path: Path
) -> None:
    if not BUILT["pulumi"].exists():
        pytest.skip("our Pulumi CLI is not built as its sources are now: run make setup")
    (tmp_path / "Pulumi.yaml").write_text("name: probe\nruntime: python\n")
    (tmp_path / "backend").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PULUMI_BACKEND_URL": f"file://{tmp_path}/backend"}

    done = subprocess.run(
        [BUILT["pulumi"], *arguments, "--non-interactive"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip

    assert done.returncode != 0
    assert lines_naming(done.stdout, missing, "this build")
