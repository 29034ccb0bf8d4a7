"""The end of a batch that is made of all its results together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import lock_batches, log_completed, store_accounts
from app.adapters.sql.batches.part import ROWS, StorePart
from app.adapters.sql.batches.rows import describe_figures
from app.adapters.sql.batches.signatures import count_in
from app.adapters.sql.batches.texts import replace_evaluation
from app.adapters.sql.engine import change
from app.adapters.sql.tables import batch_chunks, evaluations
from app.batch_ports import FINISH
from app.domain.evaluation import Evaluation
from app.scores import unpack

result = evaluations.c
REWRITE = (
    update(evaluations)
    .where(result.id == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in ("record", "status", "signature", "scores")})
)


class Ending(StorePart):
    """Rewrites results and completes the batch."""

    async def rewrite(self, batch_id: str, changed: Sequence[tuple[int, Evaluation]]) -> None:
        async with change(self._engine) as connection:
            locked = await lock_batches(connection, [batch_id])
            if batch_id not in locked:
                return
            for start in range(0, len(changed), ROWS):
                statuses = await rewrite_results(connection, batch_id, dict(changed[start : start + ROWS]))
                for status, by in statuses.items():
                    locked[batch_id].account.count(status, by)
            await store_accounts(connection, locked.values())

    async def complete(self, batch_id: str) -> None:
        chunk = batch_chunks.c
        async with change(self._engine) as connection:
            locked = await lock_batches(connection, [batch_id])
            if batch_id not in locked or locked[batch_id].account.chunks_left:
                return
            locked[batch_id].account.complete(self._clock())
            # The owner stays: it is still to close what it holds.
            end = update(batch_chunks).where(chunk.batch_id == batch_id, chunk.number == FINISH)
            await connection.execute(end.values(state="done", queued_at=None))
            await store_accounts(connection, locked.values())
        log_completed(locked.values())


async def rewrite_results(connection: AsyncConnection, batch_id: str, changed: dict[int, Evaluation]) -> Counter[str]:
    """Puts the evaluations in; by how much the numbers of each status changed. Failures are left alone."""
    query = select(result.id, result.position, result.status, result.signature, result.record, result.scores).where(
        result.batch_id == batch_id, result.position.in_(changed), result.failure.is_(None)
    )
    rows, statuses, signatures = [], Counter[str](), Counter[tuple[str, str]]()
    for row in await connection.execute(query):
        evaluation = changed[row.position]
        figures = describe_figures(evaluation, unpack(row.scores).context)
        new = {"record": replace_evaluation(row.record, evaluation), **figures}
        rows.append({"this": row.id, **{f"new_{name}": value for name, value in new.items()}})
        statuses.update({evaluation.status: 1})
        statuses.subtract({row.status: 1})
        signatures.update({(batch_id, evaluation.signature): 1})
        signatures.subtract({(batch_id, row.signature): 1})
    if rows:
        await connection.execute(REWRITE, rows)
        await count_in(connection, signatures)
    return statuses
