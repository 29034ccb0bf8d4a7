"""A pair to compare blind, and the page of thanks when none is left: what `/rate/{round}/sheet` is in a round of
preferences.

These pages, their addresses and their source reveal neither runs, systems, item and number of the pair, nor
preferences of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response

from saiten.core.messages import Message
from saiten_server.core.dialogue import responder_of
from saiten_server.core.errors import NotFound
from saiten_server.core.validation import InvalidDocument
from saiten_server.platform.web.page import Form, redirect, render
from saiten_server.ratings.values import OwnPreference, PairSheet

if TYPE_CHECKING:
    from saiten_server.container import Container
    from saiten_server.core.evaluation import Choice as Preference
    from saiten_server.ratings.rounds.pages.sheet import SheetPosition

REASON_CHARACTERS = 2000
LAST_SHOWN = 8
"""Pairs that the page of thanks shows; for others it has links."""

BUTTONS: dict[str, Preference] = {"1": "first", "2": "second", "0": "tie"}
"""What the buttons of a sheet send, by the key that presses them: the one that was shown first, second, or neither."""


async def show_next_pair(request: Request, container: Container, place: SheetPosition) -> Response:
    """The rater's next pair, or one that the rater was given before."""
    if "number" in request.query_params:
        sheet = await find_pair(container, place, request.query_params["number"])
        if sheet is None:
            return redirect(place.address)
    else:
        sheet = await container.ratings.pairs.next(place.project, place.round.id, place.rater)
        if sheet is None:
            return await show_thanks(request, container, place)
    return render_pair(request, place, sheet, sheet.earlier)


async def save_pair(request: Request, container: Container, place: SheetPosition, form: Form) -> Response:
    """Stores the preference and redirects: from a pair that was compared before to the one after it, otherwise to a new
    one. Sending a sheet twice stores it once."""
    sheet = await find_pair(container, place, request.query_params.get("number", ""))
    if sheet is None:
        raise NotFound(Message("response-of-other-rater"))
    preference, reason = BUTTONS.get(form.get("preference")), form.raw("reason")
    if preference is None:
        return render_pair(request, place, sheet, OwnPreference("tie", reason), missing=True)
    try:
        await container.ratings.pairs.prefer(
            place.project,
            place.round.id,
            place.rater,
            number=sheet.task.number,
            preference=preference,
            reason=reason,
        )
    except InvalidDocument:
        return render_pair(request, place, sheet, OwnPreference(preference, reason), failed=True)
    return redirect(place.address_of(sheet.task.number + 1) if sheet.task.done else place.address)


async def find_pair(container: Container, place: SheetPosition, number: str) -> PairSheet | None:
    """The rater's pair of that number, or None."""
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        return None
    try:
        return await container.ratings.pairs.sheet(place.project, place.round.id, place.rater, int(number))
    except NotFound:
        return None


def render_pair(
    request: Request,
    place: SheetPosition,
    sheet: PairSheet,
    own: OwnPreference | None,
    *,
    missing: bool = False,
    failed: bool = False,
) -> Response:
    """The page of one pair; `own` is what the rater chose. `missing`: it was sent without a choice, `failed`: with a
    reason that is too long."""
    task, conversation = sheet.task, sheet.first.conversation
    return render(
        request,
        "pair.html",
        422 if missing or failed else 200,
        round_id=place.round.id,
        rater=place.rater,
        task={"number": task.number, "of": task.of, "done": task.done},  # raters must not see the pair's place
        action=place.address_of(task.number),
        before=place.address_of(task.number - 1) if task.number else None,
        onwards=place.address,
        context=() if conversation else sheet.first.context,
        own_speaker=None if conversation else responder_of(sheet.first.context),
        sides=(("1", sheet.first), ("2", sheet.second)),
        conversation=conversation,
        rubric=sheet.rubric,
        expected=sheet.rubric.source_language,
        chosen=None if own is None or missing else own.preference,
        buttons=BUTTONS,
        reason="" if own is None else own.reason,
        reason_characters=REASON_CHARACTERS,
        missing=missing,
        failed=failed,
    )


async def show_thanks(request: Request, container: Container, place: SheetPosition) -> Response:
    """What the rater has compared, when no pair is left; one that is open may still be compared."""
    progress = (await container.ratings.rounds.progress(place.project, [place.round.id])).get(place.round.id)
    count = 0 if progress is None else progress.raters.get(place.rater, 0)
    numbers = range(count - 1, -1, -1)  # all before the open one are compared
    last = [(number, await find_pair(container, place, str(number))) for number in numbers[:LAST_SHOWN]]
    in_hand = await find_pair(container, place, str(count)) if place.round.closed_at else None
    return render(
        request,
        "pair_thanks.html",
        round_id=place.round.id,
        rater=place.rater,
        closed=place.round.closed_at is not None,
        count=count,
        numbers=numbers[::-1],
        # One of an erased run is left out.
        last=[(number, sheet) for number, sheet in last if sheet is not None],
        in_hand=place.address_of(count) if in_hand is not None else None,
        address_of=place.address_of,
    )
