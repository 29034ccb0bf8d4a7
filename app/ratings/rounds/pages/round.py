"""`/rate/{round}`: one rating round, for those who run it and for those who rate in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response

from saiten.core.messages import Message
from saiten_server.analyses.requests import CorrectedRequest
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.reports import AgreementReport, CorrectedAspect, CorrectedReport
from saiten_server.core.validation import InvalidDocument
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import query, speech_of
from saiten_server.platform.web.page import PageRoute, WritableProject, is_secure, read_form, redirect, render
from saiten_server.ratings.requests import ITEM_CHOICES, NAME_NEEDED, WHOLE_NUMBER, RatingFault, parse_integer
from saiten_server.ratings.rounds.pages.invited import RoundVisitor
from saiten_server.ratings.rounds.pairs import PairAgreement
from saiten_server.ratings.rounds.service import measure_round, read_rater
from saiten_server.ratings.values import (
    EarlierRating,
    Invitation,
    PairOptions,
    RatedTask,
    RatingRound,
    RoundOptions,
    StoredRating,
)
from saiten_server.runs.names import name_measures
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RATER_COOKIE = "saiten_rater"
COOKIE_SECONDS = 90 * 86_400

DEFAULT_DAYS = 14
MOST_INVITED_DAYS = 365
"""For which an invitation holds."""

MOST_RATINGS = 10_000
"""Ratings of a rater in one download: the API's limit."""

MOST_NOTES = 100
"""Of the ratings that are marked, corrected or have a comment those that the page shows."""


@dataclass(frozen=True)
class InvitationForm:
    """The fields of an invitation as they were sent, and their faults."""

    rater: str
    days: str
    faults: dict[str, RatingFault] = field(default_factory=dict)


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
    days = parse_integer(asked.days)
    if not isinstance(days, int) or not 1 <= days <= MOST_INVITED_DAYS:
        asked.faults["days"] = RatingFault(WHOLE_NUMBER, {"low": 1, "high": MOST_INVITED_DAYS})
    try:
        rater = read_rater(asked.rater, limits)
    except InvalidDocument:
        asked.faults["rater"] = RatingFault(NAME_NEEDED, {"most": limits.item_id_characters})
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
        raise NotFound(Message("invitation-not-found"))
    return redirect(f"/rate/{round_id}#invite")


@router.post("/rate/{round_id}/join")
async def join_round(request: Request, container: Serving, project: WritableProject, round_id: str) -> Response:
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
        raise NotFound(Message("round-not-found"))  # erased with its run a moment ago
    batch = await container.batches.look(project, found.batch)
    rubric = find_rubric(container, batch.rubric_name) if batch else None
    runs = found.options.runs if isinstance(found.options, PairOptions) else ()
    return render(
        request,
        "round.html",
        422 if rater is not None or asked is not None else 200,
        round=found,
        chosen=ITEM_CHOICES[found.options.choose] if isinstance(found.options, RoundOptions) else "",
        margin=request.query_params.get("margin", "").strip()[:32],
        plan=None
        if runs
        else await plan_ratings(container, project, found.batch, request.query_params.get("margin", "")),
        runs=[(name, await container.batches.look(project, name)) for name in runs],
        progress=progress,
        shared=await container.ratings.rounds.shared(project, found),
        batch=batch,
        rubric=rubric,
        names=name_measures(rubric, speech_of(request), marked=True) if rubric else {},
        ratings=await look_at_agreement(container, project, found) if any(progress.raters.values()) else NOTHING_RATED,
        compared=await look_at_pairs(container, project, found) if runs else None,
        rater=known if rater is None else rater,
        failed=rater is not None,
        invitations=await container.ratings.invitations.list(project, round_id),
        asked=asked or InvitationForm("", str(DEFAULT_DAYS)),
        made=made,
        most_days=MOST_INVITED_DAYS,
        now=datetime.now(UTC),
        most_ratings=MOST_RATINGS,
        most_characters=request.app.state.limits.item_id_characters,
        may_write=may_write(request),
    )


async def plan_ratings(
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


class RatingNote(NamedTuple):
    """A rating that its rater marked, commented or corrected. `changes` has by aspect the values, oldest first, and
    under "" the marked turns."""

    position: int
    item: str
    rating: StoredRating
    changes: Mapping[str, Sequence[object]]


class RoundRatings(NamedTuple):
    """What the ratings of a round say: `agreement` is None without any, `notes` are the newest."""

    agreement: AgreementReport | None
    notes: Sequence[RatingNote]


NOTHING_RATED = RoundRatings(None, ())


async def look_at_agreement(container: Container, project: str, found: RatingRound) -> RoundRatings | None:
    """What the round's ratings say; None while it is computed."""
    if found.of_pairs:
        return NOTHING_RATED
    rounds = container.ratings.rounds
    mark = await container.ratings.service.mark_ratings(project)

    async def compute() -> RoundRatings:
        rated = await rounds.rated(project, found.id)
        items = {one.position: one.item for one in await rounds.items(project, found.id)}
        return await container.comparison.compute(lambda: summarise(rated, items))

    key = ("round", found.id, mark)
    summary = await container.dashboard.computations.get(project, key, compute)
    return None if isinstance(summary, PendingComputation) else summary


async def look_at_pairs(container: Container, project: str, found: RatingRound) -> PairAgreement | None:
    """What the round's preferences say; None while it is computed."""
    pairs, mark = container.ratings.pairs, await container.ratings.pairs.preferences.mark(project)
    excluded = tuple(one.rater for one in await container.ratings.service.exclusions(project))

    async def compute() -> PairAgreement:
        return await pairs.agreement(project, found.id)

    report = await container.dashboard.computations.get(
        project, ("pairs", found.id, found.drawn, mark, excluded), compute
    )
    return None if isinstance(report, PendingComputation) else report


def summarise(rated: Sequence[RatedTask], items: Mapping[int, str]) -> RoundRatings:
    """The agreement and the notes of a round's ratings; `items` are names by position. Not for an event loop."""
    notes = [
        RatingNote(one.position, items.get(one.position, ""), one.rating, dict(find_changes(one.rating)))
        for one in rated
        if one.rating.starred or one.rating.comment or one.rating.earlier
    ]
    return RoundRatings(measure_round(rated) if rated else None, notes[: -MOST_NOTES - 1 : -1])


def find_changes(rating: StoredRating) -> Iterator[tuple[str, Sequence[object]]]:
    """What the rater corrected: by aspect the values one after another, and under "" the marked turns."""
    if not rating.earlier:
        return
    versions: list[EarlierRating | StoredRating] = [*rating.earlier, rating]
    for name in rating.ratings:
        values = [one.ratings.get(name) for one in versions]
        if len({*values}) > 1:
            yield name, [value for place, value in enumerate(values) if not place or value != values[place - 1]]
    turns = [", ".join(map(str, one.faulty_turns or ())) for one in versions]
    if len({*turns}) > 1:
        yield "", [text for place, text in enumerate(turns) if not place or text != turns[place - 1]]
