"""Summaries of batches, from kept figures and from results as they stream by."""

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, cast

import pytest
from scipy.stats import ttest_1samp

from saiten.core.messages import Message
from saiten_server.core.batch import Batch, BatchStatus, BatchUsage, Counts, Entry
from saiten_server.core.errors import StoreFull
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.runs.frame import RunFrame
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import (
    NOT_KEPT,
    STILL_RUNNING,
    Summaries,
    add_up,
    bounds_of,
    estimate_means,
    summarize_tally,
)
from saiten_server.runs.summary import Intervals, ResultFigures, Spread, Tally, add_result, tally_results
from tests.support.fake_rubrics import FakeRubrics, small_rubric
from tests.support.faults import words
from tests.support.figures import Verdict, make_figures, place_figures

RUBRIC = small_rubric(composites=[{"id": "both", "kind": "mean", "of": ["warmth", "clarity"]}])
"""`warmth` is 0–1, `clarity` 1–3."""


def rated(value: float, blended: float | None = None) -> Verdict:
    return value, blended, None, int(value)


def unrated(reason: str | None = "refused") -> Verdict:
    return None, None, reason, None


def scores(warmth: Verdict, clarity: Verdict, status: str = "scored", **more: Any) -> ResultFigures:
    values = (warmth[0], clarity[0])
    both = None if None in values else sum(value or 0.0 for value in values) / 2
    return make_figures(status, {"warmth": warmth, "clarity": clarity}, {"both": both}, **more)


def make_batch(total: int, **changes: Any) -> Batch:
    values: dict[str, Any] = {
        "id": "ba_1",
        "name": "nightly",
        "status": "completed",
        "rubric": RUBRIC.id,
        "path": "source",
        "relevance": None,
        "judge": JudgeOptions(),
        "budget_usd": None,
        "counts": Counts(total=total, queued=total, scored=0, partial=0, failed=0),
        "progress": 1.0,
        "rate_per_second": None,
        "estimated_end": None,
        "usage": BatchUsage(judge_calls=7, cost_usd=0.25),
        "signature": "saiten:0",
        "metadata": {},
        "created_at": datetime(2026, 11, 21, tzinfo=UTC),
    }
    return Batch(**values | changes)


def summarized(results: list[ResultFigures], total: int | None = None, rubric: Rubric = RUBRIC, **changes: Any) -> Any:
    batch = make_batch(len(results) if total is None else total, **changes)
    return summarize_tally(rubric, tally_results(results), batch, estimate(results))


def estimate(
    results: list[ResultFigures], clusters: list[str | None] | None = None, rubric: Rubric = RUBRIC
) -> Intervals:
    """The intervals of the results, each of its cluster; without clusters each stands alone."""
    places = [
        Entry(position=place, item="a", candidate=None, cluster=cluster)
        for place, cluster in enumerate(clusters or [None] * len(results))
    ]
    starts = range(0, len(results), 7)
    frames = [place_figures(results[start : start + 7], places[start : start + 7]) for start in starts]
    return estimate_means(frames, bounds_of(rubric))


def test_figures_are_those_of_the_statistics_module():
    rng = random.Random(3)
    values = [rng.choice((1.0, 2.0, 3.0)) for _ in range(200)]
    blends = [value + 10 * (rng.random() - 0.5) for value in values]
    found = summarized([scores(rated(1.0), rated(*pair)) for pair in zip(values, blends, strict=True)])
    clarity = found.aspects["clarity"]
    assert (clarity.n, clarity.unrated) == (200, 0)
    assert clarity.mean == pytest.approx(statistics.fmean(values), abs=1e-12)
    assert clarity.sd == pytest.approx(statistics.stdev(values), abs=1e-12)
    # Away from the ends of its scale the interval hardly differs from that of a t test.
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert clarity.interval == pytest.approx((float(expected.low), float(expected.high)), abs=0.005)
    assert (clarity.clusters, clarity.reason, found.clusters) == (200, None, None)
    assert clarity.histogram == {str(level): count for level, count in sorted(Counter(map(int, values)).items())}
    assert clarity.blended.n == 200
    assert clarity.blended.mean == pytest.approx(statistics.fmean(blends), abs=1e-12)
    assert clarity.blended.sd == pytest.approx(statistics.stdev(blends), abs=1e-12)
    composite = found.composites["both"]
    halves = [(1.0 + value) / 2 for value in values]
    assert (composite.n, composite.mean) == (200, pytest.approx(statistics.fmean(halves), abs=1e-12))
    assert composite.sd == pytest.approx(statistics.stdev(halves), abs=1e-12)


def test_values_far_from_zero_keep_their_deviation():
    # The textbook formula, Σx² − (Σx)²/n, has no digit left here.
    values = [1e9 + step for step in (4, 7, 13, 16)]
    spread = summarized([scores(rated(value), rated(1.0)) for value in values]).aspects["warmth"]
    assert spread.sd == pytest.approx(statistics.stdev(values), rel=1e-9)


def test_what_is_unrated_is_counted_by_reason_and_enters_no_mean():
    results = [
        scores(rated(1.0), rated(2.0)),
        scores(unrated("refused"), rated(3.0), "partial"),
        scores(unrated("missing"), rated(3.0), "partial"),
        scores(unrated("refused"), rated(3.0), "partial"),
    ]
    warmth = summarized(results).aspects["warmth"]
    assert (warmth.n, warmth.mean, warmth.unrated) == (1, 1.0, 3)
    assert list(warmth.unrated_reasons.items()) == [("refused", 2), ("missing", 1)]
    assert warmth.histogram == {"0": 0, "1": 1}


def test_a_histogram_counts_ratings_where_the_mean_takes_all_samples():
    clarity = summarized([scores(rated(1.0), (5 / 3, None, None, 2)), scores(rated(1.0), (7 / 3, None, None, 2))])
    assert clarity.aspects["clarity"].mean == pytest.approx(2.0)
    assert clarity.aspects["clarity"].histogram == {"1": 0, "2": 2, "3": 0}


def test_no_result_at_all_gives_nulls_and_empty_levels():
    found = summarized([], total=0)
    for aspect in found.aspects.values():
        assert (aspect.n, aspect.mean, aspect.sd, aspect.interval, aspect.blended) == (0, None, None, None, None)
        assert set(aspect.histogram.values()) == {0}
    assert found.composites["both"] == Spread(n=0, mean=None, sd=None, interval=None, reason=Message("no-values"))
    assert (found.coverage.rated, found.coverage.expected, found.coverage.share) == (0, 0, None)


def test_one_result_has_a_mean_and_nothing_beyond():
    warmth = summarized([scores(rated(1.0), rated(2.0))]).aspects["warmth"]
    assert (warmth.n, warmth.mean, warmth.sd, warmth.interval) == (1, 1.0, None, None)


def test_constant_ratings_have_no_deviation_and_no_interval():
    value = 0.1  # whose sums are not exact
    warmth = summarized([scores((value, None, None, 0), rated(2.0))] * 1000).aspects["warmth"]
    assert (warmth.n, warmth.mean, warmth.sd, warmth.interval) == (1000, value, 0.0, None)


def test_coverage_is_of_everything_that_was_asked_for():
    results = [
        scores(rated(1.0), rated(2.0)),
        scores(unrated(), rated(2.0), "partial"),
        ResultFigures("failed", {}, failure="judge-refused-request"),
    ]
    found = summarized(results, total=5)
    assert (found.coverage.rated, found.coverage.expected, found.coverage.share) == (3, 10, 0.3)
    assert found.counts == Counts(total=5, queued=2, scored=1, partial=1, failed=1)


def test_failures_and_warnings_are_counted_by_code():
    results = [
        ResultFigures("failed", {}, failure="worker-died"),
        ResultFigures("failed", {}, failure="judge-refused-request"),
        ResultFigures("failed", {}, failure="judge-refused-request"),
        scores(unrated(), unrated(), "failed", warnings=("suspected-injection",)),
        scores(rated(1.0), rated(2.0), warnings=("suspected-injection", "similarity-truncated")),
    ]
    found = summarized(results)
    assert found.failures == {"judge-refused-request": 2, "judge-reply-invalid": 1, "worker-died": 1}
    assert found.warnings == {"suspected-injection": 2, "similarity-truncated": 1}
    # An evaluation without one rating has reasons; a candidate without an evaluation has none.
    assert found.aspects["warmth"].unrated_reasons == {"refused": 1}


def test_the_bill_and_the_signatures_are_the_batchs():
    found = summarized([], total=3, signature=None, signatures={"a": 2, "b": 1}, status="cancelled")
    assert (found.batch, found.name, found.status, found.rubric) == ("ba_1", "nightly", "cancelled", RUBRIC.id)
    assert (found.usage.judge_calls, found.usage.cost_usd) == (7, 0.25)
    assert (found.signature, found.signatures) == (None, {"a": 2, "b": 1})


def test_what_the_rubric_no_longer_has_is_shown_and_covers_nothing():
    older = make_figures("scored", {"wit": rated(4.0), "warmth": rated(7.0)}, {"old": 2.0})
    found = summarized([older])
    assert found.aspects["wit"].histogram == {"4": 1}
    assert found.aspects["warmth"].histogram == {"0": 0, "1": 0, "7": 1}
    assert found.composites["old"].mean == 2.0
    assert (found.coverage.rated, found.coverage.expected) == (1, 2)
    assert "wit" not in summarized([]).aspects


async def test_pages_give_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.summaries.FRAME_ROWS", 7)
    results = [scores(rated(float(number % 2)), rated(2.0)) for number in range(10)]
    store = ScoringStore(10, results=results)
    tally = await add_up(cast(BatchStore, store), "p", "ba_1")
    assert store.pages == [-1, 6, 9]
    assert summarize_tally(RUBRIC, tally, make_batch(10), estimate(results)) == summarized(results)


def test_a_summary_may_be_taken_while_results_come_in():
    tally = Tally()
    add_result(tally, scores(rated(0.0), rated(2.0)))
    first = summarize_tally(RUBRIC, tally, make_batch(2), estimate([]))
    add_result(tally, scores(rated(1.0), rated(2.0)))
    second = summarize_tally(RUBRIC, tally, make_batch(2), estimate([]))
    assert (first.aspects["warmth"].mean, second.aspects["warmth"].mean) == (0.0, 0.5)


def test_repeated_turns_make_no_interval_narrower_and_both_numbers_are_told():
    alone = [scores(rated(float(number % 2)), rated(2.0)) for number in range(20)]
    turns = [one for one in alone for _ in range(10)]
    clusters: list[str | None] = [f"{place // 10 + 1:016x}" for place in range(200)]
    tally, batch = tally_results(turns), make_batch(200)
    found = summarize_tally(RUBRIC, tally, batch, estimate(turns, clusters))
    assert (found.clusters, found.aspects["warmth"].n, found.aspects["warmth"].clusters) == (20, 200, 20)
    assert found.aspects["warmth"].interval == pytest.approx(summarized(alone).aspects["warmth"].interval)
    assert found.composites["both"].clusters == 20


@pytest.mark.parametrize("ones", [1, 2, 11])
def test_no_interval_leaves_the_scale(ones: int):
    found = summarized([scores(rated(float(number >= ones)), rated(2.0)) for number in range(12)]).aspects["warmth"]
    assert found.interval is not None
    assert 0 <= found.interval[0] < (found.mean or 0) < found.interval[1] <= 1


def test_where_there_is_no_interval_the_summary_says_why():
    found = summarized([scores(rated(1.0), rated(2.0))] * 9).aspects["warmth"]
    assert (found.interval, found.clusters) == (None, 9)
    assert found.reason == Message("no-spread-of-means")


def test_measures_beyond_those_that_are_kept_by_result_have_a_reason_too():
    tally = tally_results([scores(rated(1.0), rated(2.0))])
    found = summarize_tally(RUBRIC, tally, make_batch(1), estimate([])).aspects["warmth"]
    assert (found.n, found.interval) == (1, None)
    assert found.reason


NOW = datetime(2026, 11, 21, tzinfo=UTC)
MIXED = [make_figures("scored", {"warmth": (float(place % 2), None, None, place % 2)}, {}) for place in range(5)]


class ScoringStore:
    """Has `total` results of a warmth of 0 and 1 by turns, remembers which pages were read, and keeps tallies unless it is full."""

    def __init__(
        self,
        total: int,
        tally: Tally | None = None,
        *,
        is_full: bool = False,
        results: Sequence[ResultFigures] | None = None,
    ) -> None:
        self._results = results or MIXED[:total]
        self.pages: list[int] = []
        self.tally = tally
        self._total = total
        self._is_full = is_full
        self.kept: Intervals | None = None

    async def frame(self, project: str, batch_id: str, *, after: int, limit: int) -> RunFrame:
        self.pages.append(after)
        positions = range(after + 1, min(after + 1 + limit, self._total))
        places = [Entry(position=position, item="a", candidate=None) for position in positions]
        return place_figures([self._results[position] for position in positions], places)

    @property
    def frames(self) -> Self:
        return self

    async def read_frame(self, project: str, batch_id: str) -> RunFrame:
        return await self.frame(project, batch_id, after=-1, limit=self._total)

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        return dict.fromkeys(ids, self.tally)

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        if self._is_full:
            raise StoreFull(words("no space left"))
        self.tally = tally

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        return {} if self.kept is None else dict.fromkeys(ids, self.kept)

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        if self._is_full:
            raise StoreFull(words("no space left"))
        self.kept = intervals


def make_ended_batch(status: BatchStatus = "completed", **changes: Any) -> Batch:
    total = 5
    return Batch(
        id="ba_1", name=None, status=status, rubric="small", path="source", relevance=None, judge=JudgeOptions(),
        budget_usd=None, counts=Counts(total=total, queued=0, scored=total, partial=0, failed=0), progress=1.0,
        rate_per_second=None, estimated_end=None, usage=BatchUsage(), signature=None, metadata={}, created_at=NOW,
        finished_at=NOW if status == "completed" else None,
    ).model_copy(update=changes)  # fmt: skip


def make_summaries(store: ScoringStore) -> Summaries:
    return Summaries(cast(BatchStore, store), FakeRubrics([small_rubric()]))


@pytest.mark.parametrize("status", ["running", "completed"])
async def test_known_figures_are_taken_and_no_score_is_read(status: BatchStatus) -> None:
    store = ScoringStore(5, tally_results(MIXED[:3]))
    told = await make_summaries(store).summarize_all("p", [make_ended_batch(status)], intervals=False)
    summary = told["ba_1"]
    assert (summary.aspects["warmth"].n, summary.counts.queued, store.pages) == (3, 2, [])


async def test_figures_of_no_result_are_known_too() -> None:
    store = ScoringStore(5, Tally())
    told = await make_summaries(store).summarize_all("p", [make_ended_batch("queued")], intervals=False)
    assert (told["ba_1"].aspects["warmth"].n, store.pages) == (0, [])


async def test_unknown_figures_are_added_up_from_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.summaries.FRAME_ROWS", 2)
    store = ScoringStore(5)
    summary = await make_summaries(store).summarize("p", make_ended_batch())
    assert summary.aspects["warmth"].n == 5
    # In pages for the figures, and whole for the intervals.
    assert store.pages == [-1, 1, 3, 4, -1]


@pytest.mark.parametrize(("status", "kept"), [("completed", True), ("cancelled", True), ("running", False)])
async def test_what_was_added_up_is_kept_once_the_batch_has_ended(status: BatchStatus, kept: bool) -> None:
    store = ScoringStore(5)
    first = await make_summaries(store).summarize("p", make_ended_batch(status))
    assert (store.tally is not None and store.tally.statuses == {"scored": 5}) == kept
    read = len(store.pages)
    assert await make_summaries(store).summarize("p", make_ended_batch(status)) == first
    assert (len(store.pages) == read) == kept


async def test_a_store_that_cannot_keep_them_still_tells_them() -> None:
    store = ScoringStore(5, is_full=True)
    assert (await make_summaries(store).summarize("p", make_ended_batch())).aspects["warmth"].n == 5


@pytest.mark.parametrize(("status", "kept"), [("completed", True), ("cancelled", True), ("running", False)])
async def test_intervals_are_computed_once_for_a_batch_that_has_ended(status: BatchStatus, kept: bool) -> None:
    store = ScoringStore(5, tally_results(MIXED))
    first = await make_summaries(store).summarize("p", make_ended_batch(status))
    read = len(store.pages)
    assert first.aspects["warmth"].interval is not None
    assert await make_summaries(store).summarize("p", make_ended_batch(status)) == first
    assert (len(store.pages) == read) == kept


async def test_who_asks_while_intervals_are_computed_waits_for_these() -> None:
    store = ScoringStore(5, tally_results(MIXED))
    told = make_summaries(store)
    one, other = await asyncio.gather(*(told.summarize("p", make_ended_batch()) for _ in range(2)))
    assert (one, len(store.pages)) == (other, 1)


async def test_a_large_batch_that_goes_on_says_that_its_intervals_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.summaries.MOST_READ_AT_ONCE", 2)
    store = ScoringStore(5, tally_results(MIXED[:3]))
    summary = await make_summaries(store).summarize("p", make_ended_batch("running"))
    assert (summary.aspects["warmth"].interval, len(store.pages)) == (None, 0)
    assert summary.aspects["warmth"].reason == STILL_RUNNING
    assert (await make_summaries(store).summarize("p", make_ended_batch())).aspects["warmth"].interval is not None


async def test_lists_take_no_values_to_be_read_for_intervals() -> None:
    store = ScoringStore(5, tally_results(MIXED))
    told = await make_summaries(store).summarize_all("p", [make_ended_batch()], intervals=False)
    assert (told["ba_1"].aspects["warmth"].mean, store.pages) == (0.4, [])
    assert told["ba_1"].aspects["warmth"].reason == NOT_KEPT
    # What is kept is told all the same.
    full = await make_summaries(store).summarize("p", make_ended_batch())
    assert await make_summaries(store).summarize_all("p", [make_ended_batch()], intervals=False) == {"ba_1": full}
