"""The end of a batch that is made of all its results together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked, lock_batches, log_completed, store_accounts
from app.adapters.sql.batches.figures import extend_measures, read_measures, rewrite_figures, write_measures
from app.adapters.sql.batches.part import ROWS, StorePart
from app.adapters.sql.batches.signatures import count_in
from app.adapters.sql.batches.texts import replace_evaluation
from app.adapters.sql.engine import change
from app.adapters.sql.tables import batch_chunks, evaluations
from app.batch_ports import FINISH, Scores
from app.domain.evaluation import Evaluation
from app.scores import pack, scores_of, unpack

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
            # Whoever lost the batch's end and still works on it must not put texts back that are gone.
            if batch_id not in locked or locked[batch_id].row._mapping["texts"] is not None:
                return
            for start in range(0, len(changed), ROWS):
                await rewrite_results(connection, locked[batch_id], dict(changed[start : start + ROWS]))
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


async def rewrite_results(connection: AsyncConnection, batch: Locked, changed: dict[int, Evaluation]) -> None:
    """Puts the evaluations in, and changes the batch's account with them. Failures are left alone."""
    query = select(result.id, result.position, result.status, result.signature, result.record, result.scores).where(
        result.batch_id == batch.id, result.position.in_(changed), result.failure.is_(None)
    )
    rows, placed, signatures = [], list[tuple[int, Scores]](), Counter[tuple[str, str]]()
    for row in await connection.execute(query):
        evaluation = changed[row.position]
        scores = scores_of(evaluation, unpack(row.scores).context)
        placed.append((row.position, scores))
        rows.append(
            {
                "this": row.id,
                "new_record": replace_evaluation(row.record, evaluation),
                "new_status": evaluation.status,
                "new_signature": evaluation.signature,
                "new_scores": pack(scores),
            }
        )
        batch.account.count(evaluation.status)
        batch.account.count(row.status, -1)
        signatures.update({(batch.id, evaluation.signature): 1})
        signatures.subtract({(batch.id, row.signature): 1})
    if not rows:
        return
    measures = extend_measures(read_measures(batch.account.measures), [scores for _, scores in placed])
    await connection.execute(REWRITE, rows)
    await rewrite_figures(connection, batch.id, placed, measures)
    await count_in(connection, signatures)
    batch.account.measures = write_measures(measures)
    batch.account.forget_figures()
