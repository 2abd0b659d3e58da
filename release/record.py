"""Records a command in a terminal and draws it as an animated SVG: record.py FILE.svg COMMAND...

It runs the command for real, in a terminal of its own, and notes when which bytes came out. A
terminal emulator turns them into frames. The SVG shows them in a minute: waits in which nothing
changes are shortened, and the rest is played faster if it has to be.
"""

import argparse
import fcntl
import os
import pty
import struct
import sys
import termios
import time
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyte

COLUMNS = 160
ROWS = 32
LONGEST_WAIT_S = 3.0
"""A longer time in which nothing changes is shortened to this, before the whole fits `LENGTH_S`."""
LENGTH_S = 52.0
LAST_S = 8.0
"""How long the last frame stays after that."""
FRAMES_PER_S = 2

FONT_PX = 13
CELL_PX = (7.83, 17)
PADDING_PX = 14
BACKGROUND = "#101820"
COLORS = {
    "default": "#d7dee4",
    "red": "#ff7b72",
    "green": "#57c778",
    "brown": "#e3b341",
    "blue": "#6cb6ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
}
"""Of the terminal's names; any other is drawn as it is if it is a hexadecimal color."""

Line = tuple[tuple[str, str, bool], ...]
"""Runs of one color: text, color, bold."""


@dataclass(frozen=True)
class Frame:
    """What the terminal shows from a time on."""

    at_s: float
    lines: tuple[Line, ...]


@dataclass
class Recording:
    """What a command printed, in pieces with the second of each."""

    seconds: float = 0.0
    status: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)


def record(command: list[str]) -> Recording:
    """Runs the command in a terminal of the size of the picture, and shows what it prints."""
    recording = Recording()
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    begin_s = time.monotonic()
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the terminal closes with its last program
            break
        if not piece:
            break
        recording.pieces.append((time.monotonic() - begin_s, piece))
        sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    recording.seconds = time.monotonic() - begin_s
    recording.status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return recording


def frames(recording: Recording, command: str) -> list[Frame]:
    """The terminal's contents at the times of the picture, where they changed."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[1m$ {command}\x1b[0m\r\n".encode())
    home = str(Path.home()).encode()
    shown = [Frame(0.0, contents(screen))]
    at_s = before_s = 0.0
    for piece_s, piece in recording.pieces:
        stream.feed(piece.replace(home, b"~"))
        lines = contents(screen)
        if lines != shown[-1].lines:
            at_s += min(piece_s - before_s, LONGEST_WAIT_S)
            before_s = piece_s
            shown.append(Frame(at_s, lines))
    scale = min(1.0, LENGTH_S / at_s) if at_s else 1.0
    scaled = [Frame(frame.at_s * scale, frame.lines) for frame in shown]
    kept = [scaled[0]]
    for frame, following in pairwise(scaled[1:]):
        if following.at_s - kept[-1].at_s > 1 / FRAMES_PER_S:
            kept.append(frame)
    return [*kept, scaled[-1]]


def contents(screen: Any) -> tuple[Line, ...]:
    """The screen's lines as runs of one color."""
    return tuple(runs(screen.buffer[row]) for row in range(ROWS))


def runs(cells: Any) -> Line:
    """A line of the screen without the blanks at its end."""
    line: list[tuple[str, str, bool]] = []
    for column in range(COLUMNS):
        cell = cells[column]
        if line and line[-1][1:] == (cell.fg, cell.bold):
            line[-1] = (line[-1][0] + cell.data, cell.fg, cell.bold)
        else:
            line.append((cell.data, cell.fg, cell.bold))
    while line and not line[-1][0].strip():
        line.pop()
    return tuple(line)


def drawn(line: Line) -> str:
    """A line as SVG text at x 0. Each run says where it begins, whatever font the viewer has."""
    spans = []
    column = 0
    for text, color, bold in line:
        body = text.rstrip()
        if body.strip():
            fill = COLORS.get(color, f"#{color}" if len(color) == len("rrggbb") else COLORS["default"])
            weight = ' font-weight="bold"' if bold else ""
            lead = len(body) - len(body.lstrip())
            place = f'x="{(column + lead) * CELL_PX[0]:.1f}" textLength="{len(body.strip()) * CELL_PX[0]:.1f}"'
            spans.append(f'<tspan {place} fill="{fill}"{weight}>{escape(body.strip())}</tspan>')
        column += len(text)
    return "".join(spans)


def svg(pictures: list[Frame], title: str) -> str:
    """The frames in one file: each line is drawn once, and each frame is visible in its time."""
    width = round(COLUMNS * CELL_PX[0] + 2 * PADDING_PX)
    height = ROWS * CELL_PX[1] + 2 * PADDING_PX + CELL_PX[1]
    total_s = pictures[-1].at_s + LAST_S
    names: dict[Line, str] = {}
    groups: list[str] = []
    styles: list[str] = []
    for number, frame in enumerate(pictures):
        uses = []
        for row, line in enumerate(frame.lines):
            if line:
                name = names.setdefault(line, f"l{len(names)}")
                uses.append(f'<use href="#{name}" y="{(row + 1) * CELL_PX[1]}"/>')
        groups.append(f'<g class="f f{number}">{"".join(uses)}</g>')
        ends_s = pictures[number + 1].at_s if number + 1 < len(pictures) else total_s
        begin, end = 100 * frame.at_s / total_s, 100 * ends_s / total_s
        hidden = f"0%,{begin:.3f}%{{visibility:hidden}}" if number else ""
        after = f"{end:.3f}%,100%{{visibility:hidden}}" if number + 1 < len(pictures) else ""
        styles.append(
            f"@keyframes k{number}{{{hidden}{begin:.3f}%,{max(begin, end - 0.001):.3f}%"
            f"{{visibility:visible}}{after}}}.f{number}{{animation-name:k{number}}}"
        )
    # A viewer without animations shows the last frame.
    styles.append(
        f".f{{visibility:hidden;animation-duration:{total_s}s;animation-iteration-count:infinite;"
        f"animation-timing-function:step-end}}.f{len(pictures) - 1}{{visibility:visible}}"
    )
    lines = "".join(f'<text id="{name}" xml:space="preserve">{drawn(line)}</text>' for line, name in names.items())
    body = "\n".join(groups)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="{FONT_PX}" '
        f"font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">\n"
        f"<title>{escape(title)}</title><style>{''.join(styles)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/><defs>{lines}</defs>\n'
        f'<g transform="translate({PADDING_PX} {PADDING_PX})">\n{body}\n'
        f'<text x="{width - 2 * PADDING_PX}" y="{(ROWS + 1) * CELL_PX[1]}" text-anchor="end" '
        f'fill="#8b98a5">{escape(title)}</text></g>\n</svg>\n'
    )


def main() -> int:
    """Records and draws; the command's exit code, so that no failed run gets a picture."""
    parser = argparse.ArgumentParser(prog="record.py", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = " ".join(options.command)
    recording = record(options.command)
    if recording.status == 0:
        minutes, seconds = divmod(round(recording.seconds), 60)
        title = f"{command} on the simulator: {minutes}:{seconds:02} min, long waits shortened"
        options.file.write_text(svg(frames(recording, command), title))
    return recording.status


if __name__ == "__main__":
    sys.exit(main())
