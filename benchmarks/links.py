"""How far linked means are from what the new judge says, and how often a link is wrong: simulated pairs of judges.

    python -m benchmarks.links                 # 1,000 pairs of judges a case, a minute or two
    python -m benchmarks.links --quick         # 50 a case: does everything run?

Each pair of judges rates responses of normal quality with noise of its own. The new judge's cut points are those of the
old one shifted by up to 0.7 standard deviations (0.3 on coarser scales), stretched by up to 1.6 (compression), or bent
by a square (non-linear).
A link is made of `pairs` responses; then the mean of 10,000 further ratings by the old judge, linked, is compared with
the new judge's mean of the same responses. `moved`: these come from a system that is better or worse, by 0.3 standard
deviations in the root mean square. `stated`: with as many pairs as a first link of 100 says that it takes.
"""

from __future__ import annotations

import argparse

import numpy as np

from saiten_server.comparison.differences import compare
from saiten_server.comparison.links.rules import FINE_LEVELS, MARGIN, JudgePairs, LinkedValues, LinkUse, link_judges
from saiten_server.comparison.links.values import LinkMark
from saiten_server.comparison.values import ComparedRun
from saiten_server.runs.frame import key_all, make_frame
from saiten_server.stats.observations import Floats
from tests.support.fake_rubrics import small_rubric

RUNS, QUICK_RUNS = 1_000, 50
KINDS = ("shift", "compression", "non-linear")
NOISE, REACH = {5: 0.35, 3: 0.15, 2: 0.1}, {5: 0.7, 3: 0.3, 2: 0.3}
FURTHER = 10_000
GATED = 300
MOVED = 0.3
RUBRIC = small_rubric()


def make_judges(levels: int, kind: str, draw: np.random.Generator) -> tuple[Floats, Floats]:
    """The cut points of an old judge and of a new one, shapes (levels − 1,)."""
    spread = np.linspace(-1.3, 1.3, levels - 1) if levels > 2 else np.zeros(1)
    old = np.sort(spread + draw.normal(0, 0.15, levels - 1))
    if kind == "shift":
        return old, old + draw.uniform(-1, 1) * REACH[levels]
    if kind == "compression":
        return old, old * draw.uniform(1, 1.6) + draw.uniform(-0.3, 0.3)
    return old, np.sort(old + draw.choice([-1, 1]) * draw.uniform(0.1, 0.35) * (old**2 - 1))


def rate(quality: Floats, cuts: Floats, noise: float, draw: np.random.Generator) -> Floats:
    """A judge's ratings, from 1."""
    return 1.0 + np.searchsorted(cuts, quality + draw.normal(0, noise, len(quality))).astype(np.float64)


def pair_up(levels: int, cuts: tuple[Floats, Floats], n: int, noise: float, draw: np.random.Generator) -> JudgePairs:
    """Both judges' ratings of n responses."""
    quality = draw.standard_normal(n)
    old, new = (rate(quality, own, noise, draw) for own in cuts)
    return JudgePairs(old, new, np.arange(n), tuple(range(1, levels + 1)))


def find_errors(levels: int, kind: str, draw: np.random.Generator) -> tuple[float, float] | None:
    """How far a linked mean is off, as a share of the scale, of responses like those of the link and of others; None
    without a link."""
    cuts, noise = make_judges(levels, kind, draw), NOISE[levels]
    link, _ = link_judges(pair_up(levels, cuts, 100, noise, draw))
    if levels < FINE_LEVELS and link.pairs_needed is not None:
        link, _ = link_judges(pair_up(levels, cuts, link.pairs_needed, noise, draw))
    if link.state == "refused":
        return None
    table = np.array([one.value for one in link.table.values()])

    def miss(better: float) -> float:
        quality = draw.normal(better, 1, FURTHER)
        old, new = (rate(quality, own, noise, draw) for own in cuts)
        return abs(float(np.interp(old, np.arange(1, levels + 1), table).mean() - new.mean())) / (levels - 1)

    return miss(0.0), miss(draw.normal(0, MOVED))


def fails(kind: str, draw: np.random.Generator) -> bool | None:
    """Whether a gate takes a system that is as good as before for a worse one; None without a link."""
    cuts = make_judges(5, kind, draw)
    link, tables = link_judges(pair_up(5, cuts, 100, NOISE[5], draw))
    if tables is None:
        return None
    before, after = (rate(draw.standard_normal(GATED), own, NOISE[5], draw) for own in cuts)
    table = np.array([one.value for one in link.table.values()])
    values = LinkedValues({"clarity": before - 1}, {"clarity": tables}, {"clarity": link.clusters - 1}, RUBRIC)
    mark = LinkMark(id="ln_1", old_signature="a", new_signature="b", runs=("baseline",))
    shown = np.interp(before, np.arange(1, 6), table)
    found = compare(make_run("old", shown), make_run("new", after), test="unpaired", link=LinkUse(mark, values))
    return found.aspects["clarity"].verdict == "worse"


def make_run(name: str, values: Floats) -> ComparedRun:
    """A run with one aspect."""
    count = len(values)
    items = key_all([str(number) for number in range(count)])
    frame = make_frame(count, {("aspect", "clarity"): values}, items=items)
    return ComparedRun(name, frame, count, {"b": count}, {"clarity": (1.0, 5.0)}, ("clarity",))


def count_refusals(runs: int) -> float:
    """The share of pairs of judges refused whose ratings correlate 0.6 on 1–5."""
    refused = 0
    for seed in range(runs):
        draw = np.random.default_rng([3, seed])
        cuts = make_judges(5, KINDS[seed % 3], draw)
        refused += link_judges(pair_up(5, cuts, 100, 0.7, draw))[0].state == "refused"
    return refused / runs


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    runs = QUICK_RUNS if parser.parse_args().quick else RUNS
    print("| levels | pairs | judges | linked | within .05 | 95% of errors below | moved: within .05 |")
    print("|---|---|---|---|---|---|---|")
    for levels in (5, 3, 2):
        for kind in KINDS:
            draws = (np.random.default_rng([levels, KINDS.index(kind), seed]) for seed in range(runs))
            errors = np.array([found for draw in draws if (found := find_errors(levels, kind, draw))]).reshape(-1, 2)
            pairs = "100" if levels >= FINE_LEVELS else "as stated"
            told = ["–"] * 3
            if len(errors):
                within = (errors <= MARGIN).mean(axis=0)
                told = [f"{within[0]:.3f}", f"{np.percentile(errors[:, 0], 95):.3f}", f"{within[1]:.3f}"]
            row = [str(levels), pairs, kind, f"{len(errors) / runs:.3f}", *told]
            print(f"| {' | '.join(row)} |", flush=True)
    cases = [(KINDS[seed % 3], np.random.default_rng([2, seed])) for seed in range(runs)]
    gates = [failed for kind, draw in cases if (failed := fails(kind, draw)) is not None]
    print(f"\nfalse gate failures at alpha .05: {np.mean(gates):.3f} of {len(gates)}")
    print(f"pairs of judges refused whose ratings hardly agree: {count_refusals(runs):.3f} of {runs}")


if __name__ == "__main__":
    main()
