"""One piece of work of `analysis_scale`, alone in its process: what it prints is JSON.

python -m benchmarks.analysis_work in-memory agreement 100000
python -m benchmarks.analysis_work pandas agreement FILE
python -m benchmarks.analysis_work corrected overall FILE
python -m benchmarks.analysis_work stored overview URL BATCH BATCH
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saiten_server.analyses.requests import REQUESTS
from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.container import Container, open_container
from saiten_server.platform.memory import tune_collection
from saiten_server.platform.settings import Settings

Floats = NDArray[np.float64]

RATERS, SYSTEMS = 3, 5
SCALES = {"relevance": 3, "overall": 5}
"""Aspects, rated from 1 to so much."""

UNITS_AT_ONCE = 50_000
PROJECT = "default"


def draw_parts(lines: int) -> Iterator[tuple[int, Mapping[str, Floats], Mapping[str, Floats]]]:
    """Ratings of as many units as make so many lines, some at a time: the first unit's number, each aspect's ratings of
    shape (units, RATERS), and its scores of shape (units,)."""
    units = -(-lines // RATERS)
    for start in range(0, units, UNITS_AT_ONCE):
        random = np.random.default_rng(start)
        count = min(UNITS_AT_ONCE, units - start)
        quality = random.normal(size=count)
        ratings, scores = {}, {}
        for aspect, most in SCALES.items():
            middle = (most + 1) / 2 + quality * most / 5
            noise = random.normal(size=(count, RATERS)) * most / 6
            ratings[aspect] = np.clip(np.round(middle[:, None] + noise), 1, most)
            scores[aspect] = np.clip(np.round(4 * middle) / 4, 1, most)
        yield start, ratings, scores


def measure_agreement(ratings: Mapping[str, Floats], scores: Mapping[str, Floats]) -> None:
    """α, and each rater against the mean of the others: the figures of `agreement` by the libraries' own functions."""
    import krippendorff

    for column in ratings.values():
        krippendorff.alpha(column.T, level_of_measurement="ordinal")
    measure_ceiling(ratings)


def measure_correlation(ratings: Mapping[str, Floats], scores: Mapping[str, Floats]) -> None:
    """Three coefficients and the ceiling. Without intervals, of which these libraries have none over contexts."""
    from scipy.stats import kendalltau, pearsonr, spearmanr

    measure_ceiling(ratings)
    for aspect, column in ratings.items():
        for coefficient in (pearsonr, spearmanr, kendalltau):
            coefficient(scores[aspect], column.mean(axis=1))


def measure_ceiling(ratings: Mapping[str, Floats]) -> None:
    """Each rater against the mean of the others."""
    from scipy.stats import pearsonr, spearmanr

    for column in ratings.values():
        for rater in range(RATERS):
            others = (column.sum(axis=1) - column[:, rater]) / (RATERS - 1)
            pearsonr(column[:, rater], others)
            spearmanr(column[:, rater], others)


def measure_significance(ratings: Mapping[str, Floats], scores: Mapping[str, Floats]) -> None:
    """Mann and Whitney's test of each pair of systems."""
    from scipy.stats import mannwhitneyu

    for column in ratings.values():
        means = column.mean(axis=1)
        samples = [means[system::SYSTEMS] for system in range(SYSTEMS)]
        for one, other in combinations(samples, 2):
            mannwhitneyu(one, other)


STATISTICS: Mapping[str, Callable[[Mapping[str, Floats], Mapping[str, Floats]], None]] = {
    "agreement": measure_agreement,
    "correlation": measure_correlation,
    "hierarchy": measure_significance,
}


def work_in_memory(name: str, lines: str) -> None:
    """The statistics alone, on arrays."""
    parts = [*draw_parts(int(lines))]
    ratings = {aspect: np.concatenate([rated[aspect] for _, rated, _ in parts]) for aspect in SCALES}
    scores = {aspect: np.concatenate([scored[aspect] for _, _, scored in parts]) for aspect in SCALES}
    del parts
    STATISTICS[name](
        {aspect: column[:100] for aspect, column in ratings.items()},
        {aspect: column[:100] for aspect, column in scores.items()},
    )  # what is imported is not measured
    started = time.perf_counter()
    STATISTICS[name](ratings, scores)
    print(json.dumps({"seconds": time.perf_counter() - started}))


def work_with_pandas(name: str, path: str) -> None:
    """The same from the file, as a notebook would: read by pandas, laid out by unit, no line checked."""
    import pandas  # type: ignore[import-untyped]

    read = pandas.read_json(path, lines=True, dtype={"item": str})
    ratings, scores = {}, {}
    for aspect in SCALES:
        column = pandas.Series([one[aspect] for one in read["ratings"]], index=read.index, dtype=float)
        table = read[["system", "item", "rater"]].assign(value=column)
        wide = table.pivot(index=["item", "system"], columns="rater", values="value")
        ratings[aspect] = wide.to_numpy()
        first = read.drop_duplicates(["item", "system"]).set_index(["item", "system"])["scores"]
        scores[aspect] = np.array([one[aspect] for one in first.loc[wide.index]])
    STATISTICS[name](ratings, scores)
    print(json.dumps({}))


def work_on_judged(aspect: str, path: str) -> None:
    """Corrected means of a file, read and reported; the first time, which imports, is not measured."""
    from saiten_server.stats.corrected import report_corrected
    from saiten_server.stats.reading import ObservationReader, read_ndjson

    for _ in range(2):
        started = time.perf_counter()
        with open(path, "rb") as file:
            report_corrected(read_ndjson(file, ObservationReader()), ranges={aspect: (1, SCALES[aspect])})
    print(json.dumps({"seconds": time.perf_counter() - started}))


async def work_on_stored(name: str, url: str, ids: Sequence[str]) -> None:
    """What the service does with stored batches."""
    tune_collection()
    async with open_container(Settings(database_url=url, judge="lexical", encoder="off", log_level="error")) as service:
        await ask(service, name, ids[:1])  # what is imported is not measured
        cpu, started = time.process_time(), time.perf_counter()
        await ask(service, name, ids)
        spent = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    print(json.dumps(spent))


async def ask(service: Container, name: str, ids: Sequence[str]) -> Any:
    """Runs it on these batches, the newest first."""
    if name == "overview":
        return await service.dashboard.overviews.look(PROJECT, ids)
    if name == "gate":
        return await service.comparison.gate(PROJECT, GateRequest(baseline=ids[-1], candidate=ids[0]))
    if name == "compare":
        return await service.comparison.compare(PROJECT, ComparisonRequest(baseline=ids[-1], candidate=ids[0]))
    request = REQUESTS[name].model_validate({"batches": ids, "values": "scores"})
    return await service.comparison.analyse(PROJECT, request, remember=False)


def main(kind: str, name: str, what: str, *ids: str) -> None:
    if kind == "in-memory":
        work_in_memory(name, what)
    elif kind == "pandas":
        work_with_pandas(name, what)
    elif kind == "corrected":
        work_on_judged(name, what)
    else:
        asyncio.run(work_on_stored(name, what, ids))


if __name__ == "__main__":
    main(*sys.argv[1:])
