"""Where rounds of human ratings are opened, and where raters get their responses and leave their ratings.

The links by which raters rate in one round are stored hashed and shown once.
"""

from __future__ import annotations

import asyncio
import builtins
import random
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.access import AuditEvent
from saiten_server.core.batch import Candidate
from saiten_server.core.dialogue import DEFAULT_LIMITS, UNBOUNDED, Limits
from saiten_server.core.errors import InvalidRequest, NotFound, UnknownAspect
from saiten_server.core.model import key_of, pointer
from saiten_server.core.reports import AgreementReport
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.validation import MOST_UNKNOWN, InvalidDocument, clip, describe_fault
from saiten_server.governance.keys import hash_key
from saiten_server.governance.store import keep_event, tell_events
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.sizes import DRAWN_BYTES
from saiten_server.platform.sql.tables import can_store, equals, rating_invitations, rating_rounds
from saiten_server.ratings.choice import Spreads, draw_informative, draw_stratified, pick_worst
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.values import (
    MOST_INVITATIONS,
    Comment,
    DrawnItem,
    Exclusion,
    HumanRating,
    Invitation,
    OwnRating,
    RatedTask,
    RaterId,
    RatingFilter,
    RatingRound,
    RatingsAdded,
    RatingSheet,
    RoundDraw,
    RoundOptions,
    RoundProgress,
    SharedProgress,
    StoredExclusion,
    StoredRating,
    Task,
    applicable,
)
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import read_frames
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.runs.frame import RunFrame

RESULTS_PAGE = 100
"""Results that are read at a time, in some hundredths of a second of a thread."""

MOST_RATED = 20_000
"""Ratings of a round that are looked at together."""

NEVER_GIVEN = Message("response-of-other-rater")
RATER_ID: TypeAdapter[str] = TypeAdapter(RaterId)
COMMENT: TypeAdapter[str] = TypeAdapter(Comment)


class RatingKeeper(Protocol):
    """What a round needs of `RatingService`."""

    async def keep_ratings(self, project: str, ratings: Sequence[HumanRating]) -> RatingsAdded: ...

    async def exclude(self, project: str, exclusion: Exclusion) -> bool: ...

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]: ...

    async def list_ratings(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]: ...


@dataclass(kw_only=True, eq=False)
class RoundService:
    """Everything that callers and raters do with rating rounds, within the caller's project.

    Raters see a response blind: with its dialogue context and the rubric, and nothing of what the judge or anybody else
    made of it. Methods raise NotFound for a round or a batch that is not in the project, InvalidRequest, UnknownRubric,
    and StoreError. `limits` bound a rater's name.
    """

    batches: BatchStore
    rounds: RoundStore
    ratings: RatingKeeper
    rubrics: RubricSource
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    limits: Limits = DEFAULT_LIMITS
    quota: StorageQuota | None = None

    async def open(self, project: str, batch_id: str, options: RoundOptions) -> RatingRound:
        """A new round of responses that are drawn from the batch's results of now: all of them where there are fewer
        than asked for. InvalidRequest where none has a rating by the judge."""
        rubric = await self._find_rubric(project, batch_id)  # raises UnknownRubric before anything is drawn
        if options.aspect is not None and all(options.aspect != one.id for one in rubric.aspects):
            raise UnknownAspect(
                Message("rubric-lacks-aspect", rubric=rubric.id, aspect=options.aspect), pointer="/aspect"
            )
        rated = await read_rated(self.batches, project, batch_id)
        if not len(rated):
            raise InvalidRequest(Message("round-no-response"))
        drawn = await self._draw(project, batch_id, rated, rubric, options)
        opened = RatingRound(
            id=self.new_id(),
            batch=batch_id,
            options=options,
            drawn=len(drawn.positions),
            created_at=self.now(),
            signals=drawn.signals,
        )
        if self.quota is not None:
            await self.quota.require_room(project, DRAWN_BYTES * opened.drawn)
        await self.rounds.open_round(project, opened, drawn)
        if not opened.is_sample:
            await self.ratings.exclude(project, Exclusion(round=opened.id))
        return opened

    async def _draw(
        self, project: str, batch_id: str, rated: RunFrame, rubric: Rubric, options: RoundOptions
    ) -> RoundDraw:
        """What a round of these results draws. By the seed, so that a second team can be asked for the same."""
        if options.shared_with is not None:
            return await self._draw_shared(project, batch_id, rated, options.shared_with)
        aspects = [one for one in rubric.aspects if options.aspect in {None, one.id}]
        if options.choose == "chosen":
            missing = {*options.positions} - {*rated.positions.tolist()}
            if missing:
                raise InvalidRequest(Message("round-response-not-scored", position=min(missing)), pointer="/positions")
            return RoundDraw(options.positions, [1.0] * len(options.positions))
        if options.choose == "worst":
            positions = await asyncio.to_thread(pick_worst, rated, aspects, rubric.best, options.items)
            if not positions:
                raise InvalidRequest(Message("round-no-response"))
            return RoundDraw(positions, [1.0] * len(positions))
        if options.choose == "stratified":
            return await asyncio.to_thread(draw_stratified, rated, aspects, options)
        if options.choose == "informative":
            spreads = await self._read_spreads(project, batch_id, rated, aspects, options)
            found = await asyncio.to_thread(draw_informative, rated, spreads, options)
            if found is not None:
                return found
        size = min(options.items, len(rated))
        chosen = random.Random(options.seed).sample(rated.positions.tolist(), size)  # noqa: S311 - no secret
        return RoundDraw(chosen, [size / len(rated)] * size)

    async def _draw_shared(self, project: str, batch_id: str, rated: RunFrame, other: str) -> RoundDraw:
        """The responses to the items of another round, with its probabilities."""
        found = await self.rounds.find_round(project, other)
        if found is None:
            raise NotFound(Message("round-named-not-found", name=other[:64]), pointer="/shared_with")
        if found.batch == batch_id or found.of_pairs or not found.is_sample:
            detail = Message("round-draws-other")
            raise InvalidRequest(detail, pointer="/shared_with")
        places = dict(
            zip(
                zip(rated.items.tolist(), rated.candidates.tolist(), strict=True), rated.positions.tolist(), strict=True
            )
        )
        drawn = []
        for each in await self.rounds.items(project, other):
            key = key_of(each.item), -1 if each.candidate is None else each.candidate
            if key in places:
                drawn.append((places[key], each.probability or 1.0))
        if not drawn:
            raise InvalidRequest(Message("round-no-item"), pointer="/shared_with")
        return RoundDraw([position for position, _ in drawn], [probability for _, probability in drawn], found.signals)

    async def shared(self, project: str, found: RatingRound) -> SharedProgress | None:
        """How far people have rated in the round and in the one that it shares items with; None without one."""
        other = found.options.shared_with if isinstance(found.options, RoundOptions) else None
        if other is None:
            return None
        raters, here = await self.rounds.count_shared(project, found.id, other)
        _, there = await self.rounds.count_shared(project, other, found.id)
        return SharedProgress(round=other, raters=raters, here=here, there=there)

    async def _read_spreads(
        self, project: str, batch_id: str, rated: RunFrame, aspects: Sequence[Aspect], options: RoundOptions
    ) -> Spreads:
        """By signal the spreads of the results, in the order of these."""
        run = await self.batches.options(project, batch_id)
        places = {position: row for row, position in enumerate(rated.positions.tolist())}
        spreads = Spreads(len(rated), aspects)
        if run is not None and (run.judge.samples > 1 or run.judge.expected or run.path == "both"):
            after = -1
            while page := await self.batches.results(project, batch_id, after=after, limit=RESULTS_PAGE):
                await asyncio.to_thread(spreads.add, places, page)
                after = page[-1].entry.position
        if options.judges:
            for judge in options.judges:
                if await self.batches.find(project, judge) is None:
                    raise NotFound(Message("batch-named-not-found", batch=judge[:64]), pointer="/judges")
            others = [await read_rated(self.batches, project, judge) for judge in options.judges]
            await asyncio.to_thread(spreads.compare, rated, others)
        return spreads

    async def find(self, project: str, round_id: str) -> RatingRound:
        """The round as it is now."""
        return require_round(await self.rounds.find_round(project, round_id))

    async def items(self, project: str, round_id: str) -> builtins.list[DrawnItem]:
        """What the round drew, in its order, with the probability of each to be in it."""
        found = await self.find(project, round_id)
        drawn = await self.rounds.items(project, round_id)
        if found.of_pairs or not found.is_sample:
            return drawn
        rated = await read_rated(self.batches, project, found.batch)
        return await asyncio.to_thread(tell_inclusion, drawn, rated)

    async def close(self, project: str, round_id: str) -> RatingRound:
        """Gives nothing more out. What raters have in hand they may still rate."""
        return require_round(await self.rounds.close_round(project, round_id, self.now()))

    async def progress(self, project: str, round_ids: Sequence[str]) -> dict[str, RoundProgress]:
        """By round; those that the project has not are left out."""
        return await self.rounds.progress(project, round_ids)

    async def rated(self, project: str, round_id: str) -> builtins.list[RatedTask]:
        """The ratings that the round got, at most `MOST_RATED`, without those of excluded raters."""
        excluded = {one.rater for one in await self.ratings.exclusions(project)} - {None}
        found = await self.rounds.rated(project, round_id, limit=MOST_RATED)
        return [one for one in found if one.rating.rater not in excluded]

    async def next(self, project: str, round_id: str, rater: str) -> RatingSheet | None:
        """What the rater is to rate next; None where there is nothing more for this rater, or the round is closed."""
        rater = read_rater(rater, self.limits)
        found = await self.find(project, round_id)
        task = await self.rounds.take(project, round_id, rater, self.now())
        return None if task is None else await self._write_sheet(project, found, rater, task)

    async def sheet(self, project: str, round_id: str, rater: str, number: int) -> RatingSheet:
        """The rater's response of that number again, with the rater's rating; raises NotFound if there is none."""
        rater = read_rater(rater, self.limits)
        found = await self.find(project, round_id)
        for task in await self.rounds.tasks(project, round_id, rater):
            if task.number == number:
                return await self._write_sheet(project, found, rater, task)
        raise NotFound(NEVER_GIVEN)

    async def rate(
        self,
        project: str,
        round_id: str,
        rater: str,
        position: int,
        ratings: Mapping[str, float],
        *,
        comment: str | None = None,
        faulty_turns: Sequence[int] = (),
        starred: bool = False,
    ) -> None:
        """Keeps the rater's values, one for every aspect that applies, and the marked turns of a conversation, in the
        place of earlier ones. `starred` marks the response as interesting. Raises InvalidDocument with pointers such
        as `/ratings/overall`, and InvalidRequest where the response was not given to the rater."""
        rater = read_rater(rater, self.limits)
        found = await self.find(project, round_id)
        if all(task.position != position for task in await self.rounds.tasks(project, round_id, rater)):
            raise InvalidRequest(NEVER_GIVEN, pointer="/position")
        rubric = await self._find_rubric(project, found.batch)
        conversation = (await self._find_candidate(found.batch, position)).conversation
        aspects = applicable(rubric, conversation)
        faults = [(pointer(("ratings", name)), what) for name, what in find_rating_faults(ratings, aspects)]
        if not set(faulty_turns) <= set(conversation.system_turns if conversation else ()):
            faults.append(("/faulty_turns", Message("not-a-turn-of-system")))
        if faults:
            raise InvalidDocument(faults)
        rating = HumanRating.model_validate(
            {
                "evaluation": await self._find_evaluation(project, found.batch, position),
                "rater": rater,
                "ratings": {aspect.id: float(ratings[aspect.id]) for aspect in aspects},
                "faulty_turns": sorted(set(faulty_turns)) if conversation else None,
                "comment": read_field(COMMENT, comment or "", "/comment") or None,
                "starred": starred,
            },
            context={"limits": UNBOUNDED},  # what is bounded was checked above
        )
        # In this order: who is cut off in between is asked once more, and the same rating is replaced.
        await self.ratings.keep_ratings(project, [rating])
        await self.rounds.finish(project, round_id, rater, position, self.now())

    async def _write_sheet(self, project: str, found: RatingRound, rater: str, task: Task) -> RatingSheet:
        rubric = await self._find_rubric(project, found.batch)
        candidate = await self._find_candidate(found.batch, task.position)
        return RatingSheet.model_construct(
            task=task,
            context=candidate.context,
            response=candidate.response,
            rubric=rubric,
            conversation=candidate.conversation,
            # Only ratings of this round: an earlier one of the same response would bias the rater.
            earlier=await self._find_earlier(project, found, rater, task.position) if task.done else None,
        )

    async def _find_earlier(self, project: str, found: RatingRound, rater: str, position: int) -> OwnRating | None:
        evaluation = await self._find_evaluation(project, found.batch, position)
        own = RatingFilter(evaluation=evaluation, rater=rater)
        kept = await self.ratings.list_ratings(project, own, after=-1, limit=1)
        if not kept:
            return None
        own_rating = kept[0][1]
        marked = own_rating.faulty_turns or ()
        return OwnRating(
            ratings=own_rating.ratings, comment=own_rating.comment, faulty_turns=marked, starred=own_rating.starred
        )

    async def _find_candidate(self, batch_id: str, position: int) -> Candidate:
        """What a round has drawn; raises NotFound where it was erased with its batch a moment ago."""
        page = await self.batches.candidates(batch_id, after=position - 1, limit=1)
        if not page:
            raise no_round()
        return page[0][1]

    async def _find_evaluation(self, project: str, batch_id: str, position: int) -> str:
        """The id of the result at that position, which a round has drawn."""
        found = await self.batches.find_evaluation(project, batch_id, position)
        if found is None:
            raise no_round()
        return found

    async def _find_rubric(self, project: str, batch_id: str) -> Rubric:
        """The batch's rubric."""
        options = await self.batches.options(project, batch_id)
        if options is None:
            raise NotFound(Message("batch-named-not-found", batch=batch_id[:64]))
        return self.rubrics.nearest(options.rubric)

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, batch_id: str | None = None, *, limit: int = 200, of_pairs: bool | None = False
    ) -> builtins.list[RatingRound]:
        """Newest first; of one batch, or of all. Those in which responses are rated, or pairs compared; with None,
        both."""
        return await self.rounds.list_rounds(project, batch_id, limit=limit, of_pairs=of_pairs)


def tell_inclusion(drawn: Sequence[DrawnItem], rated: RunFrame) -> builtins.list[DrawnItem]:
    """The items with the probability with which monitor and round together took them; `rated` are the batch's
    results."""
    sampled = dict(zip(rated.positions.tolist(), rated.probability.tolist(), strict=True))
    return [
        one.model_copy(update={"inclusion": one.probability * sampled[one.position]})
        if one.probability is not None and one.position in sampled
        else one
        for one in drawn
    ]


async def read_rated(batches: BatchStore, project: str, batch_id: str) -> RunFrame:
    """What the judge has given a rating, as columns."""
    from saiten_server.runs.frame import join_frames

    frames = [frame async for frame in read_frames(batches, project, batch_id)]
    found = await asyncio.to_thread(join_frames, frames)
    return found.take(found.find_rows(lambda label: label.status != "failed"))


def measure_round(rated: Sequence[RatedTask]) -> AgreementReport:
    """How far the raters of a round agree, by aspect. It may take seconds: not for an event loop. scipy is loaded
    here. Raises InvalidRequest."""
    import numpy as np

    from saiten_server.stats.agreement import measure_agreement
    from saiten_server.stats.observations import Observations

    items = {position: number for number, position in enumerate(sorted({one.position for one in rated}))}
    raters = {name: number for number, name in enumerate(sorted({one.rating.rater for one in rated}))}
    aspects = dict.fromkeys(name for one in rated for name in one.rating.ratings)
    return measure_agreement(
        Observations(
            systems=("",),
            items=tuple(map(str, items)),
            raters=tuple(raters),
            system=np.zeros(len(rated), dtype=np.int64),
            item=np.array([items[one.position] for one in rated], dtype=np.int64),
            rater=np.array([raters[one.rating.rater] for one in rated], dtype=np.int64),
            ratings={name: np.array([one.rating.ratings.get(name, np.nan) for one in rated]) for name in aspects},
        )
    )


def read_rater(name: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """The name without spaces around it; raises InvalidDocument at `/rater` for one that no rater may have."""
    return read_field(RATER_ID, name, "/rater", limits)


def read_field(form: TypeAdapter[str], text: str, where: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """The text without white space around it; raises InvalidDocument at `where` for one that is not of the form."""
    try:
        return form.validate_python(text.strip(), strict=True, context={"limits": limits})
    except ValidationError as error:
        raise InvalidDocument([(where, describe_fault(fault)) for fault in error.errors()[:1]]) from None


def find_rating_faults(ratings: Mapping[str, float], aspects: Sequence[Aspect]) -> Iterator[tuple[str, Message]]:
    """What does not fit, in the order of the aspects: the name, and what is wrong."""
    for aspect in aspects:
        low, high = aspect.scale
        if aspect.id not in ratings:
            yield aspect.id, Message("aspect-missing")
        elif not low <= ratings[aspect.id] <= high:
            yield aspect.id, Message("off-its-scale", value=ratings[aspect.id], low=low, high=high)
    known = {aspect.id for aspect in aspects}
    unknown = [name for name in ratings if name not in known]
    yield from ((clip(name), Message("aspect-not-requested")) for name in unknown[:MOST_UNKNOWN])


def require_round(found: RatingRound | None) -> RatingRound:
    """The round; raises NotFound where there is none."""
    if found is None:
        raise no_round()
    return found


def no_round() -> NotFound:
    """The error for a missing round, and for one of another project."""
    return NotFound(Message("round-not-found"))


INVITATION_PREFIX = "rate_"

invited, rounds = rating_invitations.c, rating_rounds.c
INVITATION_FIELDS = ("id", "rater", "created_at", "expires_at", "revoked_at")


class InvitationStore:
    """Invitations by round, which are erased with it. `actor` is who makes and revokes them: that goes to the audit log
    in the same transaction, without the rater's name. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(
        self, project: str, round_id: str, rater: str, *, until: datetime, now: datetime, actor: str
    ) -> tuple[Invitation, str]:
        """Creates an invitation and returns it with its secret, which is not stored. Raises NotFound for a round that
        the project does not have, and InvalidRequest for a closed one, for more than `MOST_INVITATIONS`, and for a name
        that cannot be stored."""
        if not can_store(rater):
            raise InvalidRequest(Message("rater-name-not-kept"))
        secret = INVITATION_PREFIX + secrets.token_urlsafe(32)
        made = Invitation("ri_" + secrets.token_hex(8), project, round_id, rater, now, until)
        mine = equals(rounds.id, round_id), equals(rounds.project, project)
        async with db.change(self._engine) as connection:
            # Held to the end, so that the count is right and an erasure takes the invitation along.
            held = (await connection.execute(select(rounds.closed_at).where(*mine).with_for_update())).first()
            if held is None:
                raise NotFound(Message("round-not-found"))
            if held.closed_at is not None:
                raise InvalidRequest(Message("round-closed"))
            count = select(func.count()).select_from(rating_invitations).where(invited.round_id == round_id)
            if (await connection.execute(count)).scalar_one() >= MOST_INVITATIONS:
                raise InvalidRequest(Message("invitations-most", count=MOST_INVITATIONS))
            row = {"id": made.id, "round_id": round_id, "rater": rater, "created_at": now, "expires_at": until}
            await connection.execute(insert(rating_invitations), {**row, "hash": hash_key(secret), "revoked_at": None})
            event = await note_invitation(connection, "invitation.created", made, actor, now)
        tell_events(event)
        return made, secret

    async def list(self, project: str, round_id: str) -> Sequence[Invitation]:
        """The round's, oldest first, with those that have ended."""
        query = joined().where(equals(rounds.id, round_id), equals(rounds.project, project))
        rows = await db.fetch(self._engine, query.order_by(invited.created_at, invited.id))
        return [read_invitation(row) for row in rows]

    async def revoke(self, project: str, round_id: str, invitation_id: str, *, now: datetime, actor: str) -> bool:
        """Ends the invitation, at once and on every replica. Returns whether there was one that was not revoked."""
        own = select(rounds.id).where(equals(rounds.id, round_id), equals(rounds.project, project))
        this = (equals(invited.id, invitation_id), invited.round_id.in_(own))
        async with db.change(self._engine) as connection:
            gone = update(rating_invitations).where(*this, invited.revoked_at.is_(None)).values(revoked_at=now)
            if not (await connection.execute(gone)).rowcount:
                return False
            found = read_invitation((await connection.execute(joined().where(*this))).one())
            event = await note_invitation(connection, "invitation.revoked", found, actor, now)
        tell_events(event)
        return True

    async def find(self, secret: str, now: datetime) -> Invitation | None:
        """The invitation with this secret, if it holds and its round is open."""
        if not can_store(secret):
            return None
        query = joined().where(invited.hash == hash_key(secret), rounds.closed_at.is_(None))
        row = await db.fetch_one(self._engine, query)
        found = None if row is None else read_invitation(row)
        return found if found is not None and found.holds(now) else None


def joined() -> Any:
    """Invitations with their rounds' projects."""
    return select(*(invited[name] for name in INVITATION_FIELDS), rounds.project, invited.round_id.label("round")).join(
        rating_rounds, rounds.id == invited.round_id
    )


def read_invitation(row: Row[Any]) -> Invitation:
    """The invitation of a row."""
    return Invitation(**row._asdict())


async def note_invitation(
    connection: AsyncConnection, action: str, about: Invitation, actor: str, now: datetime
) -> AuditEvent:
    """Stores the event in the transaction. A rater's name is the caller's text, and left out."""
    detail = {"round": about.round}
    event = AuditEvent(at=now, project=about.project, actor=actor, action=action, target=about.id, detail=detail)
    await keep_event(connection, event)
    return event
