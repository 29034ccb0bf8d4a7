"""`/try`: one response typed in by hand, scored at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from app.bootstrap import Service
from app.domain.errors import (
    InvalidRequest,
    LanguageNotSupported,
    LimitReached,
    RubricNotSupported,
    SaitenError,
    StoreError,
    UpstreamError,
)
from app.domain.evaluation import EvaluationRequest
from app.domain.validation import validate
from app.governance.integrity import settle_for
from app.pipeline import evaluate
from app.providers.registry import is_baseline
from app.web.dashboard.attempt_form import EXAMPLES, PATHS, Draft, Fault, read_draft, start_draft
from app.web.dashboard.forms import read_form
from app.web.dashboard.page import PageRoute, redirect, render
from app.web.dashboard.session import Project, WritableProject
from app.web.evaluations import Serving
from app.web.limits import count_request, evaluating, require_price
from app.web.problems import clip, faults_of, headers_of, status_of

logger = logging.getLogger("saiten.web")

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/try")
async def show_form(
    request: Request, service: Serving, project: Project, rubric: str = "", example: str = ""
) -> Response:
    """The form, empty or with an example."""
    return show(request, service, start_draft(service.instruments.rubrics.list(), rubric, example))


@router.post("/try")
async def try_response(request: Request, service: Serving, project: WritableProject) -> Response:
    """Scores what the form holds and leads to the result; shows the form again where that cannot be done."""
    form = await read_form(request)
    draft = read_draft(form, service.settings.limits.context_utterances)
    if form.get("action") == "add":
        return show(request, service, draft.widen(), added=True)
    try:
        await count_request(request, request.state.key)
        asked = validate(EvaluationRequest, draft.request(), service.settings.limits)
        async with evaluating(request) as scope:
            require_price(request, asked.rubric, asked.judge)
            asked = await settle_for(project, asked, service.policies)
            record = await evaluate(asked, service.instruments, scope)
        await service.store.save(project, record, tuple(scope.keys))
    except (InvalidRequest, LimitReached, UpstreamError, StoreError) as error:
        # Where a limit is reached, too, what was typed in must not be lost.
        return show_error(request, service, draft, error)
    return redirect(f"/evaluations/{record.evaluation.id}")


def show(
    request: Request,
    service: Service,
    draft: Draft,
    status: int = HTTPStatus.OK,
    *,
    faults: Sequence[Fault] = (),
    trouble: str = "",
    added: bool = False,
) -> Response:
    """The form."""
    rubrics, judge = service.instruments.rubrics.list(), service.instruments.judge
    languages = {rubric.source_language for rubric in rubrics}
    return render(
        request,
        "try.html",
        status,
        draft=draft,
        rubrics=rubrics,
        chosen=next((rubric for rubric in rubrics if rubric.id == draft.rubric), None),
        examples=[language for language in EXAMPLES if language in languages],
        paths=PATHS if service.instruments.translator is not None else (),
        limits=service.settings.limits,
        judge=judge,
        costs=not is_baseline(judge.kind),
        faults=faults,
        faulty={fault.target: number for number, fault in reversed(list(enumerate(faults))) if fault.target},
        trouble=trouble,
        added=added,
        is_allowed=request.state.scope != "read",
    )


def show_error(request: Request, service: Service, draft: Draft, error: SaitenError) -> Response:
    """The form with what is wrong at its fields; what others did wrong stands above it."""
    status = status_of(type(error))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code, "status": status})
    found = faults_of(error)
    if not found and isinstance(error, RubricNotSupported | LanguageNotSupported):
        found = [("/rubric", error.detail)]
    faults = [draft.fault(where, clip(what, 400)) for where, what in found[:20]]
    trouble = "" if faults else clip(error.detail, 400)
    page = show(request, service, draft, status, faults=faults, trouble=trouble)
    page.headers.update(headers_of(error, status))
    return page
