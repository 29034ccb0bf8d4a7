"""Links by which raters rate in one round: stored hashed, shown once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.governance.keys import hash_key
from saiten_server.governance.store import keep_event, tell_events
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import can_store, equals, rating_invitations, rating_rounds
from saiten_server.ratings.values import MOST_INVITATIONS, Invitation

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
            event = await note(connection, "invitation.created", made, actor, now)
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
            event = await note(connection, "invitation.revoked", found, actor, now)
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


async def note(connection: AsyncConnection, action: str, about: Invitation, actor: str, now: datetime) -> AuditEvent:
    """Stores the event in the transaction. A rater's name is the caller's text, and left out."""
    detail = {"round": about.round}
    event = AuditEvent(at=now, project=about.project, actor=actor, action=action, target=about.id, detail=detail)
    await keep_event(connection, event)
    return event
