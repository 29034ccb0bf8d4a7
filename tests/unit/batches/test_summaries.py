"""Which summaries are kept, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from app.batch_ports import BatchStore, Scored, Scores
from app.batches.summaries import Summaries
from app.domain.batch import Batch, BatchStatus, Counts, Entry
from app.domain.evaluation import JudgeOptions, Usage
from tests.support.fake_rubrics import FakeRubrics, small_rubric

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class ScoringStore:
    """Has `total` results of a warmth of 1, and remembers which pages were read."""

    def __init__(self, total: int) -> None:
        self.pages: list[tuple[str, int]] = []
        self._total = total

    async def scores(self, project: str, batch_id: str, *, after: int, limit: int) -> Sequence[Scored]:
        self.pages.append((batch_id, after))
        positions = range(after + 1, min(after + 1 + limit, self._total))
        scores = Scores("scored", {"warmth": (1.0, None, None, 1)}, {})
        return [Scored(Entry(position=position, item="a", candidate=None), "ev_1", scores) for position in positions]


def make_batch(batch_id: str = "ba_1", status: BatchStatus = "completed", **changes: Any) -> Batch:
    total = 5
    return Batch(
        id=batch_id, name=None, status=status, rubric="small", path="source", relevance=None, judge=JudgeOptions(),
        budget_usd=None, counts=Counts(total=total, queued=0, scored=total, partial=0, failed=0), progress=1.0,
        rate_per_second=None, estimated_end=None, usage=Usage(), signature=None, metadata={}, created_at=NOW,
        finished_at=NOW if status == "completed" else None,
    ).model_copy(update=changes)  # fmt: skip


def make_summaries(store: ScoringStore) -> Summaries:
    return Summaries(cast(BatchStore, store), FakeRubrics([small_rubric()]))


async def test_every_page_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.batches.summaries.SCORES_PAGE", 2)
    store = ScoringStore(5)
    summary = await make_summaries(store).summarize("p", make_batch())
    assert summary.aspects["warmth"].n == 5
    assert [after for _, after in store.pages] == [-1, 1, 3, 4]


async def test_a_completed_batch_is_summed_up_once_and_a_running_one_each_time() -> None:
    store = ScoringStore(5)
    summaries = make_summaries(store)
    first = await summaries.summarize("p", make_batch())
    read = len(store.pages)
    assert await summaries.summarize("p", make_batch()) is first
    assert len(store.pages) == read
    await summaries.summarize("p", make_batch(status="running"))
    await summaries.summarize("p", make_batch(status="running"))
    assert len(store.pages) == 3 * read
    # Another end is another batch of results.
    await summaries.summarize("p", make_batch(finished_at=NOW + timedelta(seconds=1)))
    assert len(store.pages) == 4 * read


async def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.batches.summaries.KEPT", 2)
    store = ScoringStore(1)
    summaries = make_summaries(store)
    for name in ("a", "b", "a", "c", "a", "b"):
        await summaries.summarize("p", make_batch(name))
    # `a` was asked for in between, so `b` had gone when it was asked for again.
    assert [name for name, after in store.pages if after == -1] == ["a", "b", "c", "b"]
