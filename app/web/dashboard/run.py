"""`/runs/{id}`: one run in figures, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from app.charts.histogram import HistogramLabels, build_histogram
from app.charts.trend import MOST_BUILDS, MOST_LINES, TrendLabels, TrendLine, TrendPoint, build_trend
from app.container import Container
from app.domain.batch import Batch, BatchFilter
from app.domain.rubric import Rubric
from app.domain.signature import read_comparable
from app.domain.summary import Summary
from app.web.dashboard.forms import read_form
from app.web.dashboard.language import Speech, speech_of
from app.web.dashboard.page import PageRoute, redirect, render
from app.web.dashboard.run_values import (
    build_of,
    find_predecessors,
    find_rubric,
    is_missing,
    judges_of,
    paint,
    signatures_of,
    system_of,
)
from app.web.dashboard.run_view import (
    COEFFICIENTS,
    ENDED,
    AspectCard,
    advise,
    correlate,
    find_lowest,
    make_bill,
    make_cards,
    make_composites,
    make_failures,
    make_signatures,
    pick_warnings,
)
from app.web.dashboard.session import Project, WritableProject
from app.web.dependencies import Serving, note

router = APIRouter(prefix="/runs", include_in_schema=False, route_class=PageRoute)


@router.get("/{run_id}")
async def show_run(request: Request, container: Serving, project: Project, run_id: str) -> Response:
    """The run as it is now."""
    batch = await container.batches.find(project, run_id)
    rubric = find_rubric(container, batch.rubric_name)
    figures = await gather_figures(request, container, project, batch, rubric) if rubric else None
    befores = await find_predecessors(container.batches, project, [batch])
    return render(
        request,
        "run.html",
        batch=batch,
        rubric=rubric,
        system=system_of(batch),
        build=build_of(batch),
        judges=judges_of(container, batch),
        before=befores.get(batch.id),
        is_open=batch.status not in ENDED,
        advice=advise(batch),
        bill=make_bill(batch),
        signatures=make_signatures(batch, signatures_of(batch)),
        figures=figures,
        metadata={name: value for name, value in batch.metadata.items() if name not in {"system", "build"}},
    )


async def gather_figures(
    request: Request, container: Container, project: str, batch: Batch, rubric: Rubric
) -> dict[str, Any]:
    """Everything that rests on the run's results."""
    speech = speech_of(request)
    summary = await container.batches.summarize(project, batch.id)
    summary = await container.ratings.reliabilities.mark_summary(project, summary)
    cards = make_cards(rubric, summary, samples=batch.judge.samples)
    asked = request.query_params.get("correlation")
    coefficient = asked if asked in COEFFICIENTS else COEFFICIENTS[0]
    correlations, drawings, trend = await asyncio.gather(
        correlate(container, project, batch, [aspect.id for aspect in rubric.aspects], coefficient),
        draw_histograms(container, speech, cards),
        find_trend(container, project, speech, batch, cards),
    )
    trended = [panel.drawing for panel in trend.panels] if trend else []
    return {
        "summary": summary,
        "reliability": summary.reliability,
        "cards": cards,
        "drawings": drawings,
        "painting": any(map(is_missing, [*drawings.values(), *trended])),
        "lowest": find_lowest(cards),
        "composites": make_composites(rubric, summary),
        "failures": make_failures(summary),
        "warnings": pick_warnings(summary),
        "coefficient": coefficient,
        "correlations": correlations,
        "trend": trend,
    }


@router.post("/{run_id}/pause")
async def pause_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Begins nothing new."""
    await read_form(request)
    return redirect(address_of(await container.batches.pause(project, run_id)))


@router.post("/{run_id}/resume")
async def resume_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Goes on with a paused run."""
    await read_form(request)
    return redirect(address_of(await container.batches.resume(project, run_id)))


@router.post("/{run_id}/cancel")
async def cancel_run(request: Request, container: Serving, project: WritableProject, run_id: str) -> Response:
    """Ends the run; what is rated stays."""
    await read_form(request)
    return redirect(address_of(await container.batches.cancel(project, run_id)))


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


def address_of(batch: Batch) -> str:
    """The run's page."""
    return f"/runs/{batch.id}"


CARD_WIDTH = 292
"""Pixels: what a card leaves on a phone."""


@dataclass(frozen=True)
class TrendRun:
    """A run among those of its name. `same` is whether its results were made as the shown run's were."""

    batch: Batch
    summary: Summary
    label: str
    system: str | None
    same: bool


@dataclass(frozen=True)
class Panel:
    """One aspect over the runs."""

    card: AspectCard
    drawing: Markup


@dataclass(frozen=True)
class Trend:
    """Runs of one name and rubric, the oldest first. `left_out` counts systems that find no line."""

    runs: tuple[TrendRun, ...]
    panels: tuple[Panel, ...]
    left_out: int

    @property
    def is_mixed(self) -> bool:
        """Whether some of the runs were judged otherwise than the one shown."""
        return not all(run.same for run in self.runs)


async def draw_histograms(container: Container, speech: Speech, cards: Sequence[AspectCard]) -> dict[str, Markup]:
    """Each aspect's drawing, by its id."""
    drawn = await asyncio.gather(*(draw_histogram(container, speech, card) for card in cards))
    return {card.id: chart for card, chart in zip(cards, drawn, strict=True)}


async def draw_histogram(container: Container, speech: Speech, card: AspectCard) -> Markup:
    """How often each level was given."""
    _ = speech.say
    name = speech.pick(card.name)
    spec = build_histogram(
        [(label_level(speech, level.value, level.label), level.count) for level in card.levels],
        card.summary.unrated,
        HistogramLabels(
            title=_("Ratings of %(aspect)s", aspect=name),
            description=_(
                "%(n)s rated, mean %(mean)s",
                n=speech.formats.count(card.summary.n),
                mean=speech.formats.number(card.summary.mean),
            ),
            unrated=_("unrated"),
            nothing=_("Nothing is rated yet."),
        ),
        width=CARD_WIDTH,
    )
    return await paint(container, speech, spec)


def label_level(speech: Speech, value: int, label: Mapping[str, str] | None) -> str:
    """`3 Natural`."""
    return f"{value} {speech.pick(label)}" if label else str(value)


async def find_trend(
    container: Container, project: str, speech: Speech, batch: Batch, cards: Sequence[AspectCard]
) -> Trend | None:
    """The run among the newest of its name and rubric; None for a run without a name, or alone of its name."""
    if batch.name is None:
        return None
    wanted = BatchFilter(name=batch.name, rubric=batch.rubric)
    batches = await container.batches.list(project, wanted, after=None, limit=MOST_BUILDS)
    if len(batches) < 2:
        return None
    summaries = await container.batches.summaries(project, batches)
    runs = [
        TrendRun(each, summaries[each.id], label_run(speech, each), system_of(each), are_alike(each, batch))
        for each in reversed(batches)
        if each.id in summaries and any(aspect.n for aspect in summaries[each.id].aspects.values())
    ]
    if len(runs) < 2:
        return None
    systems = order_systems(runs, batch)
    drawn = await asyncio.gather(
        *(draw_trend(container, speech, card, runs=runs, systems=systems, batch=batch) for card in cards)
    )
    panels = [Panel(card, chart) for card, chart in zip(cards, drawn, strict=True)]
    return Trend(tuple(runs), tuple(panels), max(0, len(systems) - MOST_LINES))


def are_alike(one: Batch, other: Batch) -> bool:
    """Whether the results of both were made in one way."""
    mine, theirs = ([read_comparable(each) for each in signatures_of(batch)] for batch in (one, other))
    return all(each in theirs for each in mine) and all(each in mine for each in theirs)


def label_run(speech: Speech, batch: Batch) -> str:
    """The run's build, else the day it was made."""
    return build_of(batch) or f"{batch.created_at:%Y-%m-%d}"


def order_systems(runs: Sequence[TrendRun], batch: Batch) -> list[str | None]:
    """The shown run's system first, then the others as they came."""
    return list(dict.fromkeys([system_of(batch), *(run.system for run in runs)]))


async def draw_trend(
    container: Container,
    speech: Speech,
    card: AspectCard,
    *,
    runs: Sequence[TrendRun],
    systems: Sequence[str | None],
    batch: Batch,
) -> Markup:
    """One aspect's means over the runs, a line a system."""
    _ = speech.say
    name = speech.pick(card.name)
    lines = [
        TrendLine(
            system or _("no system given"), [point_of(run, card.id) if run.system == system else None for run in runs]
        )
        for system in systems
    ]
    current = next((number for number, run in enumerate(runs) if run.batch.id == batch.id), None)
    spec = build_trend(
        [run.label for run in runs],
        lines,
        TrendLabels(
            title=_("%(aspect)s over the runs", aspect=name),
            description=_("Means with 95 %% intervals of %(count)s runs", count=speech.formats.count(len(runs))),
            axis=_("%(aspect)s, %(low)s to %(high)s", aspect=name, low=card.low, high=card.high),
            current=_("this run"),
            nothing=_("Nothing is rated yet."),
        ),
        scale=(float(card.low), float(card.high)),
        current=current,
        width=CARD_WIDTH,
    )
    return await paint(container, speech, spec)


def point_of(run: TrendRun, aspect: str) -> TrendPoint | None:
    """The run's mean of the aspect."""
    found = run.summary.aspects.get(aspect)
    return None if found is None or found.mean is None else TrendPoint(found.mean, found.interval)
