"""Thirty nightly builds against one baseline: how often a month has a red night, by the plain gate and by `--sequence`.

    python -m benchmarks.sequences             # 2,000 months a case, 5 minutes
    python -m benchmarks.sequences --quick     # 20 months a case: does everything run?

A build answers the same dialogues, with several responses each. A dialogue is hard or easy for all builds alike, each
response is off by a draw of its own, and each build's mean by noise between builds. *Plain* is the test of a gate of
one rule with `max_drop` 0, two-sided at 0.05, on pairs of dialogues by t, each night against the baseline; *sequence*
is what `--sequence` decides at 0.05. *Five* is the share of months with five red nights or more. With a drop from a
night on, *found* is the share of months in which a night is red from then on, and *nights* the median number of nights
until then, counting the first worse one; months with a red night before it count as not found.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from app.stats.observations import Mask
from app.stats.sequences import Builds, look, spend

MONTHS, QUICK_MONTHS = 2_000, 20
NIGHTS, ALPHA = 30, 0.05
LEVEL, HARD, OFF = 3.6, 0.5, 0.75
"""The mean, and the standard deviations between dialogues and of a response."""


@dataclass(frozen=True)
class Case:
    """`skewed` rounds and cuts ratings off at the upper end of the scale; `turn` is the night from which on the mean is
    lower by `drop`, `mended` that from which on it is as before."""

    name: str
    dialogues: int
    responses: int
    noise: float
    drop: float = 0.0
    turn: int = 1
    mended: int = NIGHTS + 1
    level: float = LEVEL
    skewed: bool = False


def draw_month(case: Case, draw: np.random.Generator) -> Builds:
    """The means of a month's builds, the baseline first, with their covariance."""
    shape = (case.dialogues, NIGHTS + 1)
    night = np.arange(NIGHTS + 1)
    level = case.level + case.noise * draw.standard_normal(NIGHTS + 1)
    level -= case.drop * ((night >= case.turn) & (night < case.mended))
    hard = HARD * draw.standard_normal(case.dialogues)[:, None]
    if case.skewed:
        rated = (level + hard)[..., None] + OFF * draw.standard_normal((*shape, case.responses))
        values = np.clip(np.round(rated), 1, 5).mean(axis=-1)
    else:
        values = level + hard + OFF / case.responses**0.5 * draw.standard_normal(shape)
    means = values.mean(axis=0)
    parts = (values - means) / np.sqrt(1 - 1 / case.dialogues) / case.dialogues
    return Builds(means, parts.T @ parts, case.dialogues - 1.0, case.dialogues)


def judge_plain(months: Builds) -> Mask:
    """Which nights are red by the plain gate, shape (months, NIGHTS)."""
    own = np.diagonal(months.covariance, axis1=-2, axis2=-1)
    errors = np.sqrt(own[:, 1:] + own[:, :1] - 2 * months.covariance[:, 0, 1:])
    drops = months.means[:, :1] - months.means[:, 1:]
    found: Mask = drops > float(stdtrit(months.freedom, 1 - ALPHA / 2)) * errors
    return found


def judge_sequences(months: Builds) -> Mask:
    """The same by the gate of a sequence."""
    red = []
    for night in range(1, NIGHTS + 1):
        seen = replace(
            months,
            means=months.means[:, : night + 1],
            covariance=months.covariance[:, : night + 1, : night + 1],
        )
        red.append(look(seen, level=spend(ALPHA, night)).significant.any(axis=-1))
    return np.stack(red, axis=1)


def tell_found(red: Mask, turn: int) -> str:
    """How many months find the drop, and in how many nights."""
    early = red[:, : turn - 1].any(axis=1)
    later = red[:, turn - 1 :]
    found = later.any(axis=1) & ~early
    nights = np.where(found, later.argmax(axis=1) + 1.0, np.inf)
    return f"{found.mean():.3f} | {float(np.median(nights)):g}"


QUIET = [
    Case(f"{dialogues} × {responses}", dialogues, responses, noise)
    for dialogues, responses in ((100, 3), (1000, 1), (20, 10))
    for noise in (0.0, 0.05, 0.1)
]
SKEWED = [
    Case("20 × 10, nine tenths at 5", 20, 10, 0.0, level=5.4, skewed=True),
    Case("100 × 3, nine tenths at 5", 100, 3, 0.0, level=5.4, skewed=True),
    Case("10 × 3", 10, 3, 0.0),
    Case("10 × 3", 10, 3, 0.1),
]
WORSE = [
    Case(f"{dialogues} × {responses}", dialogues, responses, noise, drop, turn)
    for dialogues, responses in ((100, 3), (1000, 1))
    for noise in (0.0, 0.05, 0.1)
    for drop, turn in ((0.3, 1), (0.3, 10), (0.5, 10))
]


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few months: does everything run?")
    parser.add_argument("--months", type=int, help="months a case")
    asked = parser.parse_args()
    months = asked.months or (QUICK_MONTHS if asked.quick else MONTHS)
    draw = np.random.default_rng(30)
    print(
        "| nothing changed | noise | plain: a red night | plain: five | sequence: a red night |\n|---|---|---|---|---|"
    )
    for case in (*QUIET, *SKEWED):
        drawn = draw_months(case, months, draw)
        plain, own = judge_plain(drawn), judge_sequences(drawn)
        five = (plain.sum(axis=1) >= 5).mean()
        shares = f"{plain.any(axis=1).mean():.3f} | {five:.3f} | {own.any(axis=1).mean():.3f}"
        print(f"| {case.name} | {case.noise:g} | {shares} |", flush=True)
    print("\n| drop | from night | items | noise | sequence: found | nights | plain: found | nights |")
    print("|---|---|---|---|---|---|---|---|")
    for case in WORSE:
        drawn = draw_months(case, months, draw)
        told = " | ".join(tell_found(judge(drawn), case.turn) for judge in (judge_sequences, judge_plain))
        print(f"| {case.drop:g} | {case.turn} | {case.name} | {case.noise:g} | {told} |", flush=True)


def draw_months(case: Case, months: int, draw: np.random.Generator) -> Builds:
    """Several months, in one."""
    drawn = [draw_month(case, draw) for _ in range(months)]
    return Builds(
        np.stack([one.means for one in drawn]),
        np.stack([one.covariance for one in drawn]),
        drawn[0].freedom,
        drawn[0].units,
    )


if __name__ == "__main__":
    main()
