"""Runs batches in the provider's own batch mode: calls are sent as files, and replies come back within a day.

Each step continues from what the store holds, so a process that dies anywhere loses nothing. `Planner` cuts a batch's
questions into parts, one file each, `PartRun` takes one part to its answers, and `ProviderRun` a whole batch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import fsum
from typing import IO

from saiten.core.messages import Message
from saiten_server.core.batch import AnyRequest, BatchOptions, Candidate, Entry, any_request_of, request_of
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.errors import (
    InvalidRequest,
    JudgeRefusedRequest,
    JudgeUnavailable,
    StoreError,
    TranslatorRefusedRequest,
    TranslatorUnavailable,
    UpstreamError,
)
from saiten_server.core.evaluation import PreferenceRequest
from saiten_server.core.redaction import ERASED
from saiten_server.core.rubric import Rubric
from saiten_server.platform.helpers import work_through
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.tasks import cancel_for_good, run_together
from saiten_server.providers.ports import (
    PROVIDER_BATCH_SHARE,
    BatchProvider,
    DeferredCall,
    DeferringJudge,
    JudgingTask,
    KeptReply,
    Leftover,
    ProviderAnswer,
    ProviderBatch,
    ProviderPart,
    RequestScope,
    Translated,
    Translator,
)
from saiten_server.runs.attempt import PAUSING
from saiten_server.runs.commits import enqueue, forget_calls
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.provider_batches import ProviderBatchStore
from saiten_server.runs.work import JobQueue
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.masked_rejudging import find_masked
from saiten_server.scoring.preferring import open_texts
from saiten_server.scoring.subject import Subject, open_subject

logger = logging.getLogger("saiten.batches")

CANDIDATES_TOGETHER = 40
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
    """A part as it grows: what is not yet kept of it. `keys` are those that it asks, `kept` replies out of the call
    cache, `calls` the cache's keys of translations with the characters billed for them."""

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
        """All parts, with every question of the batch in one of them. Goes on where it was interrupted. Raises
        LeaseLost, and the errors of the translator and the rubric source."""
        parts = await self.provider_batches.parts(step.batch)
        open_part = parts[-1] if parts and parts[-1].state == "planning" else begin_part(step.batch, parts)
        draft = PartDraft(open_part)
        while page := await self.store.candidates(step.batch, after=draft.part.last, limit=CANDIDATES_TOGETHER):
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
        while page := await self.store.candidates(step.batch, after=after, limit=CANDIDATES_TOGETHER):
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
            part = draft.part
            over = part.requests + len(one.calls) > self.limits.requests or part.bytes + size > self.limits.bytes
            if over and part.requests > 0:
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
        options, whole = step.options, scope or RequestScope()

        async def ask(entry: Entry, candidate: Candidate) -> PlannedCandidate:
            """The candidate's calls; none where it cannot be judged at all, which its own run is to tell."""
            if candidate.response == ERASED:
                return PlannedCandidate(entry.position, [])
            rubric = self.instruments.rubrics.get(options.rubric)
            if candidate.pair is not None:
                return await self._ask_pair(entry, any_request_of(options, candidate), rubric, conceded, whole)
            request = request_of(options, candidate)
            # Building prompts takes no outside time of its own: others get their turn here.
            await asyncio.sleep(0)
            with whole.part() as part:
                try:
                    case = await open_subject(request, rubric, self.instruments.translator, part, batch=True)
                    calls = []
                    for task in await tasks_of(case):
                        calls += await work_through(task.characters, partial(self.judge.defer, task, conceded))
                except (InvalidRequest, TranslatorRefusedRequest):
                    # One that is refused for its translation was translated all the same.
                    return PlannedCandidate(entry.position, [], dict.fromkeys(part.keys, 0))
                noted = dict.fromkeys(part.keys, 0)
            if noted and case.translated is not None:
                noted[next(iter(noted))] = case.translated.billed_characters
            return PlannedCandidate(entry.position, calls, noted)

        return await run_together(*(ask(*one) for one in page))

    async def _ask_pair(
        self, entry: Entry, request: AnyRequest, rubric: Rubric, conceded: tuple[str, ...], whole: RequestScope
    ) -> PlannedCandidate:
        """The calls about two that are compared; none where they cannot be."""
        await asyncio.sleep(0)
        if not isinstance(request, PreferenceRequest):
            return PlannedCandidate(entry.position, [])
        with whole.part() as part:
            try:
                own = self.instruments
                case = await open_texts(request, rubric, own.translator, own.window_tokens, part)
                calls = []
                for task in case.tasks("batch"):
                    calls += await work_through(task.characters, partial(self.judge.defer, task, conceded))
            except (InvalidRequest, TranslatorRefusedRequest):
                return PlannedCandidate(entry.position, [], dict.fromkeys(part.keys, 0))
            noted = dict.fromkeys(part.keys, 0)
        if noted and case.translated is not None:
            noted[next(iter(noted))] = sum(found.billed_characters for found in case.translated.values())
        return PlannedCandidate(entry.position, calls, noted)


async def tasks_of(case: Subject) -> list[JudgingTask]:
    """Everything that the judge is to be asked: on each path, and without suspicious spans where that is wanted."""
    tasks = [case.task(path, "batch") for path in case.dialogues]
    if case.request.integrity == "judge-twice":
        look = await find_masked(case)
        tasks += [replace(look[1], lane="batch")] if look else []
    return tasks


def begin_part(batch_id: str, parts: Sequence[ProviderPart]) -> ProviderPart:
    """The part after the last of these."""
    if not parts:
        return ProviderPart(batch_id, 0, "planning", after=-1, last=-1)
    return ProviderPart(batch_id, parts[-1].number + 1, "planning", after=parts[-1].last, last=parts[-1].last)


UNAVAILABLE = "provider-batch-unavailable"
FAILED = "provider-batch-failed"
BUDGET = "budget-exhausted"

RENEWALS = 3  # renewals of a lease within its duration
LEFTOVERS_AT_ONCE = 20

FOUND_FOR = timedelta(days=3)
"""How far back a provider's batch that may exist is searched for. A batch ends within a day."""

ANSWERS_AT_ONCE = 100  # answers stored in one transaction
CLOCK_SKEW = timedelta(hours=1)  # the largest assumed difference between the provider's clock and ours


@dataclass(kw_only=True, eq=False)
class ProviderRun:
    """Takes batches through the provider's batch mode, step by step. Any number of processes may do so. `poll_seconds`
    is the time between two status checks of a batch. A batch whose step died is resumed by another process after
    `lease_seconds`. Where the provider asks for a pause, the next call comes after `longest_pause_seconds` at the
    latest."""

    store: BatchStore
    queue: JobQueue
    provider_batches: ProviderBatchStore
    provider: BatchProvider
    judge: DeferringJudge
    cache: CallCache
    instruments: ScoringContext
    owner: str
    limits: PartLimits = field(default_factory=PartLimits)
    poll_seconds: float = 60.0
    lease_seconds: float = 60.0
    longest_pause_seconds: float = 600.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._planner = Planner(
            store=self.store,
            provider_batches=self.provider_batches,
            provider=self.provider,
            judge=self.judge,
            cache=self.cache,
            instruments=self.instruments,
            limits=self.limits,
        )
        self._parts = PartRun(self.provider_batches, self.provider, self._planner)

    def instruments_for(self, batch_id: str, options: BatchOptions, instruments: ScoringContext) -> ScoringContext:
        """The instruments that score the batch once its replies are stored."""
        judge = self.judge.answered_by(BatchReplies(self.provider_batches, batch_id), options.provider_batch.unanswered)
        translator = instruments.translator and PlannedTranslator(
            instruments.translator, self.provider_batches, batch_id
        )
        return replace(instruments, judge=judge, translator=translator)

    async def step(self, batch_id: str) -> None:
        """Does whatever can be done for the batch now. Does nothing while another step works on it or its time has not
        come. Pauses the batch where a person has to act; a temporary failure waits for a later step. Raises the
        `Store…` errors."""
        options = await self.store.active_options(batch_id)
        if options is None:
            return
        owner = f"{self.owner}/{secrets.token_hex(8)}"
        begun_at = await self.provider_batches.lease(batch_id, owner, self.lease_seconds)
        if begun_at is None:
            return
        step, wait_seconds = PlanStep(batch_id, owner, options, begun_at), 0.0
        try:
            async with self._renewing(step):
                wait_seconds = await self._try(step)
        finally:
            await self.provider_batches.release(batch_id, owner, wait_seconds)

    async def forget(self, batch_id: str) -> None:
        """To be called before the batch is erased. Makes no call to the provider: a later `tidy`, in any process,
        removes what remains there. Raises the `Store…` errors; then it has to be called again."""
        await self.cache.forget(await self.provider_batches.calls(batch_id))
        await self.provider_batches.forget(batch_id)

    async def cancel(self, batch_id: str) -> None:
        """To be called once the batch is cancelled, when its replies are not needed any more."""
        await self.provider_batches.forget(batch_id)

    async def tidy(self) -> None:
        """Removes from the provider some of what remains of batches that are completed, cancelled or erased. Stops
        where the provider fails. What cannot be removed is not tried again for `poll_seconds`. Raises the `Store…`
        errors."""
        for batch_id in await self.provider_batches.over(LEFTOVERS_AT_ONCE):
            await self.provider_batches.forget(batch_id)
        for leftover in await self.provider_batches.leftovers(LEFTOVERS_AT_ONCE, self.poll_seconds):
            try:
                removed = await self._remove(leftover)
            except UpstreamError as error:
                about = {"code": error.code, "kind": leftover.kind}
                logger.warning("a leftover stays at the provider: %s", error.loggable, extra=about)
                await self.provider_batches.settle(leftover, removed=False)
                return
            await self.provider_batches.settle(leftover, removed=removed)

    async def _remove(self, leftover: Leftover) -> bool:
        """Whether nothing of it remains."""
        match leftover.kind:
            case "file":
                await self.provider.delete_file(leftover.target)
            case "name":
                for file_id in await self.provider.find_uploads(leftover.target):
                    await self.provider.delete_file(file_id)
            case "tags":
                made = await self.provider.find(json.loads(leftover.target), datetime.now(UTC) - FOUND_FOR)
                await self.provider_batches.leave([Leftover("batch", made.id)] if made else [])
            case "batch":
                return await self._remove_batch(leftover.target)
        return True

    async def _remove_batch(self, provider_batch_id: str) -> bool:
        """Cancels the batch, and removes its files once it has ended: until then it may create more."""
        found = await self.provider.retrieve(provider_batch_id)
        if found is None:
            return True
        if not found.ended and found.failure is None:
            await self.provider.cancel(provider_batch_id)
            return False
        for file_id in filter(None, (found.file_id, found.output_file_id, found.error_file_id)):
            await self.provider.delete_file(file_id)
        return True

    async def _try(self, step: PlanStep) -> float:
        """Makes the step; returns in how many seconds the next one may be made."""
        about: dict[str, object] = {"batch_id": step.batch}
        try:
            return await self._advance(step)
        except LeaseLost:
            logger.info("another step has the batch, or it is erased", extra=about)
        except (PartRefused, JudgeRefusedRequest) as refusal:
            await self.store.pause(step.batch, FAILED, refusal.message)
        except PAUSING as error:
            await self.store.pause(step.batch, error.code, error.message)
        except (JudgeUnavailable, TranslatorUnavailable) as error:
            logger.info("a batch waits: %s", error.loggable, extra=about | {"code": error.code})
            asked: float = error.retry_after_seconds or 0.0
            return min(self.longest_pause_seconds, asked)
        return 0.0

    async def _advance(self, step: PlanStep) -> float:
        parts = await self._planner.plan(step)
        if not await self._can_afford(step, parts):
            return 0.0
        for part in parts:
            # Once a caller has paused or cancelled the batch, no more parts are sent.
            if await self.store.active_options(step.batch) is None:
                return 0.0
            others = [one for one in parts if one.number != part.number]
            parts[part.number] = await self._parts.advance(step, part, others)
        await self.tidy()
        if any(part.state != "done" for part in parts):
            waits = any(part.state == "submitted" for part in parts)
            return self.poll_seconds if waits else 0.0
        await enqueue(self.queue, await self.store.release_held_chunks(step.batch))
        return 0.0

    async def _can_afford(self, step: PlanStep, parts: Sequence[ProviderPart]) -> bool:
        """Pauses a batch that was not sent yet where it is expected to cost more than its budget."""
        budget_usd, costs = step.options.budget_usd, [part.cost_usd for part in parts]
        sent = all(part.state not in {"planned", "uploading"} or part.round for part in parts)
        if budget_usd is None or None in costs or sent:
            return True
        cost_usd = fsum(cost for cost in costs if cost is not None)
        if cost_usd <= budget_usd:
            return True
        detail = Message("pause-provider-budget", cost=cost_usd, budget=budget_usd)
        await self.store.pause(step.batch, BUDGET, detail)
        return False

    @asynccontextmanager
    async def _renewing(self, step: PlanStep) -> AsyncIterator[None]:
        """Renews the lease while the step lasts. A step that loses its lease all the same learns of it at its next
        write."""

        async def renew() -> None:
            while True:
                await self.sleep(self.lease_seconds / RENEWALS)
                try:
                    await self.provider_batches.renew(step.batch, step.owner, self.lease_seconds)
                except StoreError as error:
                    logger.warning("a lease waits for the store: %s", error.loggable, extra={"code": error.code})

        renewal = asyncio.create_task(renew())
        try:
            yield
        finally:
            await cancel_for_good([renewal])


@dataclass(frozen=True)
class BatchReplies:
    """The stored replies of one batch. Implements `KeptReplies`."""

    provider_batches: ProviderBatchStore
    batch_id: str

    async def find(self, key: str) -> KeptReply | None:
        return await self.provider_batches.find_reply(self.batch_id, key)


@dataclass(frozen=True)
class PlannedTranslator:
    """The translator of a batch whose texts were translated when it was planned. Implements `Translator`; closing it
    does not close `translator`."""

    translator: Translator
    provider_batches: ProviderBatchStore
    batch_id: str

    @property
    def engine(self) -> str:
        return self.translator.engine

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        """The translation, usually from the call cache, with the characters billed when the batch was planned. Also
        raises StoreError."""
        with scope.part() as part:
            translated = await self.translator.translate(dialogue, source_language, part)
        characters = await self.provider_batches.take_characters(self.batch_id, part.keys)
        if not characters:
            return translated
        return replace(translated, billed_characters=translated.billed_characters + characters, cached=False)

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class PartRefused(Exception):
    """The provider refuses the part, and a person has to act, as `message` says."""

    message: Message


@dataclass
class Harvest:
    """What a part's files contain: the number of replies, and the failed calls by the parameter they were refused for.
    `group` are replies that are not stored yet."""

    replies: int = 0
    refused: Counter[str | None] = field(default_factory=Counter)
    group: dict[str, bytes] = field(default_factory=dict)

    def add(self, answer: ProviderAnswer) -> None:
        """Takes in one line."""
        if answer.entry is None:
            self.refused[answer.refused] += 1
        else:
            self.replies += 1
            self.group.setdefault(answer.key, answer.entry)

    def find_refused(self, requests: int) -> str | None:
        """The most frequently refused parameter, if each of the part's requests was refused for one; otherwise None."""
        if self.replies or self.refused.total() != requests or None in self.refused:
            return None
        return next((name for name, _ in self.refused.most_common(1)), None)


class PartRun:
    """Takes one part from its file to its answers. A part that was interrupted anywhere continues from its stored
    state."""

    def __init__(self, provider_batches: ProviderBatchStore, provider: BatchProvider, planner: Planner) -> None:
        self._provider_batches = provider_batches
        self._provider = provider
        self._planner = planner

    async def advance(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        """The part after everything that can be done for it now. Raises LeaseLost, PartRefused and the `Judge…`
        errors."""
        if part.state == "submitted":
            part = await self._check_status(step, part, others)
        if part.state == "ended":
            part = await self._collect(step, part)
        if part.alone and any(other.state == "submitted" for other in others):
            return part
        if part.state in {"planned", "uploading"}:
            part = await self._upload(step, part, others)
        return await self._submit(step, part) if part.state == "uploaded" else part

    async def _upload(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        if part.state == "uploading":
            # A step was interrupted here, and the id of what it may have uploaded is lost.
            for file_id in await self._provider.find_uploads(part.file_name):
                await self._provider.delete_file(file_id)
        # A parameter that was refused for one part is left out of all.
        conceded = max((one.conceded for one in [part, *others]), key=len)
        part = await self._save(step, replace(part, state="uploading", conceded=conceded))
        async with self._planner.write_file(step, part) as (file, written):
            file_id = await self._provider.upload(file, part.file_name)
        uploaded = replace(written, state="uploaded", file_id=file_id)
        return await self._save(step, uploaded, on_loss=Leftover("file", file_id))

    async def _submit(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """Creates the provider's batch, unless an interrupted step has created it."""
        found = await self._provider.find(part.tags, since=step.begun_at - CLOCK_SKEW)
        if found is None:
            # Checks the lease immediately before: what is created now is paid for.
            await self._save(step, part)
            try:
                provider_batch_id = await self._provider.create(str(part.file_id), part.tags)
            except JudgeRefusedRequest as error:
                # The file may be at fault, or may have expired: the next try uploads its own.
                await self._restart(step, part)
                raise PartRefused(error.message) from error
        else:
            provider_batch_id = found.id
        logger.info("a part is with the provider", extra=trace(part))
        submitted = replace(part, state="submitted", provider_batch_id=provider_batch_id)
        return await self._save(step, submitted, on_loss=Leftover("batch", provider_batch_id))

    async def _check_status(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        found = await self._provider.retrieve(str(part.provider_batch_id))
        if found is None:
            await self._restart(step, part)
            raise PartRefused(Message("pause-provider-lost"))
        if found.failure is not None:
            return await self._handle_failure(step, part, others, found)
        if not found.ended:
            return part
        ended = replace(part, state="ended", output_file_id=found.output_file_id, error_file_id=found.error_file_id)
        return await self._save(step, ended)

    async def _handle_failure(
        self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart], found: ProviderBatch
    ) -> ProviderPart:
        """The provider began none of the calls. If only too many were waiting, the part is sent again once the other
        parts are done."""
        failed = replace(part, error_file_id=found.error_file_id, alone=part.alone or found.over_limit)
        part = await self._restart(step, failed)
        if found.over_limit and any(other.state == "submitted" for other in others):
            logger.info("a part waits for the others", extra=trace(part))
            return part
        raise PartRefused(Message("pause-provider-not-begun", words=found.failure))

    async def _collect(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """Stores the answers; sends the part again without a parameter that every call was refused for."""
        harvest = await self._fetch(part)
        if (refused := harvest.find_refused(part.requests)) is not None:
            logger.info("a part is asked again without %s", refused, extra=trace(part))
            return await self._restart(step, replace(part, conceded=self._provider.concede(part.conceded, refused)))
        about = {**trace(part), "answered": harvest.replies, "asked": part.requests}
        logger.info("a part's answers are kept", extra=about)
        return await self._save(step, replace(part, state="done"), list_leftovers(part))

    async def _fetch(self, part: ProviderPart) -> Harvest:
        """Stores every answer, in groups. After an interrupted step all answers are fetched again, without effect."""
        harvest = Harvest()
        for file_id in filter(None, (part.output_file_id, part.error_file_id)):
            async for answer in self._provider.answers(file_id, part):
                harvest.add(answer)
                if len(harvest.group) >= ANSWERS_AT_ONCE:
                    await self._provider_batches.keep(part.batch, harvest.group)
                    harvest.group = {}
        await self._provider_batches.keep(part.batch, harvest.group)
        return harvest

    async def _restart(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """The part as it was before it was sent, to be sent in another round. Its files become leftovers."""
        unsent = replace(part, file_id=None, provider_batch_id=None, output_file_id=None, error_file_id=None)
        return await self._save(step, replace(unsent, state="planned", round=part.round + 1), list_leftovers(part))

    async def _save(
        self, step: PlanStep, part: ProviderPart, leftovers: Sequence[Leftover] = (), *, on_loss: Leftover | None = None
    ) -> ProviderPart:
        """Stores the part. If the lease is lost, `on_loss`, which was just created at the provider, becomes a leftover.
        Raises LeaseLost."""
        if await self._provider_batches.save(step.owner, part, leftovers):
            return part
        if on_loss is not None:
            await self._provider_batches.leave([on_loss])
        raise LeaseLost


def list_leftovers(part: ProviderPart) -> list[Leftover]:
    """A part's files at the provider."""
    return [Leftover("file", one) for one in (part.file_id, part.output_file_id, part.error_file_id) if one]


def trace(part: ProviderPart) -> dict[str, object]:
    """What a log record contains of a part: ids, and no text."""
    return {"batch_id": part.batch, "part": part.number, "provider_batch_id": part.provider_batch_id}
