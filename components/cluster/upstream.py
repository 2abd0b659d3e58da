"""Pinned upstream files, kept outside the checkout. `rocelab store` fetches all of them."""

import hashlib
import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from components.cluster.manifests import Manifest
from stacks.base import LabError, members
from stacks.bill import MPIJOBS_DEFINITION, NETWORKS_DEFINITION, OPERATOR_DEFINITIONS, Upstream
from stacks.files import write_file
from stacks.frozen import frozen
from stacks.ipam import Ipam, IpamBase
from stacks.safe_yaml import load_kubernetes_yaml

LARGEST_FILE_BYTES = 5_000_000
GO_TIMEOUT_S = 300
"""A module's whole zip comes with the file; the largest here has 2 MB."""
RELEASE_TIMEOUT_S = 30


class _NotHereError(Exception):
    """A route does not have the file; the text says why."""


@frozen
class Store:
    """The places of upstream files, nearest first. Each file must have its pinned SHA-256."""

    cache: Path
    mirror: Path | None = None
    """A folder that a user filled: `<name>-<version>/<file>`."""

    @classmethod
    def from_environment(cls) -> "Store":
        """The user's cache (XDG base directories) and, where set, the folder ROCELAB_MIRROR."""
        home = os.environ.get("XDG_CACHE_HOME")
        mirror = os.environ.get("ROCELAB_MIRROR")
        base = Path(home) if home else Path.home() / ".cache"
        folder = Path(mirror) if mirror else None
        return cls(cache=base / "rocelab" / "store", mirror=folder)

    def path(self, file: Upstream) -> Path:
        """Path of the file once it is fetched. It contains the hash, so a new pin has a new
        path.
        """
        return self.cache / f"{file.name}-{file.version}-{file.sha256[:12]}" / Path(file.path).name

    def read(self, file: Upstream) -> str:
        """The text of the file, from this machine only.

        A Pulumi program must not wait for a download, which would block the engine's event loop.
        `make setup` fetches ahead.

        Raises:
            LabError: with the command that fetches.
        """
        for get in (self._from_cache, self._from_mirror):
            try:
                return _checked(file, get(file)).decode()
            except _NotHereError:
                continue
        raise LabError(
            f"{file.path} of {file.name} {file.version} has not been fetched yet. "
            "Fetch it: make setup (or rocelab store)"
        )

    def fetch(self, file: Upstream) -> tuple[str, str]:
        """The text of the file, and its route.

        Raises:
            LabError: with the reason of every route.
        """
        routes: dict[str, Callable[[Upstream], bytes]] = {
            "cache": self._from_cache,
            "mirror": self._from_mirror,
            "module": _from_module,
            "release": _from_release,
        }
        lacking: list[str] = []
        for route, get in routes.items():
            try:
                content = _checked(file, get(file))
            except _NotHereError as reason:
                lacking.append(f"  {route:<8} {reason}")
                continue
            if route != "cache":
                self._keep(file, content)
            return content.decode(), route
        title = f"{file.path} of {file.name} {file.version} is needed, but no route has it:"
        where = f"<folder>/{file.name}-{file.version}/{Path(file.path).name}"
        remedy = f"Open one route, or put the file at {where} and set ROCELAB_MIRROR=<folder>"
        raise LabError("\n".join([title, *lacking, remedy]))

    def _from_cache(self, file: Upstream) -> bytes:
        return _read(self.path(file))

    def _from_mirror(self, file: Upstream) -> bytes:
        if self.mirror is None:
            raise _NotHereError("ROCELAB_MIRROR names no folder")
        return _read(self.mirror / f"{file.name}-{file.version}" / Path(file.path).name)

    def _keep(self, file: Upstream, content: bytes) -> None:
        path = self.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)


def _from_module(file: Upstream) -> bytes:
    """From the release's Go module, which the checksum database verifies too."""
    with tempfile.TemporaryDirectory(prefix="rocelab-store-") as folder:
        # an empty module, so that the checkout's go.mod does not change
        (Path(folder) / "go.mod").write_text("module store\n")
        try:
            done = subprocess.run(
                ["go", "mod", "download", "-json", f"{file.module}@{file.version}"],
                cwd=folder,
                env={**os.environ, "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"},
                capture_output=True,
                text=True,
                timeout=GO_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise _NotHereError("go is not installed") from None
        except subprocess.TimeoutExpired:
            raise _NotHereError(f"go mod download did not end within {GO_TIMEOUT_S} s") from None
    try:
        module = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise _NotHereError(f"go mod download: {_last_line(done.stderr)}") from None
    if done.returncode or "Dir" not in module:
        raise _NotHereError(f"go mod download: {_last_line(module.get('Error', done.stderr))}")
    return _read(Path(module["Dir"]) / file.path)


def _from_release(file: Upstream) -> bytes:
    try:
        # the address is from stacks/bill.py, and always https
        with urllib.request.urlopen(file.url, timeout=RELEASE_TIMEOUT_S) as answer:  # noqa: S310
            content: bytes = answer.read(LARGEST_FILE_BYTES + 1)
            return content
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise _NotHereError(f"{file.url}: {getattr(error, 'reason', None) or error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _NotHereError(f"{path}: {error.strerror}") from None


def _checked(file: Upstream, content: bytes) -> bytes:
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise _NotHereError(f"its sha256 is {digest[:12]}…, but {file.sha256[:12]}… is pinned")
    return content


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"


def upstream_files() -> tuple[Upstream, ...]:
    """Every file that some lab needs."""
    models = [model for model in members(Ipam, "kind").values() if issubclass(model, IpamBase)]
    return (
        NETWORKS_DEFINITION,
        MPIJOBS_DEFINITION,
        *(file for model in models for file in model.DEFINITIONS.values()),
    )


def operator_definitions(store: Store) -> dict[str, str]:
    """Fetches the definitions of the operators' own kinds; returns version and route of each,
    or what is missing.
    """
    return {kind: _first_of(store, releases) for kind, releases in OPERATOR_DEFINITIONS.items()}


def _first_of(store: Store, releases: Sequence[Upstream]) -> str:
    for file in releases:
        try:
            _, route = store.fetch(file)
        except LabError:
            continue
        return f"{file.version}, {route}"
    return "not available here; the tests that compare with it are skipped"


def read_definitions(
    store: Store, kinds: Mapping[str, Upstream | Manifest]
) -> Mapping[str, Manifest]:
    """The definitions of these kinds (`profiles.kinds`).

    Raises:
        LabError: when an upstream file is missing, or not a definition.
    """
    definitions: dict[str, Manifest] = {}
    for key, kind in kinds.items():
        if isinstance(kind, Upstream):
            definitions[key] = parse_definition(store.read(kind))
        else:
            definitions[key] = kind
    return definitions


def parse_definition(text: str) -> Manifest:
    """A definition without descriptions: the API server checks the same, and the state is a fifth
    of the size.
    """
    definition = load_kubernetes_yaml(text)
    kind = None
    if isinstance(definition, dict):
        kind = definition.get("kind")
    if kind != "CustomResourceDefinition":
        raise LabError(
            "an upstream file of stacks/bill.py is not a CustomResourceDefinition; correct its path"
        )
    return cast(Manifest, without_prose(definition))


def without_prose(part: JsonValue) -> JsonValue:
    """The same without descriptions; a property named `description` is a map and stays."""
    if isinstance(part, dict):
        kept = {}
        for key, value in part.items():
            if key != "description" or not isinstance(value, str):
                kept[key] = without_prose(value)
        return kept
    if isinstance(part, list):
        return [without_prose(item) for item in part]
    return part
