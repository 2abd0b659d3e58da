"""The versions by which the programs of the real cluster name themselves are those of their sources."""

import pytest

from tests.integration.kubeadm.programs import CONTAINERD_VERSION, MODULES, VERSION


def required(go_mod: str) -> dict[str, str]:
    """Version by module."""
    lines = (line.removeprefix("require ").split() for line in go_mod.splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1 and words[1].startswith("v")}


@pytest.mark.parametrize(
    ("folder", "module", "version"),
    [
        ("kube", "k8s.io/kubernetes", f"v{VERSION}"),
        ("containerd", "github.com/containerd/containerd/v2", f"v{CONTAINERD_VERSION}"),
    ],
)
def test_a_program_names_the_version_that_it_is_built_from(folder: str, module: str, version: str) -> None:
    assert required((MODULES[folder] / "go.mod").read_text())[module] == version
