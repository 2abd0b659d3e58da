"""Python programs under the real CLI and our language host, with a backend in a folder of the test."""

import signal
import time
from pathlib import Path

import pytest
from cli_project import Project
from ssh_host import wait_until

from engine.places import BIN, VENV
from tests.messages import lines_naming

HOST = BIN / "pulumi-language-python"

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(not HOST.exists(), reason="the engine is not in place: run make setup"),
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, str(VENV))


def processes(word: str) -> list[int]:
    """Processes whose command line holds a word."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_program_runs_and_prints_and_exports(project: Project) -> None:
    project.write("""
        import pulumi, sys
        print("hello from", sys.prefix)
        pulumi.export("answer", 42)
    """)

    printed = project.up()

    assert f"hello from {VENV}" in printed, "the program runs in the environment that Pulumi.yaml names"
    assert project.pulumi("stack", "output", "answer", "--stack", "t").strip() == "42"
    assert "warning" not in printed, "the CLI finds its host beside itself and has nothing to warn of"


def test_an_error_of_the_user_is_its_message_and_nothing_else(project: Project) -> None:
    project.write("import pulumi\nraise pulumi.RunError('lab.rails: two rails share VLAN 111')\n")

    printed = project.up(fails=True)

    assert "error: lab.rails: two rails share VLAN 111" in printed
    assert "Traceback" not in printed
    assert "exited with" not in printed


def test_a_fault_of_the_program_shows_where(project: Project) -> None:
    project.write("\nvlan = {}['rail-a']\n")

    printed = project.up(fails=True)

    assert "line 2, in <module>" in printed
    assert "KeyError: 'rail-a'" in printed


def test_a_silent_failure_names_the_exit_code(project: Project) -> None:
    project.write("import sys\nsys.exit(3)\n")

    assert lines_naming(project.up(fails=True), "exit code: 3")


def test_a_missing_environment_says_how_to_make_it(tmp_path: Path) -> None:
    project = Project(tmp_path, "nowhere")
    project.write("import pulumi\n")

    assert "run: make setup" in project.up(fails=True)


def test_a_configuration_too_large_for_the_runner_is_refused_with_its_size(project: Project) -> None:
    project.write("import pulumi\n")
    (project.folder / "Pulumi.t.yaml").write_text(f"config: {{probe:lab: {{text: {'x' * 140_000}}}}}\n")

    printed = project.up(fails=True)

    assert lines_naming(printed, "131057", "rocelab:lab:", "file:")
    assert "Traceback" not in printed


def test_about_names_the_interpreter_and_the_packages(project: Project) -> None:
    project.write("import pulumi\n")

    printed = project.pulumi("about", "--stack", "t")

    assert f"{VENV}/bin/python" in printed
    assert "pulumi_kubernetes" in printed.replace("-", "_")


def test_a_replaced_trigger_runs_the_command_again_under_the_engine(project: Project) -> None:
    program = """
        import pulumi
        from pulumi_command import local
        command = local.Command("c", create="echo run >> runs", delete="echo undone >> runs", triggers=[{0}])
        pulumi.export("id", command.id)
    """
    for trigger in (1, 1, 2):
        project.write(program.format(trigger))
        printed = project.up()

    assert (project.folder / "runs").read_text().split() == ["run", "run", "undone"]
    assert "1 replaced" in printed


@pytest.mark.whole
def test_the_host_ends_when_its_engine_is_killed(project: Project) -> None:
    project.write("import time\ntime.sleep(45)\n")
    before = set(processes(str(HOST)))
    engine = project.start("up", "--yes", "--skip-preview", "--stack", "t")
    wait_until(lambda: bool(processes(f"{project.folder}\0--dry_run")))
    hosts = set(processes(str(HOST))) - before

    engine.kill()
    engine.communicate()

    assert len(hosts) >= 1
    wait_until(lambda: not hosts & set(processes(str(HOST))), timeout_s=30)
    wait_until(lambda: not processes(f"{project.folder}\0--dry_run"), timeout_s=30)


@pytest.mark.whole
def test_an_interrupted_run_ends_at_once(project: Project) -> None:
    """The engine waits five seconds for a host that does not end; so long needs any end on a machine at work, once."""
    project.write("import time\ntime.sleep(45)\n")

    assert any(seconds_to_end_after_an_interrupt(project) < 4 for _ in range(3))


def seconds_to_end_after_an_interrupt(project: Project) -> float:
    engine = project.start("preview", "--stack", "t")
    wait_until(lambda: bool(processes(f"{project.folder}\0--dry_run")))

    start = time.monotonic()
    engine.send_signal(signal.SIGINT)
    engine.communicate(timeout=30)
    took = time.monotonic() - start

    wait_until(lambda: not processes(f"{project.folder}\0--dry_run"), timeout_s=30)
    return took
