"""`/rate/{round}/sheet`: one response to rate blind, and the page of thanks when none is left.

These pages, their addresses and their source reveal neither run, system, build, item and position of the response, nor
ratings of others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request, Response

from saiten.core.messages import Message
from saiten_server.core.conversation import Conversation
from saiten_server.core.dialogue import responder_of
from saiten_server.core.errors import NotFound
from saiten_server.core.model import pointer
from saiten_server.core.rubric import Aspect, Example, Level
from saiten_server.core.validation import InvalidDocument
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import query
from saiten_server.platform.web.page import Form, PageRoute, read_form, redirect, render
from saiten_server.ratings.rounds.pages.invited import RatingVisitor, RoundVisitor, require_rater
from saiten_server.ratings.rounds.pages.pair import save_pair, show_next_pair
from saiten_server.ratings.rounds.service import read_rater
from saiten_server.ratings.values import OwnRating, RatingRound, RatingSheet

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

KEY_DIGITS = range(10)

COMMENT_CHARACTERS = 2000
LAST_SHOWN = 8
"""Responses that the page of thanks shows; for others it has links."""


class LevelChoice(NamedTuple):
    """A level to choose; `key` is the digit that chooses it, or None."""

    level: Level
    key: int | None
    chosen: bool


class AspectChoice(NamedTuple):
    """An aspect with its levels, lowest first. `missing`: the sheet was sent without a choice."""

    aspect: Aspect
    levels: list[LevelChoice]
    missing: bool


@dataclass(frozen=True)
class Entered:
    """What a sheet shows as chosen: what was sent, or else the rater's earlier rating."""

    ratings: Mapping[str, float] = field(default_factory=dict)
    comment: str = ""
    marked: Collection[int] = ()
    starred: bool = False
    faults: frozenset[str] = frozenset()
    """Pointers such as `/ratings/overall` and `/comment`."""

    @classmethod
    def of(cls, earlier: OwnRating | None) -> Entered:
        """An earlier rating; nothing without one."""
        if earlier is None:
            return cls()
        return cls(earlier.ratings, earlier.comment or "", earlier.faulty_turns, earlier.starred)


class SheetPosition(NamedTuple):
    """A rater in a round; `address` is the rater's next sheet. It names the rater unless an invitation does."""

    project: str
    round: RatingRound
    rater: str
    named: bool

    @property
    def address(self) -> str:
        return query(f"/rate/{self.round.id}/sheet", rater=self.rater if self.named else None)

    def address_of(self, number: int) -> str:
        """The sheet of one response that the rater was given."""
        return query(f"/rate/{self.round.id}/sheet", rater=self.rater if self.named else None, number=str(number))


@router.get("/rate/{round_id}/sheet")
async def show_sheet(request: Request, container: Serving, visitor: RoundVisitor, round_id: str) -> Response:
    """The rater's next response, or one that the rater was given before."""
    place = await find_place(request, container, visitor, round_id)
    if place is None:
        return redirect(f"/rate/{round_id}")
    if place.round.of_pairs:
        return await show_next_pair(request, container, place)
    if "number" in request.query_params:
        sheet = await find_sheet(container, place, request.query_params["number"])
        if sheet is None:
            return redirect(place.address)
    else:
        sheet = await container.ratings.rounds.next(place.project, place.round.id, place.rater)
        if sheet is None:
            return await show_thanks(request, container, place)
    return render_sheet(request, place, sheet, Entered.of(sheet.earlier))


@router.post("/rate/{round_id}/sheet")
async def save_sheet(request: Request, container: Serving, visitor: RoundVisitor, round_id: str) -> Response:
    """Stores the ratings and redirects: from a response that was rated before to the one after it, otherwise to a new
    one. Sending a sheet twice stores it once."""
    form = await read_form(request)
    place = await find_place(request, container, visitor, round_id)
    if place is None:
        return redirect(f"/rate/{round_id}")
    if place.round.of_pairs:
        return await save_pair(request, container, place, form)
    sheet = await find_sheet(container, place, request.query_params.get("number", ""))
    if sheet is None:
        raise NotFound(Message("response-of-other-rater"))
    ratings, comment, task = read_chosen_levels(form, sheet.aspects), form.raw("comment"), sheet.task
    marked, starred = read_marks(form, sheet.conversation), form.get("starred") == "yes"
    rounds = container.ratings.rounds
    try:
        await rounds.rate(
            place.project,
            place.round.id,
            place.rater,
            task.position,
            ratings,
            comment=comment,
            faulty_turns=marked,
            starred=starred,
        )
    except InvalidDocument as error:
        faults = frozenset(where for where, _ in error.faults)
        return render_sheet(request, place, sheet, Entered(ratings, comment, marked, starred, faults))
    return redirect(place.address_of(task.number + 1) if task.done else place.address)


async def find_place(
    request: Request, container: Container, visitor: RatingVisitor, round_id: str
) -> SheetPosition | None:
    """The round, and the rater of the invitation or else of the address; None if that has no valid rater."""
    require_rater(request, visitor)
    found = await container.ratings.rounds.find(visitor.project, round_id)
    if visitor.invitation is not None:
        return SheetPosition(visitor.project, found, visitor.invitation.rater, named=False)
    try:
        rater = read_rater(request.query_params.get("rater", ""), request.app.state.limits)
    except InvalidDocument:
        return None
    return SheetPosition(visitor.project, found, rater, named=True)


async def find_sheet(container: Container, place: SheetPosition, number: str) -> RatingSheet | None:
    """The rater's response of that number, or None."""
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        return None
    try:
        return await container.ratings.rounds.sheet(place.project, place.round.id, place.rater, int(number))
    except NotFound:
        return None


def read_chosen_levels(form: Form, aspects: Sequence[Aspect]) -> dict[str, float]:
    """The chosen levels by aspect; a value that is not a level counts as not chosen."""
    levels = {aspect.id: {str(value): float(value) for value in aspect.values} for aspect in aspects}
    sent = {name: form.get(f"rating.{name}") for name in levels}
    return {name: levels[name][chosen] for name, chosen in sent.items() if chosen in levels[name]}


def read_marks(form: Form, conversation: Conversation | None) -> list[int]:
    """The system's turns that are marked as faulty; anything else counts as not marked."""
    chosen = frozenset(form.all("faulty"))
    return [number for number in (conversation.system_turns if conversation else ()) if str(number) in chosen]


def render_sheet(request: Request, place: SheetPosition, sheet: RatingSheet, entered: Entered) -> Response:
    """The page of one response."""
    task = sheet.task
    return render(
        request,
        "sheet.html",
        422 if entered.faults else 200,
        round_id=place.round.id,
        rater=place.rater,
        task={"number": task.number, "of": task.of, "done": task.done},  # raters must not see the response's position
        action=place.address_of(task.number),
        before=place.address_of(task.number - 1) if task.number else None,
        onwards=place.address,
        context=sheet.context,
        own=responder_of(sheet.context),
        response=sheet.response,
        rubric=sheet.rubric,
        conversation=sheet.conversation,
        marked=entered.marked,
        expected=sheet.rubric.source_language,
        choices=[make_choice(aspect, entered) for aspect in sheet.aspects],
        comment=entered.comment,
        starred=entered.starred,
        comment_characters=COMMENT_CHARACTERS,
        comment_failed="/comment" in entered.faults,
        failed=bool(entered.faults),
        examples_of=examples_of,
        opened=task.number == 0 and not task.done,
    )


def make_choice(aspect: Aspect, entered: Entered) -> AspectChoice:
    """An aspect and what is chosen. A level's key is its number, or its place from 1 if not all numbers are digits."""
    own = all(level.value in KEY_DIGITS for level in aspect.levels)
    keys = [level.value if own else place for place, level in enumerate(aspect.levels, start=1)]
    levels = [
        LevelChoice(level, key if key in KEY_DIGITS else None, entered.ratings.get(aspect.id) == level.value)
        for key, level in zip(keys, aspect.levels, strict=True)
    ]
    return AspectChoice(aspect, levels, pointer(("ratings", aspect.id)) in entered.faults)


def examples_of(aspect: Aspect, language: str) -> list[dict[str, Any]]:
    """The aspect's example dialogues by level; `again` marks a context equal to the one before."""
    found: list[dict[str, Any]] = []
    before: object = None
    for level in aspect.levels:
        if not level.example:
            continue
        spoken = next(code for code in (language, "en", *level.example) if code in level.example)
        example: Example = level.example[spoken]
        found.append({"level": level, "example": example, "lang": spoken, "again": example.context == before})
        before = example.context
    return found


async def show_thanks(request: Request, container: Container, place: SheetPosition) -> Response:
    """What the rater has rated, when no response is left; one that is open may still be rated."""
    progress = (await container.ratings.rounds.progress(place.project, [place.round.id])).get(place.round.id)
    count = 0 if progress is None else progress.raters.get(place.rater, 0)
    numbers = range(count - 1, -1, -1)  # all before the open one are rated
    shown, rounds = numbers[:LAST_SHOWN], container.ratings.rounds
    last = [await rounds.sheet(place.project, place.round.id, place.rater, number) for number in shown]
    in_hand = await find_sheet(container, place, str(count)) if place.round.closed_at else None
    return render(
        request,
        "thanks.html",
        round_id=place.round.id,
        rater=place.rater,
        closed=place.round.closed_at is not None,
        count=count,
        numbers=numbers[::-1],
        last=[(sheet, sheet.earlier) for sheet in last],
        in_hand=place.address_of(count) if in_hand is not None else None,
        address_of=place.address_of,
        rubric=last[0].rubric if last else None,
    )
