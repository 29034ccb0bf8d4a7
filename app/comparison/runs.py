"""A batch's results as a run that can be compared with another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.batches.summaries import bounds_of, score_pages
from app.domain.batch import Batch
from app.domain.comparison import FINDING, ComparedRun, GateRule, RunItem
from app.domain.composites import compose
from app.domain.conversation import CODES, FaultyTurns
from app.domain.errors import NotFound
from app.domain.rubric import Rubric
from app.domain.summary import SYSTEM, Scored

if TYPE_CHECKING:
    from app.ratings.reliability import CountedRatings
    from app.ratings.table import AnswerTable
    from app.storage.sql.batches.store import BatchStore


async def find_batch(store: BatchStore, project: str, batch_id: str) -> Batch:
    """The batch; raises NotFound where the project has none of that id."""
    found = await store.find(project, batch_id)
    if found is None:
        raise NotFound(f"there is no batch {batch_id[:64]} in this project")
    return found


async def tabulate(store: BatchStore, project: str, batches: Sequence[Batch]) -> AnswerTable:
    """Every result of the batches that there is now, as columns. The results themselves are let go of page by page."""
    from app.ratings.table import AnswerTable

    table = AnswerTable()
    for batch in batches:
        async for page in score_pages(store, project, batch.id):
            await asyncio.to_thread(table.add, batch, page)
    return table


async def read_items(store: BatchStore, project: str, batch: Batch) -> list[RunItem]:
    """Every result of the batch that there is now as a run's item, in order; results are let go of likewise."""
    pages = score_pages(store, project, batch.id)
    return [describe_result(result, batch) async for page in pages for result in page]


async def read_rated_items(
    store: BatchStore, project: str, batch: Batch, found: CountedRatings, rubric: Rubric
) -> list[RunItem]:
    """The same with the means of people's ratings of each response, and of the composites that each rater's make;
    without any where no person rated."""
    if not found.ratings or found.used.simulated:
        return await read_items(store, project, batch)
    from app.ratings.table import AnswerTable

    table, items = AnswerTable(), list[RunItem]()
    async for page in score_pages(store, project, batch.id):
        await asyncio.to_thread(table.add, batch, page)
        items += [describe_result(result, batch) for result in page]
    return await asyncio.to_thread(attach_ratings, items, table, found, rubric)


def attach_ratings(
    items: Sequence[RunItem], table: AnswerTable, found: CountedRatings, rubric: Rubric
) -> list[RunItem]:
    """The items, of which the table holds one a row, with people's ratings and what these weigh."""
    from app.ratings.table import weigh_rated

    given: dict[int, dict[str, list[float]]] = {}
    opinions = table.rate(found.ratings)
    weights = weigh_rated(table, opinions, found.draws)
    for opinion in opinions:
        composites = {name: value for name, value in compose(rubric, opinion.ratings).items() if value is not None}
        for name, value in {**composites, **opinion.ratings}.items():
            given.setdefault(opinion.row, {}).setdefault(name, []).append(value)
    rated = list(items)
    for row, values in given.items():
        people = {name: sum(each) / len(each) for name, each in values.items()}
        rated[row] = replace(items[row], people=people, weight=1.0 if weights is None else float(weights[row]))
    return rated


def assemble_run(batch: Batch, items: Sequence[RunItem], rubric: Rubric) -> ComparedRun:
    """The run of a batch: what it was to score, and what came of it."""
    signed = sum(bool(item.ratings) for item in items)  # a failure in a result's place is not
    signatures = batch.signatures or ({batch.signature: signed} if batch.signature else {})
    return ComparedRun(
        name=f"{batch.name} ({batch.id})" if batch.name else batch.id,
        items=items,
        expected=batch.counts.total,
        signatures=signatures,
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_numbered(item.item for item in items),
        best=list_best(rubric),
        texts=batch.texts,
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


FEWEST = {FINDING + code: 0.0 for code in CODES}
"""The best rate of findings of each code."""


def rate_findings(faulty: FaultyTurns) -> dict[str, float | None]:
    """How many of 100 system turns have a finding, by `finding:CODE`; None where that is not known."""
    known = {code: faulty.turns_of(code) for code in CODES}
    return {
        FINDING + code: None if turns is None else 100 * len(turns) / faulty.system_turns
        for code, turns in known.items()
    }


def scales_of(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """Lowest and highest value of every aspect, composite and blended aspect, and of the rates of findings: a blend
    counts on its aspect's scale."""
    bounds = bounds_of(rubric)
    if rubric.unit == "conversation":
        return {**bounds, **dict.fromkeys(FEWEST, (0.0, 100.0))}
    return {**bounds, **{f"{aspect.id}.blended": bounds[aspect.id] for aspect in rubric.aspects}}


def best_of(rubric: Rubric) -> dict[str, float]:
    """The best level of each aspect on which it is not the highest; the same for the aspect's blended value."""
    return {**rubric.best, **{f"{name}.blended": value for name, value in rubric.best.items()}}


def are_numbered(items: Iterable[str]) -> bool:
    """Whether the items have nothing but the numbers that Saiten gave them. Failed ones are results too, so in a whole
    batch no number is left out."""
    found = dict.fromkeys(items)
    return list(found) == [str(number) for number in range(len(found))]
