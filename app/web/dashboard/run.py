"""`/runs/{id}`: one run in figures, and what can be done with it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from app.bootstrap import Service
from app.domain.batch import Batch
from app.domain.rubric import Rubric
from app.web.audit import note
from app.web.dashboard.forms import read_form
from app.web.dashboard.page import PageRoute, redirect, render
from app.web.dashboard.painting import is_missing
from app.web.dashboard.run_charts import draw_histograms, find_trend
from app.web.dashboard.run_patterns import COEFFICIENTS, correlate
from app.web.dashboard.run_values import (
    build_of,
    find_predecessors,
    find_rubric,
    judges_of,
    signatures_of,
    system_of,
)
from app.web.dashboard.run_view import (
    ENDED,
    advise,
    find_lowest,
    make_bill,
    make_cards,
    make_composites,
    make_failures,
    make_signatures,
    pick_warnings,
)
from app.web.dashboard.session import Project, WritableProject
from app.web.dashboard.speech import speech_of
from app.web.evaluations import Serving

router = APIRouter(prefix="/runs", include_in_schema=False, route_class=PageRoute)


@router.get("/{run_id}")
async def show_run(request: Request, service: Serving, project: Project, run_id: str) -> Response:
    """The run as it is now."""
    batch = await service.desk.find(project, run_id)
    rubric = find_rubric(service, batch.rubric_name)
    figures = await gather_figures(request, service, project, batch, rubric) if rubric else None
    befores = await find_predecessors(service.desk, project, [batch])
    return render(
        request,
        "run.html",
        batch=batch,
        rubric=rubric,
        system=system_of(batch),
        build=build_of(batch),
        judges=judges_of(service, batch),
        before=befores.get(batch.id),
        is_open=batch.status not in ENDED,
        advice=advise(batch),
        bill=make_bill(batch),
        signatures=make_signatures(batch, signatures_of(batch)),
        figures=figures,
        metadata={name: value for name, value in batch.metadata.items() if name not in {"system", "build"}},
    )


async def gather_figures(
    request: Request, service: Service, project: str, batch: Batch, rubric: Rubric
) -> dict[str, Any]:
    """Everything that rests on the run's results."""
    speech = speech_of(request)
    summary = await service.desk.summarize(project, batch.id)
    summary = await service.reliabilities.mark_summary(project, summary)
    cards = make_cards(rubric, summary, samples=batch.judge.samples)
    asked = request.query_params.get("correlation")
    coefficient = asked if asked in COEFFICIENTS else COEFFICIENTS[0]
    correlations, drawings, trend = await asyncio.gather(
        correlate(service, project, batch, [aspect.id for aspect in rubric.aspects], coefficient),
        draw_histograms(service, speech, cards),
        find_trend(service, project, speech, batch, cards),
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
async def pause_run(request: Request, service: Serving, project: WritableProject, run_id: str) -> Response:
    """Begins nothing new."""
    await read_form(request)
    return redirect(address_of(await service.desk.pause(project, run_id)))


@router.post("/{run_id}/resume")
async def resume_run(request: Request, service: Serving, project: WritableProject, run_id: str) -> Response:
    """Goes on with a paused run."""
    await read_form(request)
    return redirect(address_of(await service.desk.resume(project, run_id)))


@router.post("/{run_id}/cancel")
async def cancel_run(request: Request, service: Serving, project: WritableProject, run_id: str) -> Response:
    """Ends the run; what is rated stays."""
    await read_form(request)
    return redirect(address_of(await service.desk.cancel(project, run_id)))


@router.get("/{run_id}/delete")
async def ask_before_erasure(request: Request, service: Serving, project: WritableProject, run_id: str) -> Response:
    """Says what would be lost."""
    return render(request, "run_delete.html", batch=await service.desk.find(project, run_id))


@router.post("/{run_id}/delete")
async def erase_run(request: Request, service: Serving, project: WritableProject, run_id: str) -> Response:
    """Removes the run with everything that belongs to it."""
    await read_form(request)
    await service.desk.erase(project, run_id)
    await note(request, service, "batch.erased", run_id)
    return redirect("/")


def address_of(batch: Batch) -> str:
    """The run's page."""
    return f"/runs/{batch.id}"
