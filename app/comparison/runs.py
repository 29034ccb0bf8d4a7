"""A batch's results as a run that can be compared with another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from saiten.core.messages import Message
from saiten_server.comparison.values import ComparedRun, GateRule
from saiten_server.core.batch import Batch
from saiten_server.core.conversation import (
    ANY_CODE,
    FAULTY_TURNS,
    FINDING,
    FINDING_CODES,
    KIND_CODES,
    FaultyTurns,
    list_codes,
)
from saiten_server.core.dialogue import digest_context
from saiten_server.core.errors import NotFound
from saiten_server.core.model import digest, key_of
from saiten_server.core.rubric import Rubric, compose
from saiten_server.runs.summaries import bounds_of
from saiten_server.runs.summary import MeasureKey

if TYPE_CHECKING:
    from saiten_server.ratings.reliability import CountedRatings
    from saiten_server.ratings.table import Answers
    from saiten_server.runs.frame import Floats, Integers, RunFrame, RunRatings
    from saiten_server.runs.store.batches import BatchStore
    from saiten_server.runs.store.frames import FrameStore


CANDIDATES_PAGE = 500
"""Candidates that are read at a time."""


async def find_batch(store: BatchStore, project: str, batch_id: str) -> Batch:
    """The batch; raises NotFound where the project has none of that id."""
    found = await store.find(project, batch_id)
    if found is None:
        raise NotFound(Message("batch-named-not-found", batch=batch_id[:64]))
    return found


@dataclass(frozen=True)
class RunReader:
    """Reads batches as runs. Methods raise StoreError."""

    batches: BatchStore
    frames: FrameStore

    async def read(
        self, project: str, batch: Batch, rubric: Rubric, found: CountedRatings | None = None
    ) -> ComparedRun:
        """Every result that the batch has now, as a run; with what people said in the ratings that are `found`, unless
        they are simulated."""
        frame = await self.read_frame(project, batch, rubric)
        if found is not None and found.ratings and not found.used.simulated:
            places = await self.frames.find_places(project, list_evaluations(found))
            frame = await asyncio.to_thread(rate_frame, frame, batch, places, found=found, rubric=rubric)
        return await asyncio.to_thread(assemble_run, batch, frame, rubric)

    async def read_frame(self, project: str, batch: Batch, rubric: Rubric) -> RunFrame:
        """What the rubric measures of every result."""
        return await asyncio.to_thread(fit_frame, await self.frames.read_frame(project, batch.id), rubric)

    async def read_texts(self, batch: Batch, frame: RunFrame) -> RunFrame:
        """The batch's run with the keys of what was scored."""
        import numpy as np

        texts, after = np.zeros(len(frame), dtype=np.int64), -1
        while page := await self.batches.candidates(batch.id, after=after, limit=CANDIDATES_PAGE):
            found = {
                entry.position: key_of(f"{digest_context(one.context)} {digest(one.response)}") for entry, one in page
            }
            rows = frame.at(np.array([*found], dtype=np.int32))
            texts[rows] = [found[position] for position in frame.positions[rows].tolist()]
            after = page[-1][0].position
        return replace(frame, texts=texts)

    async def read_answers(
        self,
        project: str,
        batches: Sequence[Batch],
        found: CountedRatings | None = None,
        *,
        marks: bool = False,
        texts: bool = False,
    ) -> Answers:
        """Every result of the batches that there is now, to be rated by what was `found`. `marks`: faulty turns of
        conversations are a measure too; `texts`: with the keys of what was scored, but for batches whose texts were
        dropped."""
        read = []
        for batch in batches:
            frame = await self.frames.read_frame(project, batch.id)
            if texts and batch.texts != "drop":
                frame = await self.read_texts(batch, frame)
            read.append((batch, frame, await self.frames.read_items(project, batch.id)))
        places = await self.frames.find_places(project, [] if found is None else list_evaluations(found))

        def work() -> Answers:
            from saiten_server.ratings.table import Answers, name_run

            return Answers([name_run(*each) for each in read], places, marks=marks)

        return await asyncio.to_thread(work)


def list_evaluations(found: CountedRatings) -> list[str]:
    """What ratings call results by their own ids."""
    return [one.evaluation for one in found.ratings if one.evaluation is not None]


def fit_frame(frame: RunFrame, rubric: Rubric) -> RunFrame:
    """The run with what the rubric measures: all its aspects, and of its composites and blends what the results have;
    another version of it may have had others."""
    import numpy as np

    aspects, composites = {one.id for one in rubric.aspects}, {one.id for one in rubric.composites}
    values: dict[MeasureKey, Floats] = {("aspect", one.id): frame.read(("aspect", one.id)) for one in rubric.aspects}
    for (kind, name), column in frame.values.items():
        if kind == "composite":
            kept = name in composites and frame.judged > 0
        elif kind == "blended":
            kept = name in aspects and not np.isnan(column).all()
        else:
            kept = kind != "aspect"
        if kept:
            values[kind, name] = column
    return replace(frame, values=values)


def rate_frame(
    frame: RunFrame, batch: Batch, places: Mapping[str, tuple[str, int]], *, found: CountedRatings, rubric: Rubric
) -> RunFrame:
    """The run with the means of people's ratings of each response, of the composites that each rater's make, of the
    rates of faulty turns that they marked, and with what they weigh. `places` are the batch and the position of the
    evaluations that ratings name."""
    import numpy as np

    from saiten_server.ratings.table import Answers, NamedRun, weigh_rated

    answers = Answers([NamedRun(batch, frame)], places, marks=rubric.unit == "conversation")
    opinions = answers.rate(found.ratings)
    given: dict[str, dict[int, list[float]]] = {}
    said: dict[str, list[tuple[int, int, float]]] = {}
    for row, rater, ratings in opinions:
        composites = {name: value for name, value in compose(rubric, ratings).items() if value is not None}
        for name, value in {**composites, **ratings}.items():
            own = FINDING + ANY_CODE if name == FAULTY_TURNS else name
            given.setdefault(own, {}).setdefault(row, []).append(value)
            said.setdefault(own, []).append((row, key_of(rater), value))
    people: dict[str, Floats] = {}
    for name, rated in given.items():
        people[name] = np.full(len(frame), np.nan)
        people[name][[*rated]] = [sum(each) / len(each) for each in rated.values()]
    weights, weighed = np.ones(len(frame)), weigh_rated(answers, opinions, found.draws)
    if weighed is not None:
        rows = [opinion.row for opinion in opinions]
        weights[rows] = weighed[rows]
    return replace(
        frame, people=people, said={name: list_ratings(each) for name, each in said.items()}, weights=weights
    )


def list_ratings(ratings: Sequence[tuple[int, int, float]]) -> RunRatings:
    """Rows, raters and values as columns."""
    import numpy as np

    from saiten_server.runs.frame import RunRatings

    row, rater, value = zip(*ratings, strict=True)
    return RunRatings(np.array(row, np.int64), np.array(rater, np.int64), np.array(value, np.float64))


def assemble_run(batch: Batch, frame: RunFrame, rubric: Rubric) -> ComparedRun:
    """The run of a batch: what it was to score, and what came of it. It loads numpy."""
    signatures = batch.signatures or ({batch.signature: frame.judged} if batch.signature else {})
    return ComparedRun(
        name=f"{batch.name} ({batch.id})" if batch.name else batch.id,
        frame=frame,
        expected=batch.counts.total,
        signatures=signatures,
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_unnamed(batch, frame.items),
        best=list_best(rubric),
        texts=batch.texts,
        rubric=rubric.name,
    )


def outline_run(rubric: Rubric) -> ComparedRun:
    """A run by this rubric without results: of one that is not scored yet. It loads numpy."""
    from saiten_server.runs.frame import make_frame

    aspects = tuple(aspect.id for aspect in rubric.aspects)
    frame = fit_frame(make_frame(0, {}), rubric)
    return ComparedRun("", frame, 0, {}, scales_of(rubric), aspects, best=list_best(rubric))


def count_rules(rules: Sequence[GateRule], candidate: Rubric, baseline: Rubric | None) -> int:
    """How many rules a gate checks in runs by these rubrics. Raises InvalidRequest for a rule that does not fit them.
    It loads numpy and scipy, so run it in a thread."""
    from saiten_server.comparison.gate_plan import plan_rules

    return len(plan_rules(rules, outline_run(candidate), None if baseline is None else outline_run(baseline)))


def list_best(rubric: Rubric) -> dict[str, float]:
    """The best value of each measure on which it is not the highest: of findings it is none."""
    return {**rubric.best, **BEST_FINDING_RATES} if rubric.unit == "conversation" else dict(rubric.best)


BEST_FINDING_RATES = {FINDING + code: 0.0 for code in (*FINDING_CODES, *KIND_CODES)}
"""The best rate of findings of each code and of each kind of fault."""


def rate_findings(faulty: FaultyTurns) -> dict[str, float | None]:
    """How many of 100 system turns have a finding, by `finding:CODE`, and by `finding:kind:KIND` where kinds are known;
    None where that is not known."""
    return {FINDING + code: faulty.rate_of(code) for code in list_codes(faulty)}


def scales_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of every aspect, composite and blended aspect, and of the rates of findings: a blend
    counts on its aspect's scale."""
    bounds = bounds_of(rubric)
    if rubric.unit == "conversation":
        codes = (*FINDING_CODES, *KIND_CODES) if rubric.kinds else FINDING_CODES
        return {**bounds, **{FINDING + code: (0.0, 100.0) for code in codes}}
    return {**bounds, **{f"{aspect.id}.blended": bounds[aspect.id] for aspect in rubric.aspects}}


def best_of(rubric: Rubric) -> dict[str, float]:
    """The best level of each aspect on which it is not the highest; the same for the aspect's blended value."""
    return {**rubric.best, **{f"{name}.blended": value for name, value in rubric.best.items()}}


def are_unnamed(batch: Batch, items: Integers) -> bool:
    """Whether the batch's items have nothing but numbers. Where that was not recorded it is guessed from their keys."""
    return have_numbers(items) if batch.ids_given is None else not batch.ids_given


def have_numbers(items: Integers) -> bool:
    """Whether the items, by their keys, seem to have nothing but the numbers that Saiten gave them. Failed ones are
    results too, so in a whole batch no number is left out."""
    from saiten_server.stats.observations import number_first

    if not len(items) or items[0] != key_of("0"):
        return not len(items)
    places = number_first(items)
    return bool((items == first_numbers(int(places.max()) + 1)[places]).all())


def first_numbers(count: int) -> Integers:
    """The keys of the ids that Saiten gives to items without one; shape (count,)."""
    import numpy as np

    return np.array([key_of(str(number)) for number in range(count)], dtype=np.int64)
