"""The image's recipe as text, and the command with tools that only pretend to build."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from components.cli.app import main
from components.jobs.image.build import target_of
from components.jobs.image.recipe import benchmark_dockerfile
from stacks.base import LabError
from stacks.images import BenchmarkRecipe, Images
from stacks.lab import Lab
from tests.components.jobs.recipes import RECIPES, TRAINING
from tests.conftest import ROOT
from tests.messages import states

DIGEST = "sha256:" + "ab" * 32
GOLDEN = ROOT / "tests" / "golden" / "jobs"

# as little of each tool as the command uses; every call is written down
DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$1" in
build) cp "$5" "$CALLS.dockerfile"; echo "Step 1/9 : FROM x"; echo "Step 9/9 : LABEL y" ;;
push) echo "tag: digest: DIGEST size: 1" ;;
image) echo '["docker.io/nvidia/cuda@DIGEST"]' ;;
esac
""".replace("DIGEST", DIGEST)
PODMAN = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$1" in
build) cp "$7" "$CALLS.dockerfile"; echo "STEP 2/9: RUN x" ;;
push) echo DIGEST > "$3" ;;
esac
""".replace("DIGEST", DIGEST)
BROKEN = """#!/bin/sh
i=0; while [ $i -lt 40 ]; do echo "line $i"; i=$((i+1)); done
echo "manifest unknown" >&2
exit 125
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the reference lab, and no tool on PATH but those that a test puts there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "Pulumi.lab.yaml").write_text((ROOT / "Pulumi.lab.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path


def install(place: Path, name: str, text: str) -> None:
    tool = place / "bin" / name
    # the fakes need cp and friends, which are not on the PATH that the command searches
    tool.write_text(text.replace("#!/bin/sh\n", "#!/bin/sh\nPATH=/usr/bin:/bin\n"))
    tool.chmod(0o755)


def calls(place: Path) -> list[list[str]]:
    return [line.split() for line in (place / "calls").read_text().splitlines()]


@pytest.mark.row("A 19, 38-40")
@pytest.mark.parametrize("name", RECIPES)
def test_the_rendered_recipe_is_the_golden_one(name: str) -> None:
    assert (GOLDEN / f"{name}.Dockerfile").read_text() == RECIPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_every_command_of_a_recipe_passes_shellcheck(name: str, tmp_path: Path) -> None:
    runs = re.findall(r"^RUN ((?:.*\\\n)*.*)$", RECIPES[name], re.MULTILINE)
    assert len(runs) >= 3
    for run in runs:
        script = tmp_path / "run.sh"
        # set -e does not see what fails before the last && of a line; docker ends with the line's own status
        script.write_text(f"#!/bin/bash\nset -euo pipefail\n{run}\n")
        done = subprocess.run(
            [ROOT / ".venv" / "bin" / "shellcheck", "--severity=style", script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", RECIPES)
def test_nothing_in_a_recipe_moves_by_itself(name: str) -> None:
    text = RECIPES[name]

    assert ":latest" not in text
    assert " master" not in text
    for line in text.splitlines():
        if line.startswith("ADD ") and "GPG-KEY" not in line:
            assert re.search(r"[0-9a-f]{64}", text), "what is fetched is compared with its sha256"
        if "git fetch" in line:
            assert re.search(r" [0-9a-f]{40} ", line), "one commit, not a branch"


@pytest.mark.parametrize("name", RECIPES)
def test_sshd_takes_the_mounted_key_and_asks_for_nothing(name: str) -> None:
    """The secret is mounted with the group's rights open: StrictModes refuses it, and the job ends before it begins."""
    text = RECIPES[name]

    for words in ("openssh-server", "'StrictModes no'", "'StrictHostKeyChecking no'", "/run/sshd", "/usr/sbin/sshd -t"):
        assert words in text
    assert "SetEnv" in text, "MPI's daemons start in sessions that know nothing of the image's environment"


def test_the_flavours_differ_in_the_verbs_alone() -> None:
    distribution, vendor = RECIPES["benchmark-distribution"], RECIPES["benchmark-vendor"]

    assert "ibverbs-providers" in distribution
    assert "mellanox" not in distribution, "PVRDMA does not work with the vendor's libraries (the Bitfusion article)"
    assert "doca-ofed-userspace" in vendor
    assert "ibverbs-providers" not in vendor
    assert vendor.index("doca.list") < vendor.index("apt-get install"), "nothing may link to the distribution's verbs"


def test_gpu_architectures_are_the_lab_s(lab: Lab) -> None:
    del lab
    text = benchmark_dockerfile(BenchmarkRecipe(gpu_architectures=(100, 90)))

    assert "code=sm_100 " in text
    assert "arch=compute_100,code=compute_100" in text, "PTX of the newest, whatever the order"
    assert "sm_70" not in text


@pytest.mark.row("A 247, 258", "C 420-424")
@pytest.mark.parametrize(("tool", "text"), [("docker", DOCKER), ("podman", PODMAN), ("buildah", PODMAN)])
def test_push_builds_pushes_and_says_what_belongs_into_the_stack(
    place: Path, tool: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install(place, tool, text)
    assert main(["image", "push"]) == 0
    out, err = capsys.readouterr()

    pinned = f"192.168.100.10:5000/nccl-roce-test@{DIGEST}"
    assert out == f"{pinned}\n"
    assert f"rocelab:lab.benchmarks.nccl.image' {pinned}" in err
    assert [call[0] for call in calls(place)][:2] == ["build", "push"]
    assert (place / "calls.dockerfile").read_text() == RECIPES["benchmark-distribution"]
    result = json.loads((place / ".images" / "lab-benchmark.json").read_text())
    assert (result["image"], result["tool"]) == (pinned, tool)
    assert result["base_digest"].startswith("sha256:4b9ed5fa"), "the base is pinned, so nobody has to be asked"
    assert re.search(r"\d+\.\d s  [129]/9 ", err), "a line for each step"


def test_the_first_tool_on_the_path_is_taken_unless_another_is_asked_for(place: Path) -> None:
    install(place, "docker", DOCKER)
    install(place, "podman", PODMAN)
    assert main(["image", "build", "--tool", "podman"]) == 0
    assert main(["image", "build"]) == 0

    assert ["--format" in call for call in calls(place) if call[0] == "build"] == [True, False]


def test_docker_without_a_daemon_leaves_the_work_to_the_next_tool(place: Path) -> None:
    install(place, "docker", BROKEN)
    install(place, "podman", PODMAN)
    assert main(["image", "build"]) == 0

    assert ["--format" in call for call in calls(place)] == [True]


def test_without_a_tool_the_error_has_the_remedy(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del place  # its empty PATH is what counts
    assert main(["image", "push"]) == 2
    assert states(capsys.readouterr().err, "docker, podman, buildah", "PATH")


def test_a_failed_build_shows_the_tool_s_last_lines_and_pushes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(place, "docker", BROKEN)
    assert main(["image", "push"]) == 2
    error = capsys.readouterr().err.partition("failed:")[2]

    assert "ended with 125" in error
    assert "manifest unknown" in error
    assert len(error.splitlines()) <= 15
    assert not (place / ".images").exists()


def test_a_push_without_a_digest_is_no_success(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(place, "docker", DOCKER.replace("digest:", "").replace(DIGEST, ""))
    assert main(["image", "push"]) == 2
    assert "reported no digest" in capsys.readouterr().err


def test_an_image_named_by_digest_is_built_under_the_recipe_s_own_tag(lab: Lab) -> None:
    assert lab.benchmarks
    assert lab.benchmarks.nccl
    pinned = lab.benchmarks.nccl.model_copy(update={"image": f"registry.example:5000/nccl@{DIGEST}"})
    target = target_of(
        lab.model_copy(update={"benchmarks": lab.benchmarks.model_copy(update={"nccl": pinned})}), "benchmark"
    )

    assert re.fullmatch(r"registry\.example:5000/nccl:recipe-[0-9a-f]{12}", target.tag)


def test_another_name_without_a_tag_is_pinned_under_its_whole_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port of a registry is no tag: what belongs into the stack would be half a name."""
    install(place, "docker", DOCKER)
    assert main(["image", "push", "--to", "registry.example:5000/mine/nccl"]) == 0

    assert capsys.readouterr().out == f"registry.example:5000/mine/nccl@{DIGEST}\n"
    tag = calls(place)[1][1]
    assert re.fullmatch(r"registry\.example:5000/mine/nccl:recipe-[0-9a-f]{12}", tag)


def test_a_digest_cannot_be_pushed_to(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(place, "docker", DOCKER)
    assert main(["image", "push", "--to", f"registry.example:5000/nccl@{DIGEST}"]) == 2
    assert "name a tag" in capsys.readouterr().err
    assert not (place / "calls").exists()


def test_the_training_image_goes_where_the_lab_says(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "show", "--which", "training"]) == 2
    assert "images.training.image: missing" in capsys.readouterr().err

    file = place / "Pulumi.lab.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"]["rocelab:lab"]["images"] = {"training": {"image": TRAINING.image}}
    file.write_text(yaml.safe_dump(content))
    assert main(["image", "show", "--which", "training"]) == 0
    assert capsys.readouterr().out == RECIPES["training"]


def test_a_lab_without_a_name_for_the_image_is_refused(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"benchmarks\.nccl\.image: missing"):
        target_of(lab.model_copy(update={"benchmarks": None}), "benchmark")
    assert (
        target_of(lab.model_copy(update={"benchmarks": None, "images": Images()}), "benchmark", "a/b:1").tag == "a/b:1"
    )


def test_the_vendor_s_libraries_are_out_before_ubuntu_s_come_in() -> None:
    """The Bitfusion article's way to PVRDMA: with both in one image the programs find no device, and say nothing."""
    text = RECIPES["training-distribution"]

    assert text.index("apt-get purge") < text.index("ibverbs-providers")
    assert "apt-get purge" not in RECIPES["training"]
