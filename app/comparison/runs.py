"""A batch's results as a run that can be compared with another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.batches.summaries import BLENDED, bounds_of, score_pages
from app.domain.batch import Batch
from app.domain.browsing import MOST_MEASURES
from app.domain.comparison import FINDING, ComparedRun, GateRule
from app.domain.composites import compose
from app.domain.conversation import ANY_CODE, CODES, FAULTY_TURNS, KIND_CODES, KINDS_KNOWN, FaultyTurns
from app.domain.errors import NotFound
from app.domain.model import key_of
from app.domain.rubric import Rubric
from app.domain.summary import SYSTEM, MeasureKey, RunItem, Scored
from app.runtime.memory import release
from saiten.core.messages import Message

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.domain.run_frame import Floats, Integers, RunFrame, RunRatings, RunTable
    from app.ratings.reliability import CountedRatings
    from app.ratings.table import AnswerTable
    from app.storage.sql.batches.store import BatchStore
    from app.storage.sql.frames import FrameStore

    Positions = NDArray[np.int32]


async def find_batch(store: BatchStore, project: str, batch_id: str) -> Batch:
    """The batch; raises NotFound where the project has none of that id."""
    found = await store.find(project, batch_id)
    if found is None:
        raise NotFound(Message("batch-named-not-found", batch=batch_id[:64]))
    return found


async def tabulate(store: BatchStore, project: str, batches: Sequence[Batch], *, marks: bool = False) -> AnswerTable:
    """Every result of the batches that there is now, as columns. The results themselves are let go of page by page.
    `marks`: faulty turns of conversations are a measure too."""
    from app.ratings.table import AnswerTable

    table = AnswerTable(marks=marks)
    for batch in batches:
        async for page in score_pages(store, project, batch.id):
            await asyncio.to_thread(table.add, batch, page)
    return table


@dataclass(frozen=True)
class RunReader:
    """Reads batches as runs. Methods raise StoreError."""

    batches: BatchStore
    frames: FrameStore

    async def read(
        self, project: str, batch: Batch, rubric: Rubric, found: CountedRatings | None = None
    ) -> ComparedRun:
        """Every result that the batch has now, as a run; with what people said in the ratings that are `found`, unless
        they are simulated. It is made of the columns of the results, and of results one by one only where columns do
        not tell everything, as of conversations."""
        import numpy as np

        from app.domain.run_frame import tabulate_items

        frame = None if rubric.unit == "conversation" else await self.frames.read_frame(project, batch.id)
        table = None if frame is None else await asyncio.to_thread(tabulate_frame, frame, batch, rubric)
        positions = None if frame is None else frame.positions
        if positions is None or table is None:
            items = await read_items(self.batches, project, batch)
            positions = list_positions(items)
            table = await asyncio.to_thread(tabulate_items, items, [aspect.id for aspect in rubric.aspects])
            await asyncio.to_thread(release, items)
        if found is not None and found.ratings and not found.used.simulated:
            rows = await self._find_rows(project, batch, table, positions, found)
            results = await self.batches.scores_at(project, batch.id, positions[rows].tolist())
            # A result may have been erased in between.
            rows = rows[np.isin(positions[rows], [result.entry.position for result in results])]
            table = await asyncio.to_thread(rate_table, table, rows, batch, results, found=found, rubric=rubric)
        return await asyncio.to_thread(assemble_run, batch, table, rubric)

    async def _find_rows(
        self, project: str, batch: Batch, table: RunTable, positions: Positions, found: CountedRatings
    ) -> Integers:
        """The rows of the responses that a rating may name."""
        import numpy as np

        ids = [one.evaluation for one in found.ratings if one.evaluation is not None]
        named = (await self.frames.find_places(project, ids)).values()

        def work() -> Integers:
            items = [key_of(name) for name in {one.item for one in found.ratings if one.item is not None}]
            own = [position for batch_id, position in named if batch_id == batch.id]
            return np.flatnonzero(np.isin(table.items, items) | np.isin(positions, own))

        return await asyncio.to_thread(work)


def list_positions(items: Sequence[RunItem]) -> Positions:
    """The places of the items of a batch, shape (n,)."""
    import numpy as np

    return np.array([item.position for item in items], dtype=np.int32)


def tabulate_frame(frame: RunFrame, batch: Batch, rubric: Rubric) -> RunTable | None:
    """The table of a frame of items; None where the frame does not have every result of the batch, or does not tell
    what its values are of: a release before had no columns for it, or the rubric measures something else by now."""
    import numpy as np

    from app.domain.run_frame import RunTable

    aspects, composites = [one.id for one in rubric.aspects], [one.id for one in rubric.composites]
    known = [*aspects, *composites, *(name + BLENDED for name in aspects)]
    counts = batch.counts
    finished = counts.scored + counts.partial + counts.failed + counts.expired
    judged = int(np.count_nonzero(frame.marked(lambda label: label.status != "failed" or bool(label.unrated))))
    columns = {name: np.ascontiguousarray(frame.values[:, place]) for place, name in enumerate(frame.names)}
    told = len({*known}) == len(known) and columns.keys() <= {*known} and len(columns) < MOST_MEASURES
    if len(frame.items) < finished or not told or (judged and not columns.keys() >= {*aspects}):
        return None
    nothing = np.full(len(frame.items), np.nan)
    values: dict[MeasureKey, Floats] = {("aspect", name): columns.get(name, nothing) for name in aspects}
    if judged:
        values |= {("composite", name): columns[name] for name in columns if name in composites}
    for name in aspects:
        if not np.isnan(blended := columns.get(name + BLENDED, nothing)).all():
            values["blended", name] = blended
    valued = any(not np.isnan(column).all() for column in values.values())
    return RunTable(frame.items, frame.contexts, frame.clusters, values, judged, valued)


def rate_table(
    table: RunTable, rows: Integers, batch: Batch, results: Sequence[Scored], *, found: CountedRatings, rubric: Rubric
) -> RunTable:
    """The table with the means of people's ratings of each response, of the composites that each rater's make, of the
    rates of faulty turns that they marked, and with what they weigh; `results` are those of the rows that may be
    rated."""
    import numpy as np

    from app.ratings.table import AnswerTable, weigh_rated

    answers = AnswerTable(marks=rubric.unit == "conversation")
    answers.add(batch, results)
    opinions = answers.rate(found.ratings)
    given: dict[int, dict[str, list[float]]] = {}
    said: dict[str, list[tuple[int, int, float]]] = {}
    for opinion in opinions:
        composites = {name: value for name, value in compose(rubric, opinion.ratings).items() if value is not None}
        for name, value in {**composites, **opinion.ratings}.items():
            own = FINDING + ANY_CODE if name == FAULTY_TURNS else name
            given.setdefault(opinion.row, {}).setdefault(own, []).append(value)
            said.setdefault(own, []).append((int(rows[opinion.row]), key_of(opinion.rater), value))
    people: dict[str, Floats] = {}
    weights = np.ones(len(table))
    weighed = weigh_rated(answers, opinions, found.draws)
    for answer, values in given.items():
        row = rows[answer]
        weights[row] = 1.0 if weighed is None else weighed[answer]
        for name, each in values.items():
            people.setdefault(name, np.full(len(table), np.nan))[row] = sum(each) / len(each)
    return replace(table, people=people, said={name: list_said(each) for name, each in said.items()}, weights=weights)


def list_said(ratings: Sequence[tuple[int, int, float]]) -> RunRatings:
    """Rows, raters and values as columns."""
    import numpy as np

    from app.domain.run_frame import RunRatings

    row, rater, value = zip(*ratings, strict=True)
    return RunRatings(np.array(row, np.int64), np.array(rater, np.int64), np.array(value, np.float64))


async def read_items(store: BatchStore, project: str, batch: Batch) -> list[RunItem]:
    """Every result of the batch that there is now as a run's item, in order; results are let go of likewise."""
    pages = score_pages(store, project, batch.id)
    return [describe_result(result, batch) async for page in pages for result in page]


def assemble_run(batch: Batch, table: RunTable, rubric: Rubric) -> ComparedRun:
    """The run of a batch: what it was to score, and what came of it. It loads numpy."""
    signatures = batch.signatures or ({batch.signature: table.judged} if batch.signature else {})
    return ComparedRun(
        name=f"{batch.name} ({batch.id})" if batch.name else batch.id,
        items=(),
        expected=batch.counts.total,
        signatures=signatures,
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_unnamed(batch, table.items),
        best=list_best(rubric),
        texts=batch.texts,
        figures=table,
    )


def outline_run(rubric: Rubric) -> ComparedRun:
    """A run by this rubric without items: of one that is not scored yet."""
    aspects = tuple(aspect.id for aspect in rubric.aspects)
    return ComparedRun("", (), 0, {}, scales_of(rubric), aspects, best=list_best(rubric))


def count_rules(rules: Sequence[GateRule], candidate: Rubric, baseline: Rubric | None) -> int:
    """How many rules a gate checks in runs by these rubrics. Raises InvalidRequest for a rule that does not fit them.
    It loads numpy and scipy, so run it in a thread."""
    from app.stats.gate_plan import plan

    return len(plan(rules, outline_run(candidate), None if baseline is None else outline_run(baseline)))


def describe_result(result: Scored, batch: Batch) -> RunItem:
    """One result's values; the system is the candidate's own, else the batch's."""
    scores = result.scores
    return RunItem(
        item=result.entry.item,
        candidate=result.entry.candidate,
        system=scores.system or batch.metadata.get(SYSTEM),
        context=scores.context,
        ratings={name: figures[0] for name, figures in scores.aspects.items()},
        composites=scores.composites,
        blended={name: figures[1] for name, figures in scores.aspects.items() if figures[1] is not None},
        position=result.entry.position,
        cluster=result.entry.cluster,
        findings={} if scores.faulty is None else rate_findings(scores.faulty),
        inapplicable=frozenset(name for name, figures in scores.aspects.items() if figures[2] == "not-applicable"),
    )


def list_best(rubric: Rubric) -> dict[str, float]:
    """The best value of each measure on which it is not the highest: of findings it is none."""
    return {**rubric.best, **FEWEST} if rubric.unit == "conversation" else dict(rubric.best)


FEWEST = {FINDING + code: 0.0 for code in (*CODES, *KIND_CODES)}
"""The best rate of findings of each code and of each kind of fault."""


def rate_findings(faulty: FaultyTurns) -> dict[str, float | None]:
    """How many of 100 system turns have a finding, by `finding:CODE`, and by `finding:kind:KIND` where kinds are known;
    None where that is not known."""
    codes = (*CODES, *KIND_CODES) if KINDS_KNOWN in faulty.found else CODES
    return {FINDING + code: faulty.rate_of(code) for code in codes}


def scales_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of every aspect, composite and blended aspect, and of the rates of findings: a blend
    counts on its aspect's scale."""
    bounds = bounds_of(rubric)
    if rubric.unit == "conversation":
        codes = (*CODES, *KIND_CODES) if rubric.kinds else CODES
        return {**bounds, **{FINDING + code: (0.0, 100.0) for code in codes}}
    return {**bounds, **{f"{aspect.id}.blended": bounds[aspect.id] for aspect in rubric.aspects}}


def best_of(rubric: Rubric) -> dict[str, float]:
    """The best level of each aspect on which it is not the highest; the same for the aspect's blended value."""
    return {**rubric.best, **{f"{name}.blended": value for name, value in rubric.best.items()}}


def are_unnamed(batch: Batch, items: Integers) -> bool:
    """Whether the batch's items have nothing but numbers. Where that was not recorded it is guessed from their keys."""
    return have_numbers(items) if batch.ids_given is None else not batch.ids_given


def are_numbered(items: Iterable[str]) -> bool:
    """Whether the items seem to have nothing but the numbers that Saiten gave them. Failed ones are results too, so in
    a whole batch no number is left out."""
    found = dict.fromkeys(items)
    return list(found) == [str(number) for number in range(len(found))]


def have_numbers(items: Integers) -> bool:
    """The same of the items' keys."""
    from app.stats.observations import number_first

    if not len(items) or items[0] != key_of("0"):
        return not len(items)
    places = number_first(items)
    return bool((items == first_numbers(int(places.max()) + 1)[places]).all())


def first_numbers(count: int) -> Integers:
    """The keys of the ids that Saiten gives to items without one; shape (count,)."""
    import numpy as np

    return np.array([key_of(str(number)) for number in range(count)], dtype=np.int64)
