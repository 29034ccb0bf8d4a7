"""A ranking as a chart: strengths with their intervals."""

from __future__ import annotations

from math import ceil

from saiten_server.analyses.charts.intervals import IntervalLabels, IntervalRow, build_intervals
from saiten_server.platform.charts.canvas import SMALL, Ruler, Spec, choose_form, choose_ticks, fit_text
from saiten_server.platform.web.language import Speech, mark
from saiten_server.preferences.rankings.values import Ranking

WIDTH = 460
MOST_DRAWN = 60


def build_strengths(ranking: Ranking, speech: Speech) -> Spec:
    """Each system's strength with its interval, the best first; systems without one have a dash."""
    rows = [
        IntervalRow(
            name=name,
            figure=f"{speech.formats.signed(one.strength)}  {tell_ranks(one.rank_interval)}",
            value=one.strength,
            interval=one.interval,
        )
        for name, one in [*ranking.systems.items()][:MOST_DRAWN]
    ]
    ends = [abs(end) for row in rows for end in (row.value, *(row.interval or ())) if end is not None]
    farthest = max(0.5, ceil(2.1 * max(ends, default=0.5)) / 2)
    ticks = choose_ticks(-farthest, farthest)
    axis = speech.say(mark("log odds; 0 is the mean of all systems"))
    labels = IntervalLabels(
        title=speech.say(mark("Strengths")),
        description=speech.say(mark("Strength of each system with its interval, and its possible ranks")),
        nothing=speech.say(mark("No system has a strength.")),
        axis=axis,
    )
    x = Ruler(-farthest, farthest, ticks, choose_form(ticks, signed=True), fit_text(axis, WIDTH, SMALL))
    return build_intervals(rows, labels, x, width=WIDTH)


def tell_ranks(ends: tuple[int, int]) -> str:
    """`1–3`, or one rank."""
    return f"({ends[0]})" if ends[0] == ends[1] else f"({ends[0]}–{ends[1]})"
