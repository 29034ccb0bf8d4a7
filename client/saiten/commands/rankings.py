"""Rankings on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from saiten.commands.output import TerminalTable, console, print_sheet
from saiten.core.figures import write_figure
from saiten.core.language import mark, tell
from saiten.core.plain_text import printable
from saiten.core.ranking_table import ranks, signed_figure, span

SOURCE_NAMES = {
    "judge": mark("the judge, in pairs"),
    "people": mark("people"),
    "ratings": mark("the judge's ratings"),
    "all": mark("all who answered"),
}
COLUMN_TITLES = (
    mark("Rank"),
    mark("System"),
    mark("Strength"),
    mark("Interval"),
    mark("Possible ranks"),
    mark("Wins"),
    mark("Losses"),
    mark("Ties"),
)
"""The headings of `write_ranking`."""


def print_ranking(ranking: Mapping[str, Any], title: str) -> None:
    """The systems of a ranking as the service answers it, then what the order and the length add."""
    rows = [
        (
            str(one["rank"]),
            name,
            signed_figure(one["strength"]),
            span(one["interval"]),
            ranks(one["rank_interval"]),
            *(str(one[kind]) for kind in ("wins", "losses", "ties")),
        )
        for name, one in ranking["systems"].items()
    ]
    told = tell(
        "{title}: {looks} looks, {clusters} independent", title=title, **pick_fields(ranking, "looks", "clusters")
    )
    print_sheet(TerminalTable(told, tuple(map(tell, COLUMN_TITLES)), tuple(rows)), console())
    print_text(tell("strength: log odds; 0 is the mean of all systems"))
    print_text(tell("tied with the best: {names}", names=", ".join(ranking["tied_with_best"])))
    if (effect := ranking["position_effect"]) is not None:
        found = signed_figure(effect["value"]), span(effect["interval"])
        print_text(tell("being shown first adds {value} ({interval})", value=found[0], interval=found[1]))
    if ranking["position_consistency"] is not None:
        print_text(tell("same answer in both orders: {share}", share=write_figure(ranking["position_consistency"], 2)))
    if ranking["length_effect"] is not None:
        found = signed_figure(ranking["length_effect"]), span(ranking["length_effect_interval"])
        print_text(tell("being longer adds {value} ({interval})", value=found[0], interval=found[1]))
    for system, one in ranking["systems"].items():
        for reason in dict.fromkeys(one["undefined"].values()):
            print_text(f"{system}: {reason}")
    for note in ranking["notes"]:
        print_text(note)
    if ranking["refused"]:
        print_text(tell("not corrected by people: {reason}", reason=ranking["refused"]))
    if ranking["corrected"]:
        print_ranking(ranking["corrected"], tell("corrected by people"))


def pick_fields(ranking: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """These fields."""
    return {name: ranking[name] for name in names}


def print_text(text: str) -> None:
    """A line."""
    click.echo(printable(text))
