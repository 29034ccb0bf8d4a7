"""Where summaries come from: the store's own figures, or every score where it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.adapters.sql.batches.store import BatchStore
from app.batches.summaries import NOT_KEPT, WAITING, Summaries
from app.domain.batch import Batch, BatchStatus, BatchUsage, Counts, Entry
from app.domain.errors import StoreFull
from app.domain.evaluation import JudgeOptions
from app.domain.scores import Scored, Scores, ValuesPage
from app.domain.summary import Intervals
from app.domain.tally import Tally
from app.tally import tally_scores
from tests.support.fake_rubrics import FakeRubrics, small_rubric

NOW = datetime(2026, 11, 21, tzinfo=UTC)
WARM = Scores("scored", {"warmth": (1.0, None, None, 1)}, {})


class ScoringStore:
    """Has `total` results of a warmth of 1, remembers which pages were read, and keeps tallies unless it is full."""

    def __init__(self, total: int, tally: Tally | None = None, *, is_full: bool = False) -> None:
        self.pages: list[int] = []
        self.tally = tally
        self._total = total
        self._is_full = is_full
        self.kept: Intervals | None = None
        self.read = 0

    async def scores(self, project: str, batch_id: str, *, after: int, limit: int) -> Sequence[Scored]:
        self.pages.append(after)
        positions = range(after + 1, min(after + 1 + limit, self._total))
        return [Scored(Entry(position=position, item="a", candidate=None), "ev_1", WARM) for position in positions]

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        return dict.fromkeys(ids, self.tally)

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        if self._is_full:
            raise StoreFull("no space left")
        self.tally = tally

    async def values(self, project: str, batch_id: str, *, after: int, limit: int) -> ValuesPage:
        self.read += 1
        rows = [(place, None, float(place % 2)) for place in range(after + 1, self._total)]
        return ValuesPage(("warmth",), rows[:limit])

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        return {} if self.kept is None else dict.fromkeys(ids, self.kept)

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        if self._is_full:
            raise StoreFull("no space left")
        self.kept = intervals


def make_batch(status: BatchStatus = "completed", **changes: Any) -> Batch:
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
    store = ScoringStore(5, tally_scores([WARM] * 3))
    summary = await make_summaries(store).summarize("p", make_batch(status))
    assert (summary.aspects["warmth"].n, summary.counts.queued, store.pages) == (3, 2, [])


async def test_figures_of_no_result_are_known_too() -> None:
    store = ScoringStore(5, Tally())
    assert (await make_summaries(store).summarize("p", make_batch("queued"))).aspects["warmth"].n == 0
    assert store.pages == []


async def test_unknown_figures_are_added_up_from_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.batches.summaries.SCORES_PAGE", 2)
    store = ScoringStore(5)
    summary = await make_summaries(store).summarize("p", make_batch())
    assert summary.aspects["warmth"].n == 5
    assert store.pages == [-1, 1, 3, 4]


@pytest.mark.parametrize(("status", "kept"), [("completed", True), ("cancelled", True), ("running", False)])
async def test_what_was_added_up_is_kept_once_the_batch_has_ended(status: BatchStatus, kept: bool) -> None:
    store = ScoringStore(5)
    first = await make_summaries(store).summarize("p", make_batch(status))
    assert (store.tally == tally_scores([WARM] * 5)) == kept
    read = len(store.pages)
    assert await make_summaries(store).summarize("p", make_batch(status)) == first
    assert (len(store.pages) == read) == kept


async def test_a_store_that_cannot_keep_them_still_tells_them() -> None:
    store = ScoringStore(5, is_full=True)
    assert (await make_summaries(store).summarize("p", make_batch())).aspects["warmth"].n == 5


@pytest.mark.parametrize(("status", "kept"), [("completed", True), ("cancelled", True), ("running", False)])
async def test_intervals_are_computed_once_for_a_batch_that_has_ended(status: BatchStatus, kept: bool) -> None:
    store = ScoringStore(5, tally_scores([WARM] * 5))
    first = await make_summaries(store).summarize("p", make_batch(status))
    read = store.read
    assert first.aspects["warmth"].interval is not None
    assert await make_summaries(store).summarize("p", make_batch(status)) == first
    assert (store.read == read) == kept


async def test_a_large_batch_that_goes_on_says_that_its_intervals_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.batches.summaries.MOST_UNFINISHED", 2)
    store = ScoringStore(5, tally_scores([WARM] * 3))
    summary = await make_summaries(store).summarize("p", make_batch("running"))
    assert (summary.aspects["warmth"].interval, store.read) == (None, 0)
    assert summary.aspects["warmth"].reason == WAITING
    assert (await make_summaries(store).summarize("p", make_batch())).aspects["warmth"].interval is not None


async def test_lists_take_no_values_to_be_read_for_intervals() -> None:
    store = ScoringStore(5, tally_scores([WARM] * 5))
    told = await make_summaries(store).summarize_all("p", [make_batch()], intervals=False)
    assert (told["ba_1"].aspects["warmth"].mean, store.read) == (1.0, 0)
    assert told["ba_1"].aspects["warmth"].reason == NOT_KEPT
    # What is kept is told all the same.
    full = await make_summaries(store).summarize("p", make_batch())
    assert await make_summaries(store).summarize_all("p", [make_batch()], intervals=False) == {"ba_1": full}
