"""The builds' names under a trend: level where there is room, else slanted, and thinned where there are many."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.charts.canvas import Row, Ruler, Spec, letters
from app.charts.lettering import fit_ends, measure
from app.charts.theme import INK, INK_SOFT, SMALL

LEVEL_HEIGHT, LEAST_LABEL_STEP = 22, 15.0
"""Pixels: of a line of level names, and from one slanted name to the next."""

LONGEST_LABEL, SLANT = 92, 60
BOLD = 1.1
"""Times as wide as plain text."""


def label_builds(builds: Sequence[str], current: int | None, step: float) -> tuple[list[Row], int, float]:
    """The labels that find room, their slant in degrees, and the height that they need."""
    names = [fit_ends(name, LONGEST_LABEL, SMALL) for name in builds]
    widest = max(measure(name, SMALL) for name in names)
    level = widest + 8 <= step
    every = 1 if level else math.ceil(LEAST_LABEL_STEP / step)
    chosen: list[int] = []
    for build in (*([] if current is None else [current]), len(names) - 1, *range(len(names))):
        if all(abs(build - other) >= every for other in chosen):
            chosen.append(build)
    rows = [{"x": build, "text": names[build], "current": build == current} for build in sorted(chosen)]
    height = LEVEL_HEIGHT if level else BOLD * widest * math.sin(math.radians(SLANT)) + 18
    return rows, 0 if level else -SLANT, height


def draw_builds(texts: Sequence[Row], slant: int, x: Ruler, height: float) -> list[Spec]:
    """The builds' names under the plot, that of the current one bold."""
    look = {"align": "right" if slant else "center", "angle": slant, "fontSize": SMALL}
    others, bold = ([row for row in texts if row["current"] is wanted] for wanted in (False, True))
    up = {"value": height + 10}
    return [
        letters("builds", others, x.at("x"), up, color=INK_SOFT, **look),
        letters("build", bold, x.at("x"), up, color=INK, fontWeight="bold", **look),
    ]


def reach_left(builds: Sequence[str]) -> float:
    """How far a slanted name reaches to the left of its point, at most."""
    widest = max(measure(fit_ends(name, LONGEST_LABEL, SMALL), SMALL) for name in builds)
    return BOLD * widest * math.cos(math.radians(SLANT)) + 8
