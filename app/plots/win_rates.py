"""How often each system answers a dialogue context best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.domain.reports import AspectWins, WinReport, WinShare
from app.plots.canvas import GREY, INK, PALE, SERIES, SMALL, TEXT, head, open_figure, say, tidy
from app.plots.lettering import Lettering, letter

BAR_INCHES, DOT_INCHES = 0.55, 0.17
TIES, OTHERS = "ties", "other systems"
TIES_COLOUR, OTHERS_COLOUR = "#d0d0d0", "#8f8f8f"
THICKEST = 0.5
"""Of a bar, in inches."""

MOST_ROWS = 150
LEAST_LABELLED = 0.06
"""A share below it has no room for its figure."""


def build_win_rates(report: WinReport) -> tuple[Any, list[str]]:
    """The figure and what is to be said of it."""
    letters = letter([*report.aspects, *report.systems], texts_of(report))
    aspects, systems = len(report.aspects), len(report.systems)
    named = rank_named(report)
    listed = report.systems if aspects * systems <= MOST_ROWS else tuple(named)
    rows = max(1, aspects) * (DOT_INCHES * (len(listed) + 2) + 0.1)
    height = max(3.0, BAR_INCHES * aspects + 1.8, rows + 1.3)
    figure = open_figure(12.5, height, f"Wins over {report.contexts} contexts, {systems} systems")
    if not report.aspects or report.undefined:
        say(figure.subplots(), *map(letters.write, report.undefined.values() or ["there is nothing to compare"]))
        return figure, letters.notes
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    draw_stacks(left, report, named, letters, thickness=min(0.62, aspects * THICKEST / (height - 1.5)))
    draw_shares(right, report, named, listed, letters)
    letters.dress(figure)
    fewer = f"intervals are drawn for the {len(listed)} systems that win most, of {systems}"
    return figure, letters.notes + ([fewer] if len(listed) < systems else [])


def texts_of(report: WinReport) -> list[str]:
    """All reasons that may be drawn."""
    reasons = [why for found in report.aspects.values() for why in found.undefined.values()]
    return [*report.undefined.values(), *reasons]


def rank_named(report: WinReport) -> dict[str, str]:
    """The colour of each system that has one of its own: those that win most over all aspects."""
    wins = {name: sum(aspect.systems[name].wins for aspect in report.aspects.values()) for name in report.systems}
    ranked = sorted(wins, key=lambda name: -wins[name])[: len(SERIES)]
    colours = dict(zip(ranked, SERIES, strict=False))
    return {name: colours[name] for name in report.systems if name in colours}


def draw_stacks(axes: Any, report: WinReport, named: dict[str, str], letters: Lettering, *, thickness: float) -> None:
    """A bar an aspect: the share of contexts that each system wins, then ties."""
    head(axes, "Share of contexts won")
    tidy(axes, keep=("bottom",))
    shown: dict[str, tuple[str, Any]] = {}
    for place, (_, found) in enumerate(report.aspects.items()):
        if not found.contexts:
            axes.text(0.01, place, f"– {letters.write(reason_of(found))}", va="center", fontsize=SMALL, color=GREY)
            continue
        start = 0.0
        for name, share, colour in parts_of(found, named):
            label = letters.show(name) if name in named else name
            piece = axes.barh(place, share, left=start, height=thickness, color=colour, edgecolor="white")
            shown.setdefault(colour, (label, piece))
            if share >= LEAST_LABELLED:
                text = f"{share:.0%}"
                ink = INK if colour in {TIES_COLOUR, "#f0e442", "#e69f00", "#56b4e9", "#cc79a7"} else "white"
                axes.text(start + share / 2, place, text, ha="center", va="center", fontsize=SMALL, color=ink)
            start += share
    axes.set_xlim(0, 1)
    axes.set_ylim(len(report.aspects) - 0.4, -0.6)
    axes.set_yticks(range(len(report.aspects)), [letters.show(name) for name in report.aspects])
    axes.tick_params(axis="y", length=0, labelsize=TEXT)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    name_colours(axes.figure, list(shown.values()))


def name_colours(figure: Any, shown: Sequence[tuple[str, Any]]) -> None:
    """The legend: each name beside a piece of its colour. None where nothing was won."""
    if not shown:
        return
    pieces = [piece for _, piece in shown]
    legend = figure.legend(
        pieces, [""] * len(pieces), loc="outside lower center", ncols=5, frameon=False, fontsize=SMALL
    )
    for text, (name, _) in zip(legend.get_texts(), shown, strict=True):
        # Not as labels: matplotlib before 3.10 leaves those out that begin with an underscore, as a name may.
        text.set_text(name)


def parts_of(found: AspectWins, named: dict[str, str]) -> list[tuple[str, float, str]]:
    """Name, share and colour of each piece of a bar; systems without a colour of their own are one piece."""
    parts = [(name, found.systems[name].share or 0.0, colour) for name, colour in named.items()]
    rest = sum(won.share or 0.0 for name, won in found.systems.items() if name not in named)
    parts += [(OTHERS, rest, OTHERS_COLOUR)] if len(named) < len(found.systems) else []
    return [*parts, (TIES, found.ties.share or 0.0, TIES_COLOUR)]


def reason_of(found: AspectWins) -> str:
    """Why nobody won."""
    return next(iter(found.undefined.values()), "no context was answered by every system")


def draw_shares(
    axes: Any, report: WinReport, named: dict[str, str], listed: tuple[str, ...], letters: Lettering
) -> None:
    """Each share with its interval, a row a system, a block an aspect."""
    head(axes, "with 95 % intervals (Wilson)")
    tidy(axes, keep=("bottom",))
    place, labels = 0.0, {}
    for name, found in report.aspects.items():
        labels[place] = f"{letters.show(name)}  (n {found.contexts})"
        axes.axhline(place, color=PALE, linewidth=8, zorder=0)
        if not found.contexts:
            labels[place] += f" {letters.write(reason_of(found))}"
            place += 2
            continue
        rows = [*((system, found.systems[system]) for system in listed), (TIES, found.ties)]
        for step, (system, won) in enumerate(rows, start=1):
            labels[place + step] = letters.show(system) if system in found.systems else system
            draw_share(axes, place + step, won, named.get(system, OTHERS_COLOUR if system != TIES else GREY))
        place += len(rows) + 1.5
    axes.set_ylim(place, -0.8)
    axes.set_yticks(list(labels), list(labels.values()))
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def draw_share(axes: Any, place: float, won: WinShare, colour: str) -> None:
    """A dot with its interval."""
    if won.share is None:
        return
    low, high = won.interval or (won.share, won.share)
    axes.hlines(place, low, high, color=colour, linewidth=1.8)
    axes.plot(won.share, place, "o", color=colour, markersize=5)
