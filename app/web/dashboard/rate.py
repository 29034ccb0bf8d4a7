"""`/rate` and `/rate/{round}`: starting, viewing, joining and closing rating rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response

from app.container import Container
from app.domain.analysis_request import CorrectedRequest
from app.domain.batch import Batch, BatchFilter
from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest, NotFound, SaitenError, UnknownRubric
from app.domain.human_rating import MOST_ITEMS, Invitation, RoundOptions
from app.domain.reports import CorrectedAspect, CorrectedReport
from app.domain.validation import InvalidDocument, validate
from app.ratings.rounds import read_rater
from app.web.dashboard.invited import RoundVisitor
from app.web.dashboard.language import mark, query
from app.web.dashboard.page import PageRoute, Project, WritableProject, is_secure, read_form, redirect, render
from app.web.dashboard.run_values import build_of, find_rubric, system_of
from app.web.dependencies import Serving, may_write

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RATER_COOKIE = "saiten_rater"
COOKIE_SECONDS = 90 * 86_400
RECENT = 50
"""Completed runs that the form offers; others can be given in the address."""

LONGEST = 20_000
"""Characters of a parameter: the places of as many responses as a round takes."""

SHOWN = 100
"""Rounds in the list."""

DEFAULT_DAYS = 14
MOST_DAYS = 365
"""For which an invitation holds."""

MOST_RATINGS = 10_000
"""Ratings of a rater in one download: the API's limit."""


@router.get("/rate")
async def show_rounds(request: Request, container: Serving, project: Project) -> Response:
    """All rounds, and the form for another."""
    asked = {name: request.query_params.get(name, "").strip()[:LONGEST] for name in ("run", "positions")}
    given = {**dict.fromkeys(RoundOptions.model_fields, ""), **asked}
    return await show_list(request, container, project, given, {})


@router.post("/rate")
async def start_round(request: Request, container: Serving, project: WritableProject) -> Response:
    """Starts a round and redirects to it."""
    form, faults = await read_form(request), dict[str, RatingFault]()
    given = {name: form.get(name) for name in ("run", *RoundOptions.model_fields)}
    options = read_options(given, request.app.state.limits, faults)
    if not given["run"]:
        faults["run"] = RatingFault(mark("Choose a run."), {})
    if options is not None and not faults:
        try:
            opened = await container.ratings.rounds.open(project, given["run"], options)
        except (NotFound, InvalidRequest) as error:
            if error.pointer == "/positions":
                faults["positions"] = describe_fault("positions", request.app.state.limits)
                return await show_list(request, container, project, given, faults)
            faults["run"] = RatingFault(next(message for kind, message in REFUSALS if isinstance(error, kind)), {})
        else:
            return redirect(f"/rate/{opened.id}")
    return await show_list(request, container, project, given, faults)


async def show_list(
    request: Request, container: Container, project: str, given: Mapping[str, str], faults: Mapping[str, RatingFault]
) -> Response:
    """The page of all rounds; `given` are the form's fields as they were sent."""
    rounds = await container.ratings.rounds.list(project, limit=SHOWN)
    progress = await container.ratings.rounds.progress(project, [one.id for one in rounds])
    recent = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=RECENT)
    known = {batch.id: batch for batch in recent}
    chosen = await look(container, project, given["run"], known) if given["run"] else None
    offered = [chosen, *recent] if chosen is not None and chosen.id not in {each.id for each in recent} else recent
    return render(
        request,
        "rate.html",
        422 if faults else 200,
        # A run is None if it was erased a moment ago.
        rows=[
            (one, await look(container, project, one.batch, known), progress[one.id])
            for one in rounds
            if one.id in progress
        ],
        most=SHOWN,
        runs=offered,
        system_of=system_of,
        build_of=build_of,
        given={name: given[name] or default for name, default in DEFAULTS.items()} if not faults else given,
        is_asked=bool(given["run"] or faults),
        faults=faults,
        bounds=BOUNDS,
        choices=[(name, label) for name, label in CHOICES.items() if name != "chosen"],
        name_characters=request.app.state.limits.name_characters,
        may_write=may_write(request),
    )


async def look(container: Container, project: str, batch_id: str, known: dict[str, Batch]) -> Batch | None:
    """The run, looked up once."""
    if batch_id not in known and (found := await container.batches.look(project, batch_id)) is not None:
        known[batch_id] = found
    return known.get(batch_id)


@router.get("/rate/{round_id}")
async def show_round(request: Request, container: Serving, visitor: RoundVisitor, round_id: str) -> Response:
    """The progress of the round and its raters, and the form to join it. An invited rater sees none of that."""
    if visitor.invitation is not None:
        return await show_to_rater(request, container, visitor.invitation)
    return await show_one(request, container, visitor.project, round_id)


async def show_to_rater(request: Request, container: Container, invitation: Invitation) -> Response:
    """What an invited rater sees of the round: its name, and how many responses this rater has rated."""
    found = await container.ratings.rounds.find(invitation.project, invitation.round)
    progress = await container.ratings.rounds.progress(invitation.project, [found.id])
    count = progress[found.id].raters.get(invitation.rater, 0) if found.id in progress else 0
    return render(request, "rater.html", round=found, invitation=invitation, count=count)


@router.post("/rate/{round_id}/invitations")
async def invite(request: Request, container: Serving, project: WritableProject, round_id: str) -> Response:
    """Makes a link for a rater. The page that answers shows it once: it is not stored."""
    form, now, limits = await read_form(request), datetime.now(UTC), request.app.state.limits
    asked = InvitationForm(form.get("rater"), form.get("days"))
    days = read_whole(asked.days)
    if not isinstance(days, int) or not 1 <= days <= MOST_DAYS:
        asked.faults["days"] = RatingFault(WHOLE_NUMBER, {"low": 1, "high": MOST_DAYS})
    try:
        rater = read_rater(asked.rater, limits)
    except InvalidDocument:
        asked.faults["rater"] = RatingFault(NAME, {"most": limits.item_id_characters})
    if asked.faults:
        return await show_one(request, container, project, round_id, asked=asked)
    until, actor = now + timedelta(days=int(days)), request.state.actor
    store = container.ratings.invitations
    made, secret = await store.create(project, round_id, rater, until=until, now=now, actor=actor)
    scheme = "https" if is_secure(request) else "http"
    link = f"{scheme}://{request.headers.get('host', '')}/invited#{secret}"
    return await show_one(request, container, project, round_id, made=(made, link))


@router.post("/rate/{round_id}/invitations/{invitation_id}/revoke")
async def revoke_invitation(
    request: Request, container: Serving, project: WritableProject, round_id: str, invitation_id: str
) -> Response:
    """Ends an invitation; the rater's ratings are kept."""
    await read_form(request)
    store = container.ratings.invitations
    if not await store.revoke(
        project, round_id, invitation_id, now=datetime.now(UTC), actor=request.state.actor
    ) and invitation_id not in {one.id for one in await store.list(project, round_id)}:
        raise NotFound("there is no such invitation in this round")
    return redirect(f"/rate/{round_id}#invite")


@router.post("/rate/{round_id}/join")
async def join(request: Request, container: Serving, project: WritableProject, round_id: str) -> Response:
    """Stores the rater's name in a cookie, and redirects to the rater's next response."""
    found, name = await container.ratings.rounds.find(project, round_id), (await read_form(request)).get("rater")
    try:
        rater = read_rater(name, request.app.state.limits)
    except InvalidDocument:
        return await show_one(request, container, project, round_id, rater=name)
    response = redirect(query(f"/rate/{found.id}/sheet", rater=rater))
    response.set_cookie(
        RATER_COOKIE,
        quote(rater, safe=""),
        max_age=COOKIE_SECONDS,
        path=f"/rate/{found.id}",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )
    return response


@router.post("/rate/{round_id}/close")
async def close_round(request: Request, container: Serving, project: WritableProject, round_id: str) -> Response:
    """Closes the round."""
    await read_form(request)
    await container.ratings.rounds.close(project, round_id)
    return redirect(f"/rate/{round_id}")


async def show_one(
    request: Request,
    container: Container,
    project: str,
    round_id: str,
    *,
    rater: str | None = None,
    asked: InvitationForm | None = None,
    made: tuple[Invitation, str] | None = None,
) -> Response:
    """The round's page. `rater` is a name that cannot be taken, `asked` an invitation that was not made, `made` one
    that was, with its link."""
    # The name under which this browser has rated in this round.
    known = unquote(request.cookies.get(RATER_COOKIE, ""), errors="replace")
    found = await container.ratings.rounds.find(project, round_id)
    progress = (await container.ratings.rounds.progress(project, [round_id])).get(round_id)
    if progress is None:
        raise NotFound("there is no such rating round in this project")  # erased with its run a moment ago
    batch = await container.batches.look(project, found.batch)
    return render(
        request,
        "round.html",
        422 if rater is not None or asked is not None else 200,
        round=found,
        chosen=CHOICES[found.options.choose],
        margin=request.query_params.get("margin", "").strip()[:32],
        plan=await plan(container, project, found.batch, request.query_params.get("margin", "")),
        progress=progress,
        batch=batch,
        rubric=find_rubric(container, batch.rubric_name) if batch else None,
        rater=known if rater is None else rater,
        failed=rater is not None,
        invitations=await container.ratings.invitations.list(project, round_id),
        asked=asked or InvitationForm("", str(DEFAULT_DAYS)),
        made=made,
        most_days=MOST_DAYS,
        now=datetime.now(UTC),
        most_ratings=MOST_RATINGS,
        most_characters=request.app.state.limits.item_id_characters,
        may_write=may_write(request),
    )


async def plan(
    container: Container, project: str, batch_id: str, margin: str
) -> list[tuple[str, CorrectedAspect]] | str | None:
    """The corrected figures of the run by aspect, with how many more ratings bring each to ± `margin`; why there are
    none; None unless that is a number above 0."""
    try:
        asked = CorrectedRequest(batch=batch_id, margin=float(margin))
    except ValueError:
        return None
    try:
        report = await container.comparison.analyse(project, asked)
    except InvalidRequest as error:
        return error.detail
    found = report.systems.values() if isinstance(report, CorrectedReport) else ()
    return [(name, each) for system in found for name, each in system.aspects.items() if not name.endswith(".blended")]


CHOICES: Mapping[str, str] = {
    "random": mark("At random"),
    "informative": mark("More of those in which the judge is unsteady"),
    "stratified": mark("Some of every level of the judge's ratings"),
    "chosen": mark("Chosen one by one. Their ratings say nothing of the others, so they are left out of figures."),
}

WHOLE_NUMBER = mark("Enter a whole number from %(low)s to %(high)s.")
NAME = mark("Enter a name on one line, with at most %(most)s characters.")

BOUNDS = {
    "items": (1, MOST_ITEMS),
    "raters_per_item": (1, 100),
    "items_per_rater": (1, MOST_ITEMS),
    "seed": (0, 2**32 - 1),
}
"""The domain's bounds, shown beside the fields."""

DEFAULTS = {"run": ""} | {
    name: str(info.default) if isinstance(info.default, int) else "" for name, info in RoundOptions.model_fields.items()
}
"""The form's initial values."""

REFUSALS: Sequence[tuple[type[SaitenError], str]] = (
    (NotFound, mark("There is no such run in this project.")),
    (UnknownRubric, mark("This run's rubric is no longer installed, so its responses cannot be rated.")),
    (InvalidRequest, mark("No response in this run has been scored, so there is nothing to rate.")),
)
"""Why a run cannot have a round; the first match counts."""


class RatingFault(NamedTuple):
    """The fault of a field: a message and its values."""

    message: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class InvitationForm:
    """The fields of an invitation as they were sent, and their faults."""

    rater: str
    days: str
    faults: dict[str, RatingFault] = field(default_factory=dict)


def read_options(given: Mapping[str, str], limits: Limits, faults: dict[str, RatingFault]) -> RoundOptions | None:
    """The round's options, or None if a field is not valid; its fault is added to `faults`."""
    document: dict[str, Any] = {name: read_whole(given[name]) for name in BOUNDS if given[name]}
    if given["choose"]:
        document["choose"] = given["choose"]
    if given["positions"]:
        document |= {"choose": "chosen", "positions": [read_whole(one) for one in given["positions"].split(",")]}
    try:
        return validate(RoundOptions, {"name": given["name"], **document}, limits)
    except InvalidDocument as error:
        names = [where.split("/")[1] for where, _ in error.faults]
        faults.update({name: describe_fault(name, limits) for name in names})
        return None


def describe_fault(name: str, limits: Limits) -> RatingFault:
    """What the field takes."""
    if name in BOUNDS:
        low, high = BOUNDS[name]
        return RatingFault(WHOLE_NUMBER, {"low": low, "high": high})
    if name == "positions":
        return RatingFault(mark("Choose responses of this run that the judge has rated."), {})
    if name == "choose":
        return RatingFault(mark("Choose one of these."), {})
    most = limits.name_characters
    return RatingFault(NAME, {"most": most})


def read_whole(text: str) -> int | str:
    """The number, or the text if it is not one."""
    try:
        return int(text)
    except ValueError:
        return text
