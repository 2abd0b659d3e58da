"""The directions of the tree: an arrow that turns around is found here, not in a review."""

import os
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from components.provider.resources import RESOURCES
from tests.conftest import ROOT
from tests.sources import imports, source

PACKAGES = ("stacks", "components", "simulator", "engine")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
WIRING = "lab.py"
"""The only file that imports the components of all layers."""
ALLOWED = {
    "stacks": {"stacks"},
    "components": {"stacks", "components"},
    "simulator": {"stacks", "simulator"},
    "engine": {"stacks", "engine"},
}


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.split(".")[0] in PACKAGES}


def resource_files() -> set[str]:
    """Files that may import Pulumi, as pyproject.toml lists them."""
    ignores = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]["per-file-ignores"]
    patterns = [pattern for pattern, codes in ignores.items() if "TID251" in codes and not pattern.startswith("tests")]
    found: set[str] = set()
    for pattern in patterns:
        found |= {str(Path(name).with_suffix("")).replace("/", ".") for name in expanded(pattern)}
    return found


def expanded(pattern: str) -> list[str]:
    """The paths of a pattern with one pair of braces, or none."""
    braces = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return [f"{braces[1]}{part}{braces[3]}" for part in braces[2].split(",")] if braces else [pattern]


def test_dependencies_point_one_way() -> None:
    wrong = {}
    for path in FILES:
        allowed = ALLOWED[path.relative_to(ROOT).parts[0]]
        if foreign := {name for name in ours(path) if name.split(".")[0] not in allowed}:
            wrong[str(path.relative_to(ROOT))] = foreign

    assert wrong == {}


def test_a_layer_never_imports_resources_of_another() -> None:
    own = {place.partition(":")[0] for place in RESOURCES.values()}
    resources = own | resource_files() - {"stacks.load", "components.provider.program"}
    wrong = {}
    for path in FILES:
        package, layer = path.relative_to(ROOT).parts[:2]
        foreign = {name for name in ours(path) & resources if name.split(".")[:2] != [package, layer]}
        if package == "components" and layer != WIRING and foreign:
            wrong[str(path.relative_to(ROOT))] = foreign

    assert wrong == {}, "a layer receives Outputs as arguments"


def cycle_between(files: dict[str, set[str]], inside: str = "components") -> list[str]:
    """A cycle between the folders and files inside a folder, given the modules that each file imports; or nothing."""
    imported: dict[str, set[str]] = {}
    depth = len(inside.split("/"))
    for file, names in files.items():
        layer = Path(file).parts[depth].removesuffix(".py")
        others = {name.split(".")[depth] for name in names if name.startswith(f"{inside.replace('/', '.')}.")}
        imported.setdefault(layer, set()).update(others - {layer})
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_the_folders_of_components_do_not_import_each_other_in_a_cycle() -> None:
    files = {str(path.relative_to(ROOT)): ours(path) for path in FILES if "components" in path.parts}
    backwards = {**files, "components/kubernetes/client.py": {"components.hosts.fleet"}}

    assert cycle_between(files) == []
    assert {"hosts", "kubernetes"} <= set(cycle_between(backwards)), "or the check finds no cycle at all"


def test_the_folders_of_validation_import_each_other_in_one_direction() -> None:
    inside = "components/validation"
    files = {str(path.relative_to(ROOT)): ours(path) for path in FILES if path.is_relative_to(ROOT / inside)}
    backwards = {**files, f"{inside}/search/measured_fabric.py": {"components.validation.benchmarks.verbs.run"}}

    assert cycle_between(files, inside) == []
    assert {"benchmarks", "search"} <= set(cycle_between(backwards, inside)), "or the check finds no cycle at all"


def test_only_listed_files_import_pulumi() -> None:
    listed = resource_files()
    importing = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in FILES
        if any(name.split(".")[0].startswith("pulumi") for name in imports(path))
        and path.relative_to(ROOT).parts[0] in ("stacks", "components")
    }

    assert importing <= listed


def test_component_tokens_are_unique_and_of_our_form() -> None:
    made = re.compile(r'super\(\).__init__\("(rocelab:[^"]+)"')
    tokens = [token for path in FILES for token in made.findall(path.read_text())]

    assert tokens
    assert len(set(tokens) | RESOURCES.keys()) == len(tokens) + len(RESOURCES)
    assert all(re.fullmatch(r"rocelab:[a-z]+:[A-Z][A-Za-z]+", token) for token in (*tokens, *RESOURCES))


def test_the_wiring_diagram_stays_readable() -> None:
    text = (ROOT / "components" / WIRING).read_text()

    assert len(text.splitlines()) <= 120
    assert ".apply(" not in text, "what is computed belongs into a layer"


DECLARED_AND_READ = {"Cluster", "Gpu", "Pf", "Qos", "System"}
"""A section of the lab file, and what `rocelab look` reads of the same thing (components/inventory/model.py)."""
OF_THE_HOST_PROGRAM = {"Host", "Machine"}
"""The host program cannot import the rest, which has the host of an inventory and the VM of a lab file."""


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, set[str]] = {}
    for path in FILES:
        file = path.relative_to(ROOT)
        if file.parts[0] in ("components", "stacks"):
            for name, line in source(path).classes:
                homes.setdefault(name, set()).add(f"{file}:{line}")
    shared = {name: places for name, places in homes.items() if len(places) > 1}
    program = "components/hosts/program/"

    assert {name: shared[name] for name in shared.keys() - DECLARED_AND_READ - OF_THE_HOST_PROGRAM} == {}
    for name in DECLARED_AND_READ:
        assert {place.partition("/")[0] for place in shared[name]} == {"stacks", "components"}, name
    for name in OF_THE_HOST_PROGRAM:
        assert sum(place.startswith(program) for place in shared[name]) == 1, name


OF_EVERY_BENCHMARK = {"__init__", "plan", "run", "read", "judge"}
NAMED_AFTER_A_WORD = {
    "components/audit/checks",
    "components/cli",
    "components/cluster/ipam",
    "components/hosts/program/steps",
    "components/judge/tables",
    "components/report/charts",
    "components/switches/os",
}
"""Folders with a file per command, step, check, tool or word of the lab file, which names it."""
MOST_SHARED_NAMES = 30
"""So many names are of several files of components/. The number may only get smaller."""


def test_few_files_of_components_share_a_name() -> None:
    """Two files with one name make a reader open both."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "components").rglob("*.py")):
        folder = str(path.parent.relative_to(ROOT))
        if path.stem not in OF_EVERY_BENCHMARK and folder not in NAMED_AFTER_A_WORD:
            places.setdefault(path.stem, []).append(folder)
    shared = {name: folders for name, folders in places.items() if len(folders) > 1}

    assert len(shared) <= MOST_SHARED_NAMES, shared


def test_no_text_of_the_product_names_a_machine_or_a_registry_host() -> None:
    words = (
        "/work" + "/",
        "/root" + "/",
        "proxy.golang" + ".org",
        "pypi" + ".org",
        "deb.debian" + ".org",
        "sum.golang" + ".org",
    )
    skipped = {".venv", ".git", ".engine", ".sim", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__"}
    skipped |= {"build", "dist", "site"}
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = set(folders) - skipped
        for path in (Path(folder, name) for name in set(names) - skipped):
            if path.is_file() and path.stat().st_size <= 2_000_000:
                text = path.read_text(errors="ignore")
                found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]

    assert found == []


def test_hosts_are_reached_by_one_module_alone() -> None:
    importing = {
        path.relative_to(ROOT).parts[1]
        for path in FILES
        if "components" in path.parts and any(name.split(".")[0] == "asyncssh" for name in imports(path))
    }

    assert importing == {"ssh"}, "a second way to connect would pin host keys and bound time a second time"


def test_no_test_module_imports_another() -> None:
    """What several tests share is in a helper module: a test module can be renamed or deleted by itself."""
    of_a_test_module = re.compile(r"^ *(?:from|import) [^\n(]*(?:\([^)]*)?\btest_", re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")

    assert [str(path.relative_to(ROOT)) for path in files if of_a_test_module.search(path.read_text())] == []
