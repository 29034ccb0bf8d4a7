"""Whether the counted bytes of each batch and project are those of what is there."""

from typing import Any

from sqlalchemy import func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import fetch
from saiten_server.platform.sql.sizes import (
    ANSWER_SIZE,
    COPIES,
    DRAWN_BYTES,
    PREFERENCE_SIZE,
    RATING_SIZE,
    RESULT_SIZE,
    ROW_BYTES,
    octets,
)


async def list_drift(engine: AsyncEngine) -> dict[str, tuple[int, int]]:
    """By batch and by project what is counted, and what was added up now, where they differ."""
    result, item = t.evaluations.c, t.batch_items.c
    candidates = select(item.batch_id, COPIES * octets(item.request) + ROW_BYTES)
    results = select(result.batch_id, RESULT_SIZE).where(result.batch_id.is_not(None))
    rounds, drawn = t.rating_rounds, t.round_items
    places = select(rounds.c.batch_id, literal(DRAWN_BYTES)).join(drawn, drawn.c.round_id == rounds.c.id)
    singles = select(result.project, RESULT_SIZE).where(result.batch_id.is_(None))
    ratings = select(t.human_ratings.c.project, RATING_SIZE)
    preferences = select(t.human_preferences.c.project, PREFERENCE_SIZE)
    answers = select(t.idempotency_keys.c.project, ANSWER_SIZE)
    found: dict[str, int] = {}
    for several in (union_all(candidates, results, places), union_all(singles, ratings, preferences, answers)):
        sized: Any = several.subquery()
        name, size = sized.columns
        found |= {row[0]: int(row[1]) for row in await fetch(engine, select(name, func.sum(size)).group_by(name))}
    batch, rest = t.batches.c, t.project_bytes.c
    counted = {row[0]: row[1] for row in await fetch(engine, select(batch.id, batch.stored_bytes))}
    counted |= {row[0]: row[1] for row in await fetch(engine, select(rest.project, rest.bytes))}
    both = {name: (counted.get(name, 0), found.get(name, 0)) for name in counted.keys() | found.keys()}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}
