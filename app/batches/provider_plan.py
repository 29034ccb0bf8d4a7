"""What a batch in the provider's batch mode asks: every question once, cut into files that the provider takes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO

from app.batches.erasure import forget_calls
from app.domain.batch import BatchOptions, Candidate, Entry, request_of
from app.domain.errors import InvalidRequest, TranslatorRefusedRequest, UpstreamError
from app.domain.evaluation import EvaluationRequest
from app.domain.provider_batch import ProviderPart
from app.domain.redaction import ERASED
from app.domain.rubric import Rubric
from app.providers.ports import (
    PROVIDER_BATCH_SHARE,
    BatchProvider,
    DeferredCall,
    DeferringJudge,
    JudgingTask,
    RequestScope,
)
from app.runtime.ports import CallCache
from app.runtime.tasks import run_together
from app.scoring.case import Case, open_case
from app.scoring.evaluate import ScoringContext
from app.scoring.masked_rejudging import find_masked
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.provider_batches import ProviderBatchStore

PAGE = 40
"""Candidates taken together: they are translated side by side, and what is found of them is kept in one transaction."""


@dataclass(frozen=True)
class PlannedCandidate:
    """A candidate's calls. `noted` are the call cache's keys of its translation, with the characters billed for it."""

    position: int
    calls: list[DeferredCall]
    noted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PartLimits:
    """What one file may hold. OpenAI takes 50,000 requests and 200 MB; a file that is sent again, without a parameter
    that was refused, may be larger than the first."""

    requests: int = 50_000
    bytes: int = 150_000_000


@dataclass(frozen=True)
class PlanStep:
    """One step at work on a batch, and who makes it: `owner` is unique to it."""

    batch: str
    owner: str
    options: BatchOptions
    begun_at: datetime


class LeaseLost(Exception):
    """The batch is another step's now, or is gone: what this one was about to write was refused."""


@dataclass
class PartDraft:
    """A part as it grows: what is not yet kept of it.

    `keys` are those that it asks, `kept` replies out of the call cache, `calls` the cache's keys of translations
    with the characters billed for them.
    """

    part: ProviderPart
    keys: list[str] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def note(self, calls: Mapping[str, int]) -> None:
        """Takes in the keys of a candidate's translation."""
        for key, characters in calls.items():
            self.calls[key] = self.calls.get(key, 0) + characters

    def add(self, asked: PlannedCandidate, size: int) -> None:
        """Takes in a candidate's calls, of `size` bytes together."""
        calls = asked.calls
        costs = [call.cost_usd for call in calls]
        known = self.part.cost_usd is not None and None not in costs
        cost_usd = PROVIDER_BATCH_SHARE * sum(cost for cost in costs if cost is not None)
        self.keys += (call.key for call in calls)
        self.part = replace(
            self.part,
            last=asked.position,
            requests=self.part.requests + len(calls),
            bytes=self.part.bytes + size,
            cost_usd=(self.part.cost_usd or 0.0) + cost_usd if known else None,
        )


@dataclass(kw_only=True, eq=False)
class Planner:
    """Lists a batch's questions, part by part, and writes a part's file when it is to be sent."""

    store: BatchStore
    provider_batches: ProviderBatchStore
    provider: BatchProvider
    judge: DeferringJudge
    cache: CallCache
    instruments: ScoringContext
    limits: PartLimits

    async def plan(self, step: PlanStep) -> list[ProviderPart]:
        """All parts, with every question of the batch in one of them. Goes on where it was interrupted.

        Raises LeaseLost, and the errors of the translator and the rubric source.
        """
        parts = await self.provider_batches.parts(step.batch)
        open_part = parts[-1] if parts and parts[-1].state == "planning" else begin_part(step.batch, parts)
        draft = PartDraft(open_part)
        while page := await self.store.candidates(step.batch, after=draft.part.last, limit=PAGE):
            draft = await self._plan_page(step, draft, page)
        if draft.part.last == draft.part.after:
            return parts
        await self._keep(step, draft, closed=True)
        return await self.provider_batches.parts(step.batch)

    @asynccontextmanager
    async def write_file(self, step: PlanStep, part: ProviderPart) -> AsyncIterator[tuple[IO[bytes], ProviderPart]]:
        """The part's file, for as long as the context lasts, and the part with the parameters that it sends."""
        # It has no name, so that nothing of it is left behind where this process is killed.
        with tempfile.TemporaryFile() as file:
            part = await self._write_calls(step, part, file)
            file.seek(0)
            yield file, part

    async def _write_calls(self, step: PlanStep, part: ProviderPart, file: IO[bytes]) -> ProviderPart:
        written: set[str] = set()
        after = part.after
        while page := await self.store.candidates(step.batch, after=after, limit=PAGE):
            page = [one for one in page if one[0].position <= part.last]
            if not page:
                break
            after = page[-1][0].position
            calls = [call for one in await self._list_calls(step, page, part.conceded) for call in one.calls]
            known = await self.provider_batches.planned(step.batch, [call.key for call in calls])
            for call in calls:
                if known.get(call.key) == part.number and call.key not in written:
                    written.add(call.key)
                    part = replace(part, parameters=call.parameters)
                    file.write(self.provider.line(call))
        return part

    async def _plan_page(self, step: PlanStep, draft: PartDraft, page: Sequence[tuple[Entry, Candidate]]) -> PartDraft:
        for one in await self._sift(step, draft, await self._translate(step, draft, page)):
            size = sum(len(self.provider.line(call)) for call in one.calls)
            if self._is_full(draft.part, len(one.calls), size):
                await self._keep(step, draft, closed=True)
                draft = PartDraft(begin_part(step.batch, [draft.part]))
            draft.add(one, size)
        await self._keep(step, draft, closed=False)
        return PartDraft(draft.part)

    async def _translate(
        self, step: PlanStep, draft: PartDraft, page: Sequence[tuple[Entry, Candidate]]
    ) -> list[PlannedCandidate]:
        """The page's calls. What was translated for them is noted, also where it then fails."""
        scope = RequestScope()
        try:
            asked = await self._list_calls(step, page, draft.part.conceded, scope)
        except UpstreamError:
            draft.note(dict.fromkeys(scope.keys, 0))
            await self._keep(step, draft, closed=False)
            raise
        for one in asked:
            draft.note(one.noted)
        return asked

    def _is_full(self, part: ProviderPart, requests: int, size: int) -> bool:
        over = part.requests + requests > self.limits.requests or part.bytes + size > self.limits.bytes
        return over and part.requests > 0

    async def _sift(
        self, step: PlanStep, draft: PartDraft, asked: Sequence[PlannedCandidate]
    ) -> list[PlannedCandidate]:
        """The same with those calls alone that are to be made. Replies out of the call cache go into the draft."""
        known = set(await self.provider_batches.planned(step.batch, [call.key for one in asked for call in one.calls]))
        sifted: list[PlannedCandidate] = []
        for one in asked:
            fresh = []
            for call in one.calls:
                if call.key in known:
                    continue
                known.add(call.key)
                cached = await self.cache.get(call.key)
                if cached is not None and call.accept(cached):
                    draft.kept[call.key] = cached
                else:
                    fresh.append(call)
            sifted.append(replace(one, calls=fresh))
        return sifted

    async def _keep(self, step: PlanStep, draft: PartDraft, *, closed: bool) -> None:
        part = draft.part
        if closed:
            part = replace(part, state="planned" if part.requests else "done")
        if not await self.provider_batches.plan(step.owner, part, draft.keys, draft.kept, draft.calls):
            # The batch may be erased, and then these are recorded nowhere else.
            await forget_calls(self.store, self.cache, draft.calls)
            raise LeaseLost

    async def _list_calls(
        self,
        step: PlanStep,
        page: Sequence[tuple[Entry, Candidate]],
        conceded: tuple[str, ...],
        scope: RequestScope | None = None,
    ) -> list[PlannedCandidate]:
        scope = scope or RequestScope()
        return await run_together(*(self._open(step.options, *one, conceded, scope) for one in page))

    async def _open(
        self, options: BatchOptions, entry: Entry, candidate: Candidate, conceded: tuple[str, ...], scope: RequestScope
    ) -> PlannedCandidate:
        """The candidate's calls; none where it cannot be judged at all, which its own run is to tell."""
        if candidate.response == ERASED:
            return PlannedCandidate(entry.position, [])
        rubric, request = self.instruments.rubrics.get(options.rubric), request_of(options, candidate)
        # Building prompts takes no outside time of its own: others get their turn here.
        await asyncio.sleep(0)
        with scope.part() as part:
            return await self._ask(request, rubric, entry, conceded, part)

    async def _ask(
        self, request: EvaluationRequest, rubric: Rubric, entry: Entry, conceded: tuple[str, ...], scope: RequestScope
    ) -> PlannedCandidate:
        try:
            case = await open_case(request, rubric, self.instruments.translator, scope, batch=True)
            calls = [call for task in await tasks_of(case) for call in self.judge.defer(task, conceded)]
        except (InvalidRequest, TranslatorRefusedRequest):
            # One that is refused for its translation was translated all the same.
            return PlannedCandidate(entry.position, [], dict.fromkeys(scope.keys, 0))
        noted = dict.fromkeys(scope.keys, 0)
        if noted and case.translated is not None:
            noted[next(iter(noted))] = case.translated.billed_characters
        return PlannedCandidate(entry.position, calls, noted)


async def tasks_of(case: Case) -> list[JudgingTask]:
    """Everything that the judge is to be asked: on each path, and without suspicious spans where that is wanted."""
    tasks = [case.task(path, "batch") for path in case.dialogues]
    if case.request.integrity == "judge-twice":
        look = await find_masked(case)
        tasks += [look.task(case, "batch")] if look else []
    return tasks


def begin_part(batch_id: str, parts: Sequence[ProviderPart]) -> ProviderPart:
    """The part after the last of these."""
    if not parts:
        return ProviderPart(batch_id, 0, "planning", after=-1, last=-1)
    return ProviderPart(batch_id, parts[-1].number + 1, "planning", after=parts[-1].last, last=parts[-1].last)
