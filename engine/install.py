"""Installs the Python environment, the engine and its plugins; leaves alone what is installed already.

Each part has three routes, tried in this order: your own installation of exactly this version, the official download,
a build from pinned Go modules. Downloads and builds are in the cache; `.engine` holds links to them.
"""

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from engine import gobuild, installed, links, nodes_image, python_env, store
from engine.errors import EngineError
from engine.needs import has_real_pods, is_simulated, needed
from engine.parts import PARTS, REAL_PODS, TEST_PARTS, Part
from engine.places import ENGINE, LOGS, ROOT, SIM, cache, is_supported, system
from engine.programs import Interrupted, Programs
from engine.progress import Progress
from engine.release import Downloads
from stacks.words import plural

CORES_PER_BUILD = 4
"""A build keeps this many cores busy. Two builds that start together compile their common packages twice."""

IMAGE = "nodes' image"
MAX_ERROR_LINES = 14
HARDWARE = "hardware labs need none of these: make setup STACK=<name of the stack>"


@dataclass(frozen=True)
class Located:
    """A part in place."""

    part: Part
    origin: str
    """`path`, `official`, `built` or `stand-in`."""

    folder: Path


class MissingError(EngineError):
    """No route provides a part; holds what each route lacks."""

    def __init__(self, part: Part, lacks: dict[str, str]) -> None:
        super().__init__(part.name)
        self.part = part
        self.lacks = lacks


def locate(part: Part) -> Located | None:
    """The part as this machine has it; uses no network and builds nothing."""
    with contextlib.suppress(EngineError):
        return Located(part, "path", installed.find(part))
    for folder in (store.official_folder(part), store.built_folder(part)):
        if entry := store.read(folder):
            return Located(part, entry.origin, folder)
    return None


def wanted_for(stack: str | None) -> tuple[Part, ...]:
    """What the stack's lab needs, and what is installed already for other labs. All parts without a stack."""
    needs = needed(PARTS, stack)
    return tuple(part for part in PARTS if part in needs or locate(part))


def _for_tests(stack: str | None) -> tuple[Part, ...]:
    """Everything but what real pods need: that takes minutes to compile, for one file of the longest lane."""
    needs = needed(PARTS, stack)
    return (*(part for part in PARTS if part in needs or part.only_for != REAL_PODS), *TEST_PARTS)


def _lacks_image(stack: str | None) -> bool:
    """Whether to make the image beside the parts. An image with real pods contains some of them, so it comes later."""
    return stack is not None and is_simulated(stack) and not has_real_pods(stack) and not nodes_image.is_built()


class Setup:
    """One run of `engine/setup`."""

    def __init__(self, progress: Progress, programs: Programs) -> None:
        self._progress = progress
        self._programs = programs
        self._builds_at_a_time = max(1, (os.cpu_count() or 1) // CORES_PER_BUILD)
        self._downloads = Downloads(programs)
        self._build_lack = ""

    def place(
        self, parts: Sequence[Part], *, ask_again: bool = False, image_for: str | None = None
    ) -> tuple[list[Located], list[MissingError]]:
        """Locates or makes each part, and meanwhile the nodes' image if a simulated lab needs it.

        Args:
            parts: Parts to place.
            ask_again: Try the downloads even for parts that were built.
            image_for: Stack of the simulated lab.
        """
        found = [located for part in parts if (located := locate(part))]
        if ask_again:
            found = [one for one in found if one.origin in {"path", "official"} or not one.part.releases]
        names = {located.part.name for located in found}
        todo = sorted((part for part in parts if part.name not in names), key=lambda part: -part.build.seconds)
        if todo and not is_supported():
            lack = f"available for Linux x86_64 only, this is {system()}"
            return found, [_missing(part, {"official": lack, "build": lack}) for part in todo]
        if todo:
            self._build_lack = gobuild.what_go_lacks() or gobuild.what_disk_lacks(todo)
        made, missing = self._make_all(todo, image_for)
        return [*found, *made], missing

    def _make_all(self, parts: Sequence[Part], image_for: str | None) -> tuple[list[Located], list[MissingError]]:
        made: list[Located] = []
        missing: list[MissingError] = []
        with ThreadPoolExecutor(self._builds_at_a_time) as pool, ThreadPoolExecutor(1) as beside:
            image = beside.submit(self._make_image, image_for) if parts and image_for else None
            futures: list[Future[Located]] = [pool.submit(self._make, part) for part in parts]
            try:
                for future in futures:
                    try:
                        made.append(future.result())
                    except MissingError as error:
                        missing.append(error)
                if missing:
                    self._programs.stop()  # without the parts the image is useless
                elif image:
                    image.result()
            except BaseException:
                # Stop first: leaving the pools waits for what they run.
                pool.shutdown(wait=False, cancel_futures=True)
                self._programs.stop()
                raise
        return made, missing

    def _make_image(self, stack: str) -> None:
        """Ignores failures: `sim up` makes the image again and reports them."""
        self._progress.doing(IMAGE, "starts")
        log = LOGS / "nodes-image.log"
        LOGS.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        command: list[str | Path] = [SIM, "build", "--stack", stack]
        try:
            self._programs.run(
                command, cwd=ROOT, env=os.environ, log=log, on_line=lambda line: self._progress.doing(IMAGE, line)
            )
        except EngineError:
            self._progress.done(IMAGE, f"not made, log in {log}")
        else:
            self._progress.done(IMAGE, "made")

    def _make(self, part: Part) -> Located:
        lacks: dict[str, str] = {}
        for route in (self._download, self._build):
            try:
                return route(part)
            except EngineError as error:
                lacks[route.__name__.removeprefix("_")] = str(error)
        self._progress.done(part.name, "not available")
        raise _missing(part, {"official": lacks["download"], "build": lacks["build"]})

    def _download(self, part: Part) -> Located:
        if not part.releases:
            raise EngineError("there is no official download")
        folder = store.official_folder(part)
        self._progress.doing(part.name, "looking for the official download")
        with store.making(folder, lambda: self._waits(part)) as target:
            if target:
                start = time.monotonic()
                self._downloads.fetch(part, target, lambda what: self._progress.doing(part.name, what))
                seconds = round(time.monotonic() - start, 1)
                store.write(target, store.Entry(origin="official", version=part.version, seconds=seconds))
        self._progress.done(part.name, f"{part.version}, official")
        return Located(part, "official", folder)

    def _build(self, part: Part) -> Located:
        folder = store.built_folder(part)
        if self._build_lack and not folder.exists():
            raise EngineError(self._build_lack)
        origin = "stand-in" if part.build.is_standin else "built"
        self._progress.doing(part.name, "starts")
        with store.making(folder, lambda: self._waits(part)) as target:
            if target:
                start = time.monotonic()
                gobuild.build(part, target, self._programs, lambda what: self._progress.doing(part.name, what))
                seconds = round(time.monotonic() - start, 1)
                store.write(target, store.Entry(origin=origin, version=part.version, seconds=seconds))
        self._progress.done(part.name, f"{part.version}, {origin}")
        return Located(part, origin, folder)

    def _waits(self, part: Part) -> None:
        self._progress.doing(part.name, "waiting for another setup that makes it")


def _missing(part: Part, lacks: dict[str, str]) -> MissingError:
    try:
        installed.find(part)
    except EngineError as error:
        return MissingError(part, {"path": str(error), **lacks})
    return MissingError(part, lacks)


def explain(missing: Sequence[MissingError]) -> str:
    """One error for all missing parts, grouped by what they lack, with the commands that need them."""
    groups: dict[str, list[Part]] = {}
    for one in missing:
        what = "\n".join(f"  {route + ':':<10}{lack}" for route, lack in one.lacks.items())
        groups.setdefault(what, []).append(one.part)
    lines: list[str] = []
    for what, parts in groups.items():
        wanted_by = "; ".join(dict.fromkeys(part.wanted_by for part in parts))
        lines += [f"cannot provide {', '.join(part.name for part in parts)}, needed by {wanted_by}", *what.split("\n")]
    last = [HARDWARE] if all(one.part.is_of_the_simulator for one in missing) else []
    return "\n".join([*lines[: MAX_ERROR_LINES - len(last)], *last])


def main(arguments: list[str] | None = None) -> int:
    """The command `engine/setup`."""
    parser = argparse.ArgumentParser(prog="engine/setup", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--dev", action="store_true", help="also install what tests and checks need")
    parser.add_argument("--python-only", action="store_true", help="install the Python environment only")
    parser.add_argument("--stack", help="install only what the lab of this stack needs")
    parser.add_argument("--ask-again", action="store_true", help="try the official downloads of parts that were built")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    programs = Programs()
    ENGINE.mkdir(exist_ok=True)
    try:
        with (ENGINE / ".lock").open("w") as lock, Progress() as progress:
            try:
                _take(lock, progress)
                python_env.ensure(options.dev, programs, progress)
                if options.python_only:
                    return 0
                parts = _for_tests(options.stack) if options.dev else wanted_for(options.stack)
                image_for = options.stack if _lacks_image(options.stack) else None
                found, missing = Setup(progress, programs).place(
                    parts, ask_again=options.ask_again, image_for=image_for
                )
                links.place({located.part.name: (located.origin, located.folder) for located in found})
            except KeyboardInterrupt:
                programs.stop()
                raise
    except (KeyboardInterrupt, Interrupted):
        sys.stderr.write("engine: interrupted; no partial files are left, and the next setup resumes here\n")
        return 130
    except EngineError as error:
        sys.stderr.write(f"engine: {error}\n")
        return 1
    if missing:
        sys.stderr.write(f"engine: {explain(missing)}\n")
        return 1
    sys.stderr.write(f"engine: {plural(len(found), 'part')} ready in {ENGINE.name}, cache {cache()}\n")
    return 0


def _take(lock: TextIO, progress: Progress) -> None:
    """Lets one setup per checkout run at a time."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress.doing("setup", "waiting for another setup of this checkout")
        fcntl.flock(lock, fcntl.LOCK_EX)
        progress.done("setup", "continues")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
