"""Colours by meaning. A chart is drawn with stand-ins, which become the page's CSS variables in the finished SVG."""

INK = "#010101"
MUTED = "#020202"
GRID = "#030303"
SURFACE = "#040404"
UNTESTED = "#050505"
FAILED = "#060606"
ACCENT = "#070707"
SERIES = tuple(f"#0101{n:02x}" for n in range(0x10, 0x18))
"""Lines that are told apart; the page gives them colours which differ for colour-blind readers too."""

VARIABLE_OF = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SURFACE: "var(--surface)",
    UNTESTED: "var(--untested)",
    FAILED: "var(--fail)",
    ACCENT: "var(--accent)",
    **{colour: f"var(--s{n})" for n, colour in enumerate(SERIES)},
}


def series_colour(number: int) -> str:
    """The colour of a line; they repeat after eight, which is as many rails as a node has."""
    return SERIES[number % len(SERIES)]
