"""Thirty nightly builds against one baseline: how often a month has a red night, by the plain gate and by `--sequence`.

    python -m benchmarks.sequences             # 2,000 months a case, 5 minutes
    python -m benchmarks.sequences --quick     # 20 months a case: does everything run?

A build answers the same dialogues, with several responses each. A dialogue is hard or easy for all builds alike, each
response is off by a draw of its own, and each build's mean by noise between builds. *Plain* is the test of a gate of
one rule with `max_drop` 0, two-sided at 0.05, on pairs of dialogues by t, each night against the baseline; *sequence*
is what `--sequence` decides at 0.05. *Five* is the share of months with five red nights or more. With a drop from a
night on, *found* is the share of months in which a night is red from then on, and *nights* the median number of nights
until then, counting the first worse one; months with a red night before it count as not found.

*Stays red* is, of the nights after the one that found a drop and before it is mended, the share that is red; *not
mended yet* those that are only inconclusive because the newest build is as good as the baseline by chance. *After* are
the shares of red nights on the first, the second and the fifth night that is mended. A *false red* is one of a month
without a change: how many nights it lasts. *Skewed* changes are -0.2 in 90% and +1.8 in 10% of dialogues, of unequal
length or not, drawn anew each night, or once for all nights but the baseline's; *doubted* months have a night that only
skewness keeps from being red.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from saiten_server.comparison.sequence_gate import find_sound, is_mended
from saiten_server.comparison.values import SequenceDrop
from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.sequences import Builds, Looks, describe_builds, look_at_newest_build, spend

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


def judge_sequences(months: Builds, rules: int = 1) -> Mask:
    """The same by the gate of a sequence, for one of so many rules."""
    red = []
    for night in range(1, NIGHTS + 1):
        seen = replace(
            months,
            means=months.means[:, : night + 1],
            covariance=months.covariance[:, : night + 1, : night + 1],
        )
        red.append(look_at_newest_build(seen, level=spend(ALPHA, night) / rules, rules=rules).significant.any(axis=-1))
    return np.stack(red, axis=1)


GREEN, RED, OPEN = range(3)


def keep_red(months: Builds) -> Integers:
    """Nights as the gate of a sequence judges them, shape (months, NIGHTS): RED until what was found is mended, OPEN
    where that is not shown and yet the newest build is as good as the baseline."""
    said = np.full((len(months.means), NIGHTS), GREEN)
    drops = dict[int, SequenceDrop]()
    for night in range(1, NIGHTS + 1):
        cut = slice(night + 1)
        seen = look_at_newest_build(
            replace(months, means=months.means[:, cut], covariance=months.covariance[:, cut, cut]),
            level=spend(ALPHA, night),
        )
        for held, drop in list(drops.items()):
            own = replace(months, means=months.means[held, cut], covariance=months.covariance[held, cut, cut])
            if is_mended(own, np.arange(night + 1), drop, tolerated=0.0, alpha=ALPHA, night=night):
                del drops[held]
            else:
                said[held, night - 1] = RED if seen.newest[held] > 0 else OPEN
        for month in map(int, np.flatnonzero(seen.significant.any(axis=-1))):
            if month not in drops:
                drops[month] = find_drop(seen, month, night)
                said[month, night - 1] = RED
    return said


def find_drop(seen: Looks, month: int, night: int) -> SequenceDrop:
    """The clearest drop of this month's night."""
    clear = np.where(seen.significant[month], seen.drops[month] / seen.errors[month], -np.inf)
    place = int(clear.argmax())
    return SequenceDrop(night=night, first=night + 1 - int(seen.windows[place]), size=float(seen.below[month, place]))


def tell_kept(said: Integers, case: Case) -> str:
    """How red the nights are between the one that found the drop and the mending, and after it."""
    worse = said[:, case.turn - 1 : case.mended - 1]
    after = (np.cumsum(worse == RED, axis=1) > 0)[:, :-1]
    later = worse[:, 1:][after]
    shares = f"{(later == RED).mean():.3f} | {(later == OPEN).mean():.3f}"
    if case.mended > NIGHTS:
        return f"{shares} | – | – | –"
    mended = said[:, case.mended - 1 :] == RED
    return f"{shares} | " + " | ".join(f"{mended[:, night].mean():.3f}" for night in (0, 1, 4))


def tell_false(said: Integers) -> str:
    """How many months have a red night though nothing changed, and how many nights of these are red from then on."""
    red = said == RED
    months = red[red.any(axis=1)]
    lasting = months.sum(axis=1)
    ends = (said[red.any(axis=1)][:, -1] == RED).mean() if len(months) else 0.0
    median = f"{np.median(lasting):g}" if len(months) else "–"
    return f"{len(months) / len(said):.3f} | {median} | {ends:.2f}"


def judge_skewed(
    dialogues: int, turns: int, draw: np.random.Generator, *, unequal: bool, once: bool
) -> tuple[bool, bool]:
    """Whether a month of skewed changes of whole dialogues, 0 on average, has a red night, and one that is doubted."""
    lengths = 1 + draw.poisson(turns - 1, dialogues) if unequal else np.full(dialogues, turns)
    clusters = np.repeat(np.arange(dialogues), lengths)
    shape = (dialogues, 1 if once else NIGHTS)
    changes = np.where(draw.random(shape) < 0.9, -0.2, 1.8) * np.ones((dialogues, NIGHTS))
    level = 3 + HARD * draw.standard_normal((dialogues, 1))
    values = np.hstack([level, level + changes])[clusters] + 0.1 * draw.standard_normal((len(clusters), NIGHTS + 1))
    months: Builds = describe_builds(values, clusters)
    parts: Floats | None = months.parts
    doubted = False
    for night in range(1, NIGHTS + 1):
        cut = slice(night + 1)
        seen = replace(
            months,
            means=months.means[cut],
            covariance=months.covariance[cut, cut],
            parts=None if parts is None else parts[:, cut],
        )
        level_spent = spend(ALPHA, night)
        looks = look_at_newest_build(seen, level=level_spent)
        if find_sound(seen, looks, 5 - float(months.means[0]), level=level_spent).any():
            return True, doubted
        doubted |= bool(looks.significant.any())
    return False, doubted


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


KEPT = [
    Case(f"{dialogues} × {responses}", dialogues, responses, noise, drop, 10, mended)
    for dialogues, responses in ((100, 3), (1000, 1))
    for noise, drop in ((0.0, 0.3), (0.05, 0.5), (0.1, 0.3))
    for mended in (NIGHTS + 1, 20)
]
RULES = 3


def tell_lasting(months: int, draw: np.random.Generator) -> None:
    """Prints how long a red lasts, true or false, and months of several rules and of skewed changes."""
    print("\n| drop from night 10 | mended | items | noise | stays red | not mended yet | after: 1 | 2 | 5 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in KEPT:
        told = tell_kept(keep_red(draw_months(case, months, draw)), case)
        mended = "–" if case.mended > NIGHTS else str(case.mended)
        print(f"| {case.drop:g} | {mended} | {case.name} | {case.noise:g} | {told} |", flush=True)
    print("\n| nothing changed | noise | a false red | nights red, median | still red on night 30 |")
    print("|---|---|---|---|---|")
    for case in (QUIET[2], QUIET[5], QUIET[8]):
        print(
            f"| {case.name} | {case.noise:g} | {tell_false(keep_red(draw_months(case, 4 * months, draw)))} |",
            flush=True,
        )
    print(f"\n| {RULES} rules, nothing changed | noise | a red night |\n|---|---|---|")
    for case in (QUIET[2], QUIET[5], QUIET[8]):
        red = np.zeros(months, dtype=bool)
        for _ in range(RULES):
            red |= judge_sequences(draw_months(case, months, draw), rules=RULES).any(axis=1)
        print(f"| {case.name} | {case.noise:g} | {red.mean():.3f} |", flush=True)
    print("\n| skewed changes, mean 0 | lengths | drawn | a red night | doubted |\n|---|---|---|---|---|")
    for dialogues, turns in ((10, 10), (20, 10), (40, 5), (100, 3)):
        for unequal in (False, True):
            for once in (False, True):
                months_red = [judge_skewed(dialogues, turns, draw, unequal=unequal, once=once) for _ in range(months)]
                red, doubted = np.mean(months_red, axis=0)
                told = f"{'unequal' if unequal else 'equal'} | {'once' if once else 'each night'}"
                print(f"| {dialogues} × {turns} | {told} | {red:.3f} | {doubted:.3f} |", flush=True)


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few months: does everything run?")
    parser.add_argument("--months", type=int, help="months a case")
    parser.add_argument("--lasting", action="store_true", help="only how long a red lasts, several rules and skewness")
    asked = parser.parse_args()
    months = asked.months or (QUICK_MONTHS if asked.quick else MONTHS)
    draw = np.random.default_rng(30)
    if asked.lasting:
        tell_lasting(months, draw)
        return
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
    tell_lasting(max(QUICK_MONTHS, months // 4), draw)


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
