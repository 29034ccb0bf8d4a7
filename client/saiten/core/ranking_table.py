"""A ranking as a table in Markdown, for a README."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saiten.core.figures import DASH, write_figure
from saiten.core.plain_text import printable

HEADINGS = ("Rank", "System", "Strength", "Interval", "Possible ranks", "Wins", "Losses", "Ties")


def write_ranking(ranking: Mapping[str, Any], say: Callable[[str], str]) -> str:
    """The systems of a ranking as JSON has them, the best first; `say` gives a heading in the reader's language."""
    rows = [
        (
            str(one["rank"]),
            name.replace("|", "\\|"),
            signed_figure(one["strength"]),
            span(one["interval"]),
            ranks(one["rank_interval"]),
            *(str(one[kind]) for kind in ("wins", "losses", "ties")),
        )
        for name, one in ranking["systems"].items()
    ]
    marks = ["---", "---", *["---:"] * 6]
    return "".join(f"| {' | '.join(row)} |\n" for row in ([say(one) for one in HEADINGS], marks, *map(clean_row, rows)))


def clean_row(row: Sequence[str]) -> list[str]:
    """The cells without what a terminal or a table would take for its own."""
    return [printable(cell) for cell in row]


def signed_figure(value: float | None) -> str:
    """`+0.42`, or a dash."""
    return DASH if value is None else write_figure(value, 2, signed=True)


def span(ends: Sequence[float] | None) -> str:
    """`+0.12 … +0.72`, or a dash."""
    return DASH if ends is None else f"{signed_figure(ends[0])} … {signed_figure(ends[1])}"


def ranks(ends: Sequence[int]) -> str:
    """`1–3`, or one rank."""
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"
