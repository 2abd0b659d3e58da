"""Builds the documentation site in `site/` from the pages of the checkout: `make docs`.

Pages link to each other, and to files and folders of the checkout, as on a code host. So the pages
keep their places, a linked file is part of the site, and a linked folder gets a page that lists it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
SETTINGS = ROOT / "release" / "mkdocs.yml"
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")


def tracked(*patterns: str) -> list[Path]:
    """Files of the checkout, relative to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in sorted(set(done.stdout.splitlines()))]


def stage(folder: Path) -> None:
    """Copies all pages into a folder, with what they link to."""
    for page in tracked("*.md", ":!tests/golden"):
        text = (ROOT / page).read_text()
        text = LINK.sub(lambda link: place(page.parent, link[0], folder), text)  # noqa: B023  # called at once
        write(folder / page, text)


def place(base: Path, link: str, folder: Path) -> str:
    """Copies what a link leads to, and returns the link; that to a folder leads to its page."""
    target = Path(os.path.normpath(base / link))
    if (ROOT / target).is_dir():
        name = "README.md" if (ROOT / target / "README.md").exists() else "index.md"
        if name == "index.md" and target != Path("docs"):
            write(folder / target / name, listing(target, folder))
        return f"{link.rstrip('/')}/{name}"
    if target.suffix != ".md":
        copy(target, folder)
    return link


def listing(target: Path, folder: Path) -> str:
    """The page of a folder: its files by name, pages by their first heading."""
    lines = [f"# {target}", ""]
    for file in tracked(str(target)):
        name = str(file.relative_to(target))
        if file.suffix == ".md":
            name = (ROOT / file).read_text().partition("\n")[0].removeprefix("# ")
        else:
            copy(file, folder)
        lines.append(f"- [{name}]({file.relative_to(target)})")
    return "\n".join(lines) + "\n"


def copy(file: Path, folder: Path) -> None:
    """Copies a file of the checkout to its place in the folder."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, folder / file)


def write(file: Path, text: str) -> None:
    """Writes a page."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def main() -> int:
    """Builds; fails at the first link that leads nowhere."""
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch))
        shutil.rmtree(SITE, ignore_errors=True)
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", SETTINGS]
        environment = {**os.environ, "ROCELAB_PAGES": scratch, "NO_MKDOCS_2_WARNING": "true"}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
