"""Runs batches in the provider's own batch mode: calls are sent as files, and replies come back within a day.

Each step continues from what the store holds, so a process that dies anywhere loses nothing. `ProviderRun` steps a
whole batch, `PartRun` one part of it (one file), and `LeftoverRemoval` removes what remains at the provider.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import fsum

from app.batches.attempt import PAUSING
from app.batches.provider_plan import LeaseLost, PartLimits, Planner, PlanStep
from app.batches.queue import enqueue
from app.domain.batch import BatchOptions
from app.domain.dialogue import Dialogue
from app.domain.errors import JudgeRefusedRequest, JudgeUnavailable, StoreError, TranslatorUnavailable, UpstreamError
from app.domain.provider_batch import KeptReply, Leftover, ProviderPart
from app.providers.ports import (
    BatchProvider,
    DeferringJudge,
    ProviderAnswer,
    ProviderBatch,
    RequestScope,
    Translated,
    Translator,
)
from app.runtime.ports import CallCache
from app.runtime.tasks import cancel_for_good
from app.scoring.evaluate import ScoringContext
from app.storage.queue import JobQueue
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.provider_batches import ProviderBatchStore

logger = logging.getLogger("saiten.batches")

UNAVAILABLE = "provider-batch-unavailable"
FAILED = "provider-batch-failed"
BUDGET = "budget-exhausted"
ACTIVE = frozenset({"queued", "running"})

RENEWALS = 3
"""Renewals of a lease within its duration."""

LEFTOVERS_AT_ONCE = 20

FOUND_FOR = timedelta(days=3)
"""How far back a provider's batch that may exist is searched for. A batch ends within a day."""

ANSWERS_AT_ONCE = 100
"""Answers stored in one transaction."""

CLOCK_SKEW = timedelta(hours=1)
"""The largest assumed difference between the provider's clock and ours."""


@dataclass(kw_only=True, eq=False)
class ProviderRun:
    """Takes batches through the provider's batch mode, step by step. Any number of processes may do so.

    `poll_seconds` is the time between two status checks of a batch. A batch whose step died is resumed by another
    process after `lease_seconds`.
    """

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
        self._leftovers = LeftoverRemoval(self.provider_batches, self.provider, rest_seconds=self.poll_seconds)

    def instruments_for(self, batch_id: str, options: BatchOptions, instruments: ScoringContext) -> ScoringContext:
        """The instruments that score the batch once its replies are stored."""
        judge = self.judge.answered_by(BatchReplies(self.provider_batches, batch_id), options.provider_batch.unanswered)
        translator = instruments.translator and PlannedTranslator(
            instruments.translator, self.provider_batches, batch_id
        )
        return replace(instruments, judge=judge, translator=translator)

    async def step(self, batch_id: str) -> None:
        """Does whatever can be done for the batch now. Does nothing while another step works on it or its time has not
        come.

        Pauses the batch where a person has to act; a temporary failure waits for a later step. Raises the `Store…`
        errors.
        """
        options = await self._find_active(batch_id)
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
        """Removes from the provider what remains of batches that are completed, cancelled or erased.

        What cannot be removed now is tried again later. Raises the `Store…` errors.
        """
        await self._leftovers.remove()

    async def _find_active(self, batch_id: str) -> BatchOptions | None:
        """The options of the batch; None where it is not to be worked on."""
        project = await self.store.project_of(batch_id)
        batch = await self.store.find(project, batch_id) if project is not None else None
        if project is None or batch is None or batch.status not in ACTIVE:
            return None
        return await self.store.options(project, batch_id)

    async def _try(self, step: PlanStep) -> float:
        """Makes the step; returns in how many seconds the next one may be made."""
        about: dict[str, object] = {"batch_id": step.batch}
        try:
            return await self._advance(step)
        except LeaseLost:
            logger.info("another step has the batch, or it is erased", extra=about)
        except (PartRefused, JudgeRefusedRequest) as refusal:
            await self.store.pause(step.batch, FAILED, refusal.detail)
        except PAUSING as error:
            await self.store.pause(step.batch, error.code, error.detail)
        except (JudgeUnavailable, TranslatorUnavailable) as error:
            logger.info("a batch waits: %s", error.loggable, extra=about | {"code": error.code})
            return error.retry_after_seconds or 0.0
        return 0.0

    async def _advance(self, step: PlanStep) -> float:
        parts = await self._planner.plan(step)
        if not await self._can_afford(step, parts):
            return 0.0
        for part in parts:
            # Once a caller has paused or cancelled the batch, no more parts are sent.
            if await self._find_active(step.batch) is None:
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
        detail = f"the provider's batch is expected to cost {cost_usd:.4f} USD, more than the budget of {budget_usd:g}"
        await self.store.pause(step.batch, BUDGET, detail)
        return False

    @asynccontextmanager
    async def _renewing(self, step: PlanStep) -> AsyncIterator[None]:
        """Renews the lease while the step lasts. A step that loses its lease all the same learns of it at its next
        write."""
        renewal = asyncio.create_task(self._renew(step))
        try:
            yield
        finally:
            await cancel_for_good([renewal])

    async def _renew(self, step: PlanStep) -> None:
        while True:
            await self.sleep(self.lease_seconds / RENEWALS)
            try:
                await self.provider_batches.renew(step.batch, step.owner, self.lease_seconds)
            except StoreError as error:
                logger.warning("a lease waits for the store: %s", error.loggable, extra={"code": error.code})


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


class LeftoverRemoval:
    """Removes leftovers from the provider. One that cannot be removed is not tried again for `rest_seconds`."""

    def __init__(self, provider_batches: ProviderBatchStore, provider: BatchProvider, *, rest_seconds: float) -> None:
        self._provider_batches = provider_batches
        self._provider = provider
        self._rest_seconds = rest_seconds

    async def remove(self) -> None:
        """Removes some leftovers; stops where the provider fails. Raises the `Store…` errors."""
        for batch_id in await self._provider_batches.over(LEFTOVERS_AT_ONCE):
            await self._provider_batches.forget(batch_id)
        for leftover in await self._provider_batches.leftovers(LEFTOVERS_AT_ONCE, self._rest_seconds):
            try:
                removed = await self._remove(leftover)
            except UpstreamError as error:
                about = {"code": error.code, "kind": leftover.kind}
                logger.warning("a leftover stays at the provider: %s", error.loggable, extra=about)
                await self._provider_batches.settle(leftover, removed=False)
                return
            await self._provider_batches.settle(leftover, removed=removed)

    async def _remove(self, leftover: Leftover) -> bool:
        """Whether nothing of it remains."""
        match leftover.kind:
            case "file":
                await self._provider.delete_file(leftover.target)
            case "name":
                for file_id in await self._provider.find_uploads(leftover.target):
                    await self._provider.delete_file(file_id)
            case "tags":
                made = await self._provider.find(json.loads(leftover.target), datetime.now(UTC) - FOUND_FOR)
                await self._provider_batches.leave([Leftover("batch", made.id)] if made else [])
            case "batch":
                return await self._remove_batch(leftover.target)
        return True

    async def _remove_batch(self, provider_batch_id: str) -> bool:
        """Cancels the batch, and removes its files once it has ended: until then it may create more."""
        found = await self._provider.retrieve(provider_batch_id)
        if found is None:
            return True
        if not found.ended and found.failure is None:
            await self._provider.cancel(provider_batch_id)
            return False
        for file_id in filter(None, (found.file_id, found.output_file_id, found.error_file_id)):
            await self._provider.delete_file(file_id)
        return True


@dataclass(frozen=True)
class PartRefused(Exception):
    """The provider refuses the part, and a person has to act. `detail` is one sentence."""

    detail: str


@dataclass
class Harvest:
    """What a part's files contain: the number of replies, and the failed calls by the parameter they were refused for.

    `group` are replies that are not stored yet.
    """

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
            provider_batch_id = await self._create(step, part)
        else:
            provider_batch_id = found.id
        logger.info("a part is with the provider", extra=trace(part))
        submitted = replace(part, state="submitted", provider_batch_id=provider_batch_id)
        return await self._save(step, submitted, on_loss=Leftover("batch", provider_batch_id))

    async def _create(self, step: PlanStep, part: ProviderPart) -> str:
        try:
            return await self._provider.create(str(part.file_id), part.tags)
        except JudgeRefusedRequest as error:
            # The file may be at fault, or may have expired: the next try uploads its own.
            await self._restart(step, part)
            raise PartRefused(error.detail) from error

    async def _check_status(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        found = await self._provider.retrieve(str(part.provider_batch_id))
        if found is None:
            await self._restart(step, part)
            raise PartRefused("the provider does not know this batch any more")
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
        raise PartRefused(f"the provider did not begin the batch: {found.failure}")

    async def _collect(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """Stores the answers; sends the part again without a parameter that every call was refused for."""
        harvest = await self._fetch(part)
        if (refused := harvest.find_refused(part.requests)) is not None:
            logger.info("a part is asked again without %s", refused, extra=trace(part))
            return await self._restart(step, replace(part, conceded=self._provider.concede(part.conceded, refused)))
        about = {**trace(part), "answered": harvest.replies, "asked": part.requests}
        logger.info("a part's answers are kept", extra=about)
        return await self._save(step, replace(part, state="done"), list_files(part))

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
        planned = replace(
            part,
            state="planned",
            round=part.round + 1,
            file_id=None,
            provider_batch_id=None,
            output_file_id=None,
            error_file_id=None,
        )
        return await self._save(step, planned, list_files(part))

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


def list_files(part: ProviderPart) -> list[Leftover]:
    """A part's files at the provider."""
    return [Leftover("file", one) for one in (part.file_id, part.output_file_id, part.error_file_id) if one]


def trace(part: ProviderPart) -> dict[str, object]:
    """What a log record contains of a part: ids, and no text."""
    return {"batch_id": part.batch, "part": part.number, "provider_batch_id": part.provider_batch_id}
