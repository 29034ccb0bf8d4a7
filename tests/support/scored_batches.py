"""Completed batches out of columns of ratings, in whatever store they are made."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import AspectResult, RelevanceResult, RubricReference, Unrated
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from tests.support.batches import LEASE, date_back
from tests.support.fake_rubrics import small_rubric
from tests.support.records import make_record

RUBRIC = small_rubric()
SIGNATURE = f"saiten:1|rubric:small@1|digest:{RUBRIC.digest[:12]}|judge:lexical|model:lexical-1|path:source"

SCALES = {"warmth": (0, 1), "clarity": (1, 3)}

Column = Sequence[int | None]


async def score_batch(
    store: BatchStore,
    batch_id: str,
    columns: Mapping[str, Column],
    *,
    project: str = "team",
    signature: str = SIGNATURE,
    entries: Sequence[tuple[str, int | None]] = (),
    fail: Sequence[int] = (),
    systems: Sequence[str] = (),
    blend: float | None = None,
    clusters: Sequence[str | None] = (),
    ids_given: bool | None = None,
    **options: Any,
) -> None:
    """A batch, of the rubric `small` unless the options name another; its result at each position from the columns; those in `fail` have failed.

    `entries` are item ids with candidates, by default `item-0` and so on; `systems` are the candidates' own. With
    `blend` every aspect is blended, that much above its rating; `clusters` are the candidates'. A chunk of results at
    most.
    """
    count = max(len(column) for column in columns.values())
    named = entries or [(f"item-{number}", None) for number in range(count)]
    places = [
        Entry(position=position, item=item, candidate=candidate, cluster=clusters[position] if clusters else None)
        for position, (item, candidate) in enumerate(named)
    ]
    settled = BatchOptions(**{"rubric": "small", "relevance": None, **options})
    # Now, because a service that runs beside discards what was begun long ago and is not accepted.
    await store.begin(project, batch_id, settled, datetime.now(UTC), ids_given=ids_given)
    await store.append(batch_id, [(place, pose(place)) for place in places])
    await store.accept(project, batch_id, unit_cost_usd=None, answer=None)
    await date_back(store._engine, batch_id)
    work = await store.claim(ChunkJob(batch_id, 0), "w1", LEASE)
    if work is None or len(work.todo) != count:
        raise RuntimeError(f"{count} results are more than a chunk")
    finished = []
    for place in places:
        at = place.position
        system = {"system": systems[at]} if systems else {}
        changes: dict[str, Any] = {
            "rubric": RubricReference(id="small", version=1, digest=RUBRIC.digest),
            "aspects": {name: rate(name, column[at], blend) for name, column in columns.items()},
            "composites": {},
            "signature": signature,
            "metadata": system,
            "warnings": (),
            "relevance": None if blend is None else relate(0.5 + at / 100),
        }
        record = None if at in fail else make_record(f"ev_{batch_id}_{at}", **changes)
        failure = Failure(code="judge-refused-request", detail="no") if at in fail else None
        finished.append(FinishedCandidate(work.job, place, record, failure))
    await store.commit("w1", finished, [work.job])


def pose(place: Entry) -> Candidate:
    """What was to be rated there: the same context for every candidate of an item."""
    return Candidate(context=(Utterance(speaker="A", text=f"Hello, {place.item}"),), response="Hi")


def rate(name: str, rating: int | None, blend: float | None) -> AspectResult:
    """The verdict with that rating; None is unrated."""
    scale = SCALES.get(name, (0, 1))
    if rating is None:
        missing = Unrated(reason="missing", detail="")
        return AspectResult(rating=None, scale=scale, label=None, samples=(None,), mean=None, sd=None, unrated=missing)
    blended = None if blend is None else rating + blend
    return AspectResult(rating=rating, scale=scale, label="…", samples=(rating,), mean=rating, sd=0.0, blended=blended)


def relate(similarity: float) -> RelevanceResult:
    return RelevanceResult(score=similarity, baseline=0.5, baseline_source="number", weight=1, encoder="e")
