"""Sequences of builds: which place a candidate has, and the verdict on it by all builds since the baseline."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.given_runs import batch_of
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.runs import find_batch
from saiten_server.comparison.values import (
    ComparedRun,
    GateReport,
    GateSequence,
    GateVerdict,
    SequenceBuild,
    SequenceDrop,
)
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import batches, equals
from saiten_server.platform.sql.tables import sequence_builds as builds
from saiten_server.platform.sql.tables import sequences as table
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.rows import RECEIVING

begun, built = table.c, builds.c

DROPS = TypeAdapter(dict[str, SequenceDrop])

MOST_SEQUENCES = 1_000
"""Of a project."""

MOST_NIGHTS = 10_000
"""Of a sequence."""


class SequenceStore:
    """Sequences by project and name. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, project: str, name: str) -> GateSequence | None:
        """The sequence with its builds; None where there is none."""
        key = digest(name)
        row = await db.fetch_one(self._engine, select(table).where(equals(begun.project, project), begun.key == key))
        if row is None:
            return None
        mine = select(builds).where(equals(built.project, project), built.key == key).order_by(built.night)
        found = tuple(
            SequenceBuild(
                night=one.night,
                batch=one.batch_id,
                judged_at=one.judged_at,
                verdict=one.verdict,
                drops=None if one.drops is None else DROPS.validate_json(one.drops),
            )
            for one in await db.fetch(self._engine, mine)
        )
        return read_sequence_row(row).model_copy(update={"builds": found})

    async def list(self, project: str) -> Sequence[GateSequence]:
        """The project's sequences in the order of their names, without their builds."""
        query = select(table).where(equals(begun.project, project)).order_by(begun.name)
        return [read_sequence_row(row) for row in await db.fetch(self._engine, query)]

    async def enter(self, project: str, sequence: GateSequence, batch: str, now: datetime) -> int:
        """The place of the batch in the sequence, which is begun as given where there is none of its name; a batch that
        has a place keeps it. Raises NotFound where a batch is gone, and InvalidRequest beyond MOST_SEQUENCES and
        MOST_NIGHTS, or where another process just began the sequence with another baseline."""
        key = digest(sequence.name)
        row = {
            "project": project,
            "key": key,
            "name": sequence.name,
            "batch_id": sequence.baseline,
            "alpha": sequence.alpha,
            "started_at": sequence.started_at,
        }
        own = equals(begun.project, project), begun.key == key
        held = select(batches.c.id).where(
            batches.c.id.in_({batch, sequence.baseline}), batches.c.project == project, batches.c.status != RECEIVING
        )
        async with db.change(self._engine) as connection:
            found = (await connection.execute(held.with_for_update(key_share=True, read=True))).all()
            if len(found) < len({batch, sequence.baseline}):
                raise NotFound(Message("sequence-batch-erased"))
            others = select(func.count()).select_from(table).where(begun.project == project, begun.key != key)
            if (await connection.execute(others)).scalar_one() >= MOST_SEQUENCES:
                raise InvalidRequest(Message("sequences-most", count=MOST_SEQUENCES), pointer="/sequence")
            await connection.execute(db.insert_or_ignore(connection, table), row)
            stored = (await connection.execute(select(table).where(*own).with_for_update())).one()
            if stored.batch_id != sequence.baseline:
                raise InvalidRequest(Message("sequence-begun-meanwhile"), pointer="/sequence")
            mine = equals(built.project, project), built.key == key
            place = (await connection.execute(select(built.night).where(*mine, built.batch_id == batch))).scalar()
            if place is not None:
                return int(place)
            night = int((await connection.execute(select(func.max(built.night)).where(*mine))).scalar() or 0) + 1
            if night > MOST_NIGHTS:
                raise InvalidRequest(Message("sequence-builds-most", count=MOST_NIGHTS), pointer="/sequence")
            entry = {"night": night, "batch_id": batch, "judged_at": now, "verdict": "inconclusive"}
            await connection.execute(builds.insert(), {"project": project, "key": key, **entry})
            return night

    async def settle(
        self, project: str, name: str, night: int, verdict: GateVerdict, drops: Mapping[str, SequenceDrop]
    ) -> None:
        """Stores what the gate of this place said, and what is not mended with it."""
        mine = equals(built.project, project), built.key == digest(name), built.night == night
        said = {"verdict": verdict, "drops": DROPS.dump_json(dict(drops)).decode()}
        await db.execute(self._engine, update(builds).where(*mine).values(**said))

    async def remove(self, project: str, name: str) -> bool:
        """Forgets the sequence; returns whether there was one."""
        mine = equals(begun.project, project), begun.key == digest(name)
        return bool(await db.execute(self._engine, delete(table).where(*mine)))


def read_sequence_row(row: Any) -> GateSequence:
    """The sequence of a row, without its builds."""
    return GateSequence(name=row.name, baseline=row.batch_id, alpha=row.alpha, started_at=row.started_at)


POINTER = "/sequence"


@dataclass(kw_only=True, eq=False)
class SequenceService:
    """Sequences within the caller's project. Methods raise NotFound, InvalidRequest and StoreError."""

    batches: BatchStore
    store: SequenceStore
    now: Callable[[], datetime]

    async def list(self, project: str) -> builtins.list[GateSequence]:
        """In the order of their names, without their builds."""
        return [*await self.store.list(project)]

    async def find(self, project: str, name: str) -> GateSequence:
        """The sequence with its builds."""
        found = await self.store.find(project, name)
        if found is None:
            raise NotFound(Message("sequence-not-found"))
        return found

    async def remove(self, project: str, name: str) -> GateSequence:
        """Forgets the sequence, which is returned; its batches stay."""
        found = await self.find(project, name)
        await self.store.remove(project, name)
        return found

    async def settle(self, project: str, request: GateRequest) -> GateRequest:
        """The request with the baseline and the alpha of its sequence, where it is begun. Raises InvalidRequest where
        it asks for others, or for what no sequence judges."""
        if request.sequence is None:
            return request
        if request.link is not None or request.coverage_only or request.estimate != "judge":
            raise InvalidRequest(Message("sequence-options"), pointer=POINTER)
        if request.test == "unpaired":
            raise InvalidRequest(Message("sequence-unpaired"), pointer=POINTER)
        known = await self.store.find(project, request.sequence)
        if known is None:
            return request
        if request.baseline not in {None, known.baseline}:
            detail = Message("sequence-judged-against", baseline=known.baseline)
            raise InvalidRequest(detail, pointer="/baseline")
        if "alpha" in request.model_fields_set and request.alpha != known.alpha:
            raise InvalidRequest(Message("sequence-begun-with", alpha=known.alpha), pointer="/alpha")
        return request.model_copy(update={"baseline": known.baseline, "alpha": known.alpha})

    async def judge(
        self,
        project: str,
        request: GateRequest,
        report: GateReport,
        *,
        runs: tuple[ComparedRun, ComparedRun | None],
        read: Callable[[str], Awaitable[ComparedRun]],
        compute: Callable[[Callable[[], GateReport]], Awaitable[GateReport]],
    ) -> GateReport:
        """The report of the plain gate, its rules judged again by the sequence; `runs` are candidate and baseline. The
        candidate gets the next place, or keeps its own."""
        if request.sequence is None:
            return report
        candidate, baseline = runs
        before, named = batch_of(request.baseline), batch_of(request.candidate)
        if baseline is None or before is None or named is None:
            raise InvalidRequest(Message("sequence-baseline-missing"), pointer=POINTER)
        if before == named:
            raise InvalidRequest(Message("sequence-baseline-itself"), pointer="/candidate")
        batch = await find_batch(self.batches, project, named)
        if batch.status != "completed":
            raise InvalidRequest(Message("sequence-not-completed", status=batch.status), pointer="/candidate")
        begun = GateSequence(name=request.sequence, baseline=before, alpha=request.alpha, started_at=self.now())
        night = await self.store.enter(project, begun, named, self.now())
        sequence = await self.find(project, request.sequence)
        from saiten_server.comparison.sequence_gate import LOOKS_BACK, judge_in_sequence

        held = [(one.night, one.batch) for one in sequence.builds if one.night < night and one.batch is not None]
        earlier = {place: await read(one) for place, one in held[-LOOKS_BACK:]}
        judged = await compute(
            lambda: judge_in_sequence(report, candidate, baseline, earlier, sequence=sequence, night=night)
        )
        drops = {} if judged.sequence is None else judged.sequence.drops
        await self.store.settle(project, request.sequence, night, judged.verdict, drops)
        return judged
