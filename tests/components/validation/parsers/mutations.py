"""Damage as logs meet it: on the way through launchers, terminals and collectors, on full disks, by killed programs."""

import random
from collections.abc import Callable

from hypothesis import strategies as st

Mutation = Callable[[str, random.Random], str]

FOREIGN = (
    "Warning: Permanently added '10.244.1.7' (ED25519) to the list of known hosts.",
    "--------------------------------------------------------------------------",
    "worker-1:4012:4078 [3] NCCL INFO Channel 00/0 : 3[3] -> 12[4] [send] via NET/Socket/0",
    " Conflicting CPU frequency values detected: 1200.535000 != 1251.336000. CPU Frequency is not max.",
    "[1,3]<stderr>:There was an error initializing an OpenFabrics device.",
    "65536",
    "{",
    "total",
    " 65536      5000             12.42              12.40              0.023650",
    "  1073741824     268435456  float  sum  -1  87850  12.22  22.92  0  87900  12.22  22.90  0",
    "Iter #3: 999.9 img/sec per GPU",
    "1024                  999.99",
    "3.14159",
)


def flip_bits(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(text))
        text = text[:at] + chr(ord(text[at]) ^ (1 << dice.randrange(7))) + text[at + 1 :]
    return text


def other_digit(text: str, dice: random.Random) -> str:
    digits = [i for i, character in enumerate(text) if character in "0123456789"]
    at = dice.choice(digits)
    return text[:at] + dice.choice("0123456789") + text[at + 1 :]


def lose_characters(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text))
    return text[:at] + text[at + dice.randint(1, 9) :]


def insert_characters(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text))
    return (
        text[:at]
        + dice.choice(["9", "-", ".", "\x00", "\n", "\r", "e9", "nan", "٣", " 7 ", "_", "\x1b[0m"])
        + text[at:]
    )


def cut_line(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    at = dice.randrange(len(lines))
    lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
    return "\n".join(lines)


def cut_end(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(len(text))]


def drop_lines(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    at = dice.randrange(len(lines))
    return "\n".join(lines[:at] + lines[at + dice.choice([1, 1, 1, 2, 5]) :])


def double_lines(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    at, many = dice.randrange(len(lines)), dice.choice([1, 2, 5, len(lines)])
    return "\n".join(lines[: at + many] + lines[at:])


def exchange_lines(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def swap_columns(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    with_cells = [i for i, line in enumerate(lines) if len(line.split()) > 1]
    at = dice.choice(with_cells)
    cells = lines[at].split(" ")
    filled = [i for i, cell in enumerate(cells) if cell]
    one, other = dice.choice(filled), dice.choice(filled)
    cells[one], cells[other] = cells[other], cells[one]
    lines[at] = " ".join(cells)
    return "\n".join(lines)


def swap_columns_everywhere(text: str, dice: random.Random) -> str:
    """The same two cells in all lines, as if the header were of another version."""
    one, other = dice.randrange(12), dice.randrange(12)
    lines = [line.split() for line in text.split("\n")]
    for cells in lines:
        if len(cells) > max(one, other) and not cells[0].startswith("#"):
            cells[one], cells[other] = cells[other], cells[one]
    return "\n".join(" ".join(cells) for cells in lines)


def insert_line(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    lines.insert(dice.randrange(len(lines)), dice.choice(FOREIGN))
    return "\n".join(lines)


def interleave(text: str, dice: random.Random) -> str:
    """Two writers without a lock: a foreign line begins within one of ours."""
    at = dice.randrange(len(text))
    return text[:at] + dice.choice(FOREIGN) + dice.choice(["\n", ""]) + text[at:]


def through_a_terminal(text: str, dice: random.Random) -> str:
    return text.replace("\n", dice.choice(["\r\n", "\r\r\n"]))


def tag(text: str, dice: random.Random) -> str:
    prefix = dice.choice(
        ["[1,0]<stdout>:", "[0]<stdout>:", "[pod/bench-launcher/launcher] ", "2026-10-02T11:03:00.1234567Z "]
    )
    return "".join(prefix + line for line in text.splitlines(keepends=True))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits,
    other_digit,
    other_digit,
    other_digit,
    lose_characters,
    insert_characters,
    cut_line,
    cut_end,
    drop_lines,
    double_lines,
    exchange_lines,
    swap_columns,
    swap_columns_everywhere,
    insert_line,
    interleave,
    through_a_terminal,
    tag,
)
"""Those that only change numbers are here more often, because they are the ones that could pass."""


def with_characters_replaced(text: str) -> st.SearchStrategy[str]:
    """The text with one to eight characters replaced by nothing or by another one."""
    return st.builds(
        lambda start, inserted, lost: text[:start] + inserted + text[start + lost :],
        st.integers(0, len(text) - 1),
        st.sampled_from(["", "\n", "9", "\x00", "-"]),
        st.integers(1, 8),
    )
