"""`/runs/{id}`: one run in figures, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from starlette.background import BackgroundTask

from saiten.core.messages import Message
from saiten_server.analyses.requests import CorrectedRequest
from saiten_server.core.batch import ENDED_STATUSES, Batch
from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.core.reliability import FEWEST_ITEMS, Reliability
from saiten_server.core.reports import CorrectedAspect, CorrectedReport, Correlations
from saiten_server.core.rubric import Aspect, Rubric, range_of
from saiten_server.core.signature import read_signature
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.pages import run_values
from saiten_server.explorer.pages.conversation import gather_findings
from saiten_server.explorer.pages.run_values import paint
from saiten_server.explorer.pages.trend import (
    CARD_WIDTH,
    TREND_WAIT_SECONDS,
    Trend,
    TrendAspect,
    find_trend,
    trend_faulty,
)
from saiten_server.platform.charts.histogram import HistogramAxis, HistogramLabels, build_histogram
from saiten_server.platform.computations import TURN_WAIT_SECONDS, PendingComputation
from saiten_server.platform.sql.tables import MOST_MEASURES
from saiten_server.platform.web.dependencies import Serving, may_write, note
from saiten_server.platform.web.language import Speech, mark, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, WritableProject, read_form, redirect, render
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, signatures_of, system_of
from saiten_server.runs.summaries import MOST_READ_AT_ONCE
from saiten_server.runs.summary import AspectSummary, Summary
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten_server.platform.web.problems import title_of

MOST_TABLE_ROWS = 100
MOST_RATINGS_READ = 100
"""On people's scale."""

router = APIRouter(prefix="/runs", include_in_schema=False, route_class=PageRoute)


@router.get("/{run_id}")
async def show_run(request: Request, container: Serving, project: Project, run_id: str) -> Response:
    """The run as it is now."""
    batch = await container.batches.find(project, run_id)
    rubric = find_rubric(container, batch.rubric_name)
    gather = partial(gather_figures, request, container, project, batch, rubric) if rubric else None
    figures = await gather(wait_seconds=None if is_large(batch) else TREND_WAIT_SECONDS) if gather else None
    befores = await run_values.find_predecessors(container.batches, project, [batch])
    response = render(
        request,
        "run.html",
        batch=batch,
        rubric=rubric,
        system=system_of(batch),
        build=build_of(batch),
        judges=run_names.judges_of(container, batch),
        before=befores.get(batch.id),
        **await describe_baseline(container, project, batch),
        may_write=may_write(request),
        is_open=batch.status not in ENDED_STATUSES,
        advice=WHAT_TO_DO.get(batch.pause_reason or "", OTHERWISE) if batch.status == "paused" else None,
        bill=make_bill(batch),
        signatures=[(text, batch.signatures.get(text), explain_signature(text)) for text in signatures_of(batch)],
        figures=figures,
        metadata={name: value for name, value in batch.metadata.items() if name not in {"system", "build"}},
    )
    if gather and figures and figures["computing"] and is_large(batch):
        # After the page, with which reading of results and imports of numpy and scipy would take turns.
        response.background = BackgroundTask(gather, wait_seconds=0.0)
    return response


def is_large(batch: Batch) -> bool:
    """Whether its figures are computed once, when it has ended, and behind its page: they take seconds."""
    return batch.status in ENDED_STATUSES and batch.counts.total > MOST_READ_AT_ONCE


async def describe_baseline(container: Container, project: str, batch: Batch) -> dict[str, Any]:
    """The baseline of the run's name with which it can be compared, and whether it is that baseline itself."""
    pins = await container.comparison.baselines.list(project, [batch.name]) if batch.name is not None else []
    is_baseline = any(one.batch == batch.id for one in pins)
    pinned = {} if is_baseline or not pins else await container.comparison.pinned(project, [batch])
    return {"is_baseline": is_baseline, "baseline": pinned.get(batch.id)}


async def gather_figures(
    request: Request, container: Container, project: str, batch: Batch, rubric: Rubric, *, wait_seconds: float | None
) -> dict[str, Any]:
    """Everything that rests on the run's results; `wait_seconds` as of `Computations.get`, for the trend. Other parts
    wait no longer than for a turn."""
    speech = speech_of(request)
    for_turn = None if wait_seconds is None else min(wait_seconds, TURN_WAIT_SECONDS)
    summary, estimating = await sum_up(container, project, batch, wait_seconds=for_turn)
    summary = await container.ratings.reliabilities.mark_summary(project, summary)
    cards = make_cards(rubric, summary, samples=batch.judge.samples)
    axis = HistogramAxis(max((level.count for card in cards for level in card.levels), default=1))
    asked = request.query_params.get("correlation")
    coefficient = asked if asked in COEFFICIENTS else COEFFICIENTS[0]
    rated = await container.ratings.service.ratings.of_batch(project, batch.id, after=-1, limit=MOST_RATINGS_READ)
    names = [aspect.id for aspect in rubric.aspects]
    measures = [*map(trended, cards), *trend_faulty(rubric, speech)]
    correlations, drawings, trend, people = await asyncio.gather(
        correlate_aspects(container, project, batch, names, coefficient, wait_seconds=for_turn),
        asyncio.gather(*(draw_histogram(container, speech, card, axis) for card in cards)),
        find_trend(container, project, speech, batch=batch, aspects=measures, wait_seconds=wait_seconds),
        correct(container, project, speech, batch, rubric, rated=bool(rated), wait_seconds=for_turn),
    )
    drawn = [panel.drawing for panel in trend.panels] if isinstance(trend, Trend) else []
    turns = None
    if summary.findings is not None:
        faults = request.query_params.get("faults")
        order = request.query_params.get("order")
        turns = await gather_findings(
            container, project, speech, batch, summary=summary, asked=faults, order=order, wait_seconds=for_turn
        )
        drawn += turns.drawings
    titles = titles_of(SaitenError)
    return {
        "summary": summary,
        "estimating": estimating,
        "computing": estimating
        or isinstance(trend, PendingComputation)
        or any(part is not None and part.is_computing for part in (correlations, people, turns)),
        "reliability": summary.reliability,
        "cards": cards,
        "drawings": {card.id: drawing for card, drawing in zip(cards, drawings, strict=True)},
        "painting": any(map(run_values.is_missing, [*drawings, *drawn])),
        "lowest": find_lowest(cards),
        "composites": [
            (one.id, range_of(one, rubric), query("/explore", run=batch.id, measure=one.id))
            for one in rubric.composites
        ],
        "failures": [(code, titles.get(code, ""), count) for code, count in summary.failures.items()],
        # Without what is said of every result and stands on top of the page: that the judge is a baseline.
        "warnings": {code: n for code, n in summary.warnings.items() if code != "baseline-judge"},
        "coefficient": coefficient,
        "correlations": correlations,
        "people": people,
        # What is stored as ratings of the run, as far as it is looked at, came from no person.
        "simulated": bool(rated) and all(rating.simulated for _, rating in rated),
        "needed": FEWEST_ITEMS,
        "is_rated": is_rated(summary.reliability),
        "only_rules": run_names.has_only_rules(summary),
        "trend": trend if isinstance(trend, Trend) else None,
        "summing": isinstance(trend, PendingComputation),
        "corrected": people.by_aspect if people else {},
        "whose": "corrected" if request.query_params.get("figures") == "corrected" else "judge",
        "turns": turns,
    }


async def sum_up(
    container: Container, project: str, batch: Batch, *, wait_seconds: float | None
) -> tuple[Summary, bool]:
    """The summary, and whether its intervals are still to be computed: once, for a large run that has ended."""
    estimating = False
    if is_large(batch):
        found = await container.dashboard.computations.get(
            project,
            ("summary", state_of(batch)),
            lambda: container.batches.summaries(project, [batch]),
            wait_seconds=wait_seconds,
        )
        estimating = isinstance(found, PendingComputation)
    summaries = await container.batches.summaries(project, [batch], intervals=not estimating)
    return summaries[batch.id], estimating


class PeopleRow(NamedTuple):
    """One measure on people's scale; `name` has the system in front where the run has several."""

    id: str
    name: str
    found: CorrectedAspect


class PeopleScale(NamedTuple):
    """The run's means as people would have them, or that they are being computed. `by_aspect` has those of a run of one
    system, also where people rated nothing; none of several systems."""

    rows: tuple[PeopleRow, ...]
    by_aspect: Mapping[str, CorrectedAspect]
    is_computing: bool = False

    @property
    def notes(self) -> Mapping[Message | str, Sequence[str]]:
        """Each note with the names of the measures that have it."""
        found: dict[Message | str, list[str]] = {}
        for row in self.rows:
            for told in row.found.notes:
                found.setdefault(told, []).append(row.name)
        return found


async def correct(
    container: Container,
    project: str,
    speech: Speech,
    batch: Batch,
    rubric: Rubric,
    *,
    rated: bool,
    wait_seconds: float | None,
) -> PeopleScale | None:
    """The judge's means corrected by people's ratings; None where nothing of it is `rated`, or it has not ended."""
    if batch.status not in ENDED_STATUSES or not rated:
        return None
    key = ("corrected", state_of(batch), rubric.digest, await run_values.mark_ratings(container, project))

    async def work() -> CorrectedReport | None:
        try:
            return cast(
                CorrectedReport,
                await container.comparison.analyse(project, CorrectedRequest(batch=batch.id), remember=False),
            )
        except InvalidRequest:  # what is there says nothing of people: simulated, excluded, or of other responses
            return None

    found = await container.dashboard.computations.get(project, key, work, wait_seconds=wait_seconds)
    if found is None or isinstance(found, PendingComputation):
        return None if found is None else PeopleScale((), {}, is_computing=True)
    names = run_names.name_measures(rubric, speech, marked=True)
    several = len(found.systems) > 1
    rows = [
        PeopleRow(aspect, f"{system} · {names.get(aspect, aspect)}" if several else names.get(aspect, aspect), one)
        for system, by_aspect in found.systems.items()
        for aspect, one in by_aspect.aspects.items()
        if one.rated
    ]
    by_aspect = {} if several else {name: one for each in found.systems.values() for name, one in each.aspects.items()}
    return PeopleScale(tuple(rows[:MOST_TABLE_ROWS]), by_aspect) if rows else None


def is_rated(found: Reliability | None) -> bool:
    """Whether two people rated enough responses on whatever aspect they rated."""
    counts = [one.n for one in found.aspects.values() if one.state != "unknown"] if found else []
    return bool(counts) and min(counts) >= FEWEST_ITEMS


@router.post("/{run_id}/pause")
async def pause_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Begins nothing new."""
    await read_form(request)
    await container.batches.pause(project, run_id)
    return redirect(f"/runs/{run_id}")


@router.post("/{run_id}/resume")
async def resume_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Goes on with a paused run."""
    await read_form(request)
    await container.batches.resume(project, run_id)
    return redirect(f"/runs/{run_id}")


@router.post("/{run_id}/cancel")
async def cancel_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Ends the run; what is rated stays."""
    await read_form(request)
    await container.batches.cancel(project, run_id)
    return redirect(f"/runs/{run_id}")


@router.post("/{run_id}/baseline")
async def pin_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Makes the run the baseline of its name, or it no longer is."""
    form = await read_form(request)
    batch = await container.batches.find(project, run_id)
    if form.get("unpin"):
        pins = await container.comparison.baselines.list(project, [batch.name or ""])
        if any(one.batch == batch.id for one in pins):  # else another run took its place meanwhile
            await container.comparison.unpin(project, batch.name or "")
            await note(request, container, "baseline.unpinned", batch.id)
    else:
        await container.comparison.pin(project, batch.name or "", batch.id)
        await note(request, container, "baseline.pinned", batch.id)
    return redirect(f"/runs/{run_id}")


@router.get("/{run_id}/delete")
async def ask_before_erasure(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Says what would be lost."""
    return render(request, "run_delete.html", batch=await container.batches.find(project, run_id))


@router.post("/{run_id}/delete")
async def erase_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Removes the run with everything that belongs to it."""
    await read_form(request)
    await container.batches.erase(project, run_id)
    await note(request, container, "batch.erased", run_id)
    return redirect("/")


async def draw_histogram(container: Container, speech: Speech, card: AspectCard, axis: HistogramAxis) -> Markup:
    """How often each level was given, on the axis of all aspects."""
    _ = speech.say
    n, mean = speech.formats.count(card.summary.n), speech.formats.number(card.summary.mean)
    labels = HistogramLabels(
        title=_("Ratings of %(aspect)s", aspect=speech.pick(card.name)),
        description=_("%(n)s rated, mean %(mean)s", n=n, mean=mean),
        unrated=_("unrated"),
        nothing=_("Nothing is rated yet."),
    )
    levels = [
        (f"{level.value} {speech.pick(level.label)}" if level.label else str(level.value), level.count)
        for level in card.levels
    ]
    tones = [tell_tone(level.value, card) for level in card.levels]
    spec = build_histogram(levels, card.summary.unrated, labels, tones=tones, axis=axis, width=CARD_WIDTH)
    return await paint(container, speech, spec)


def tell_tone(value: int, card: AspectCard) -> float:
    """How good a level is: 0 is the worst of the scale, 1 the best."""
    best = card.aspect.best if card.aspect else None
    if best is None:
        best = card.high
    farthest = max(best - card.low, card.high - best, 1)
    return 1 - min(1.0, abs(value - best) / farthest)


WHAT_TO_DO: Mapping[str, str] = {
    "requested": mark("Resume it to continue."),
    "budget-exhausted": mark(
        "Results so far are kept. Resume the run to use the rest of the budget, or send the other items as a new batch."
    ),
    "cost-limit-reached": mark("Resume the run after midnight UTC, or have the key's limit raised and then resume it."),
    "judge-quota-exhausted": mark(
        "Wait for the quota to reset, or raise it with the judge's provider. Then resume the run."
    ),
    "judge-unauthorized": mark("Set a valid OPENAI_API_KEY, restart the service, then resume the run."),
    "judge-refused-request": mark(
        "The judge refuses the model or the parameters. Read its answer below, correct them, then resume."
    ),
    "internal-error": mark("Every item has its result. Report what the worker logged, then resume the run."),
    "provider-batch-failed": mark("Read the provider's answer below, fix the problem, then resume the run."),
    "provider-batch-unavailable": mark(
        "Start the service or worker with a judge that has a batch mode, then resume the run."
    ),
    "translator-quota-exhausted": mark("Wait for DeepL's quota to reset, or raise it. Then resume the run."),
    "translator-unauthorized": mark("Set a valid DEEPL_API_KEY, restart the service, then resume the run."),
    "translator-not-configured": mark("Set DEEPL_API_KEY for the service and its workers, then resume the run."),
    "unknown-rubric": mark("Give the workers the rubric that the service had, then resume the run."),
    "rubric-not-supported": mark("Start the workers with a judge that can rate this rubric, then resume the run."),
}
"""By pause reason."""

OTHERWISE = mark("Fix the problem described below, then resume the run.")

PIECES: Mapping[str, str] = {
    "saiten": mark("Saiten's version"),
    "rubric": mark("rubric and its version"),
    "digest": mark("fingerprint of the rubric's meaning"),
    "judge": mark("kind of judge and of its endpoint"),
    "model": mark("model, as the endpoint names it"),
    "prompt": mark("fingerprint of the prompt's fixed part"),
    "parameters": mark("parameters in force"),
    "dropped": mark("parameters that the endpoint refused"),
    "samples": mark("ratings requested per response"),
    "expected": mark("whether expected ratings were computed from token probabilities"),
    "screen": mark("whether the judge was asked if a text is addressed to it"),
    "composites": mark("whether composites were computed per sample and averaged (runs), or from mean ratings (means)"),
    "path": mark("language that was judged: the source language, English, or both"),
    "translator": mark("translator for the English path"),
    "encoder": mark("encoder for the similarity to the context"),
    "baseline": mark("similarity that counts as average, and where it comes from"),
    "weight": mark("weight of the similarity in blended values"),
    "blended": mark("aspects that are blended"),
}
"""What each piece of a signature says."""

ON_ENGLISH = mark("the same on the English path")


@dataclass(frozen=True)
class LevelCount:
    """A level of a scale with its label (None where the rubric has it no more), how many ratings have it, and the
    address of those items; None where items are not found by their rating, but by the mean of several samples."""

    value: int
    label: Mapping[str, str] | None
    count: int
    items: str | None


class AspectCard(NamedTuple):
    """One aspect of the run; `aspect` is None if the rubric no longer has it. `worst` leads to the worst items."""

    id: str
    aspect: Aspect | None
    summary: AspectSummary
    low: int
    high: int
    levels: Sequence[LevelCount]
    worst: str
    unrated: str

    @property
    def name(self) -> Mapping[str, str]:
        return {"en": self.id} if self.aspect is None else cast(Mapping[str, str], self.aspect.name)


def make_cards(rubric: Rubric, summary: Summary, *, samples: int) -> list[AspectCard]:
    """The aspects, those of the rubric first; each rating is of so many `samples`."""
    known = {aspect.id: aspect for aspect in rubric.aspects}
    items, cards = partial(query, "/explore", run=summary.batch), []
    for name, found in summary.aspects.items():
        aspect = known.get(name)
        counts = {int(level): count for level, count in found.histogram.items()}
        labels = {level.value: cast(Mapping[str, str], level.label) for level in aspect.levels} if aspect else {}
        levels = []
        # The lowest level stands at the bottom of its histogram.
        for value in sorted(counts, reverse=True):
            address = items(sort="item", value=f"{name}:{value}") if samples == 1 else None
            levels.append(LevelCount(value, labels.get(value), round(counts[value]), address))
        low, high = aspect.scale if aspect else (min(counts, default=0), max(counts, default=1))
        links = {"worst": items(measure=name), "unrated": items(unrated=name)}
        cards.append(AspectCard(name, aspect, found, low, high, levels, **links))
    return cards


def trended(card: AspectCard) -> TrendAspect:
    """The aspect as its trend is drawn."""
    return TrendAspect(
        card.id, card.name, (float(card.low), float(card.high)), card.aspect.best if card.aspect else None
    )


def find_lowest(cards: Sequence[AspectCard]) -> AspectCard | None:
    """The aspect that fares worst on its scale."""
    rated = [card for card in cards if card.summary.mean is not None and card.high > card.low]
    return min(rated, key=shortfall, default=None)


def shortfall(card: AspectCard) -> float:
    """Minus how far ratings are from the best level on average, as a share of how far they could be. Of a best level
    inside the scale each rating counts: the mean of too much and too little would be the best."""
    best = card.aspect.best if card.aspect else None
    if best is None:
        return -(card.high - (card.summary.mean or 0.0)) / (card.high - card.low)
    farthest = max(best - card.low, card.high - best)
    off = sum(level.count * abs(level.value - best) for level in card.levels)
    return -off / farthest / max(1, sum(level.count for level in card.levels))


def explain_signature(signature: str) -> list[tuple[str, str, str | None]]:
    """The signature's pieces: name, value and meaning, which is a message's id."""
    return [(name, value, meaning_of(name)) for name, value in read_signature(signature).items()]


def meaning_of(name: str) -> str | None:
    """What a piece of a signature says, as a message's id; None for one that is not known."""
    return ON_ENGLISH if name.startswith("english.") else PIECES.get(name)


def make_bill(batch: Batch) -> dict[str, float | None]:
    """What the run cost so far; None where it is not known or there is nothing to divide by."""
    usage, finished = batch.usage, batch.counts.total - batch.counts.queued
    return {
        "cached_share": usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else None,
        "cost_per_thousand": usage.cost_usd / finished * 1000 if finished and usage.cost_usd is not None else None,
    }


def titles_of(kind: type[SaitenError]) -> dict[str, Message]:
    """The titles of an error and of all below it, by code."""
    found = {kind.code: title_of(kind.code)}
    for below in kind.__subclasses__():
        found |= titles_of(below)
    return found


MOST_PATTERNS = 20_000
SHADES = 5
COEFFICIENTS = ("spearman", "pearson")

ALONE = mark("The rubric has only one aspect, so there is nothing to correlate it with.")
TOO_MANY = mark(
    "The ratings have too many different values to be correlated on this page. Download the results instead."
)
NO_RESULTS_YET = mark("There are no results yet.")


class CorrelationCell(NamedTuple):
    """Two aspects' correlation. Without one, `reason` says why. `shade` is a class, empty near zero."""

    value: float | None
    reason: Message | str
    shade: str


class Aspects(NamedTuple):
    """The matrix, or that it is being computed, or why there is none: a message's id."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[CorrelationCell, ...], ...] = ()
    is_computing: bool = False
    why_not: str | None = None

    @property
    def reasons(self) -> tuple[Message | str, ...]:
        """Why pairs have no correlation, each reason once."""
        return tuple(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


async def correlate_aspects(
    container: Container,
    project: str,
    batch: Batch,
    names: Sequence[str],
    coefficient: str,
    *,
    wait_seconds: float | None,
) -> Aspects:
    """The matrix over the results that there are now."""
    names = tuple(names)[:MOST_MEASURES]
    finished = batch.counts.total - batch.counts.queued
    if len(names) < 2:
        return Aspects(why_not=ALONE)
    if not finished:
        return Aspects(why_not=NO_RESULTS_YET)

    async def work() -> Correlations | None:
        patterns = await container.dashboard.browser.count_patterns(project, batch.id, names, most=MOST_PATTERNS)
        return None if patterns is None else await asyncio.to_thread(correlate_results, names, patterns)

    # A run that goes on has other results each time: then as many are the same ones.
    found = await container.dashboard.computations.get(
        project, ("patterns", batch.id, finished, names), work, wait_seconds=wait_seconds
    )
    if isinstance(found, PendingComputation):
        return Aspects(is_computing=True)
    if found is None:
        return Aspects(why_not=TOO_MANY)
    return Aspects(names, tuple(tuple(make_cell(found, coefficient, a, b) for b in names) for a in names))


def make_cell(found: Correlations, coefficient: str, row: str, column: str) -> CorrelationCell:
    """One cell. A pair's reason stands under the aspect that comes first."""
    matrix = found.pearson if coefficient == "pearson" else found.spearman
    value, why = matrix[row][column], found.undefined
    reason = why.get(row, {}).get(column) or why.get(column, {}).get(row, "")
    # The farther from zero, the stronger.
    step = 0 if value is None or row == column else min(SHADES, int(abs(value) * SHADES + 0.5))
    shade = f"cell-{'p' if (value or 0) > 0 else 'n'}{step}" if step else ""
    return CorrelationCell(value, reason, shade)


def correlate_results(
    names: Sequence[str], patterns: Sequence[tuple[tuple[float | None, ...], int, float | None]]
) -> Correlations:
    """Correlations between aspects, from patterns of ratings with their counts. It loads numpy and scipy,
    which takes a second, so run it in a thread."""
    from saiten_server.stats.correlation import correlate_patterns

    return correlate_patterns(names, patterns)
