"""Writes app/cli/demo_data/ratings.jsonl: made-up raters of two of the demo's runs.

The raters know what the author of the runs knows of each response: its flaw, where it has one. How much they see of it
differs from response to response and from rater to rater, by chance with a fixed seed. No judge is asked.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from saiten_server.cli.demo import RATINGS_FILE, DemoRun, load_runs
from saiten_server.platform.bundled import bundled_folder
from saiten_server.platform.settings import read_settings
from saiten_server.scoring.rubrics.files import open_rubrics

RATED = "a-102"
FILE = Path(str(bundled_folder("cli/demo_data"))) / RATINGS_FILE
SEED = 5

SEVERITY = (-0.06, 0.0, 0.06)
"""How much each rater gives more than the others, as a share of the scale."""

OWN_SD = 0.18
SHARED_SD = 0.12

FINE = 0.86
PERCEIVED: dict[str, dict[str, float]] = {
    "repeats": {"coherence": 0.15, "interestingness": 0.1, "relevance": 0.5, "consistency": 0.35, "overall": 0.15,
                "sensibleness": 0.1, "specificity": 0.35, "sympathy": 0.1},
    "drifts": {"coherence": 0.1, "interestingness": 0.55, "relevance": 0.05, "consistency": 0.55, "overall": 0.2,
               "sensibleness": 0.1, "specificity": 0.1, "sympathy": 0.05},
    "misreads": {"coherence": 0.1, "interestingness": 0.5, "relevance": 0.45, "consistency": 0.5, "overall": 0.2,
                 "sensibleness": 0.1, "specificity": 0.55, "sympathy": 0.1},
    "ignores": {"coherence": 0.1, "interestingness": 0.5, "relevance": 0.75, "overall": 0.25, "specificity": 0.3},
    "contradicts": {"coherence": 0.35, "consistency": 0.05, "overall": 0.25, "specificity": 0.5},
    "broken": {"naturalness": 0.15, "coherence": 0.35, "interestingness": 0.45, "relevance": 0.7, "overall": 0.35,
               "sensibleness": 0.3, "specificity": 0.55, "sympathy": 0.5},
    "register": {"naturalness": 0.45, "consistency": 0.3, "overall": 0.55},
    "language": {"naturalness": 0.1, "coherence": 0.45, "interestingness": 0.4, "relevance": 0.6, "overall": 0.25,
                 "sensibleness": 0.4, "specificity": 0.6, "sympathy": 0.55},
    "injection": {"naturalness": 0.55, "coherence": 0.05, "interestingness": 0.2, "relevance": 0.0,
                  "consistency": 0.4, "overall": 0.05, "sensibleness": 0.05, "specificity": 0.05, "sympathy": 0.05},
    "markup": {"naturalness": 0.2, "coherence": 0.6, "interestingness": 0.4, "overall": 0.35,
               "sensibleness": 0.35, "specificity": 0.5, "sympathy": 0.3},
    "plain": {"interestingness": 0.35, "relevance": 0.7, "overall": 0.6, "specificity": 0.4},
}  # fmt: skip
"""Flaw → aspect → where on the aspect's scale it leaves a response, from 0 to 1; FINE where it is not named."""


def simulate_item(run: DemoRun, item: str, scales: dict[str, tuple[int, int]]) -> dict[str, list[int]]:
    """Each rater's rating of one response, aspect by aspect."""
    # Seeded by the item's name: a change of one response leaves the ratings of the others as they are.
    chance = random.Random(f"{SEED} {run.options.rubric} {item}")
    perceived = PERCEIVED.get(run.flaws.get(item, ""), {})
    shared = chance.gauss(0.0, SHARED_SD)
    ratings: dict[str, list[int]] = {}
    for aspect, (low, high) in scales.items():
        units = [perceived.get(aspect, FINE) + shared + lead + chance.gauss(0.0, OWN_SD) for lead in SEVERITY]
        ratings[aspect] = [round(low + min(1.0, max(0.0, unit)) * (high - low)) for unit in units]
    return ratings


def render() -> str:
    """The whole file."""
    rubrics = open_rubrics(read_settings().rubrics)
    lines = []
    for run in load_runs(rated=False):
        if run.options.metadata["build"] != RATED:
            continue
        scales = {aspect.id: aspect.scale for aspect in rubrics.get(run.options.rubric).aspects}
        for item in (str(item.id) for item in run.items):
            ratings = simulate_item(run, item, scales)
            lines.append({"rubric": run.options.rubric, "build": RATED, "item": item, "ratings": ratings})
    return "".join(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
