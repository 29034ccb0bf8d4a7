"""Batches in the provider's own batch mode: their calls go out in files, and their replies come back within a day."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import fsum

from app.batches.attempt import PAUSING
from app.batches.provider_part import PartCourse, PartRefused
from app.batches.provider_plan import LeaseLost, PartLimits, Planner, PlanStep
from app.batches.queue import enqueue
from app.domain.batch import BatchOptions
from app.domain.dialogue import Dialogue
from app.domain.errors import JudgeRefusedRequest, JudgeUnavailable, StoreError, TranslatorUnavailable, UpstreamError
from app.domain.provider_batch import KeptReply, Leftover, ProviderPart
from app.providers.ports import BatchProvider, DeferringJudge, RequestScope, Translated, Translator
from app.runtime.ports import CallCache
from app.runtime.tasks import cancel_for_good
from app.scoring.evaluate import ScoringContext
from app.storage.queue import JobQueue
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.provider_batches import ProviderBatchStore

logger = logging.getLogger("saiten.batches")

AT_ONCE = 20
FOUND_FOR = timedelta(days=3)
"""A provider's batch that may exist is looked for among those of this time; it ends within a day."""


class LeftoverRemoval:
    """Removes leftovers. One that cannot be removed is not tried again for `rest_seconds`."""

    def __init__(self, course: ProviderBatchStore, provider: BatchProvider, *, rest_seconds: float) -> None:
        self._course = course
        self._provider = provider
        self._rest_seconds = rest_seconds

    async def remove(self) -> None:
        """Some of those that are there; stops where the provider fails. Raises the `Store…` errors."""
        for batch_id in await self._course.over(AT_ONCE):
            await self._course.forget(batch_id)
        for leftover in await self._course.leftovers(AT_ONCE, self._rest_seconds):
            try:
                removed = await self._remove(leftover)
            except UpstreamError as error:
                about = {"code": error.code, "kind": leftover.kind}
                logger.warning("a leftover stays at the provider: %s", error.loggable, extra=about)
                await self._course.settle(leftover, removed=False)
                return
            await self._course.settle(leftover, removed=removed)

    async def _remove(self, leftover: Leftover) -> bool:
        """Whether nothing is left of it."""
        match leftover.kind:
            case "file":
                await self._provider.delete_file(leftover.target)
            case "name":
                for file_id in await self._provider.find_uploads(leftover.target):
                    await self._provider.delete_file(file_id)
            case "tags":
                made = await self._provider.find(json.loads(leftover.target), datetime.now(UTC) - FOUND_FOR)
                await self._course.leave([Leftover("batch", made.id)] if made else [])
            case "batch":
                return await self._remove_batch(leftover.target)
        return True

    async def _remove_batch(self, provider_batch_id: str) -> bool:
        """Cancels it, and removes its files once it has ended: until then it may make more of them."""
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
class PlannedTranslator:
    """Fills the port `Translator`. It is not to be closed: the one that it asks is."""

    translator: Translator
    course: ProviderBatchStore
    batch_id: str

    @property
    def engine(self) -> str:
        return self.translator.engine

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        """The translation, mostly out of the call cache, with what was billed for it then. Raises StoreError too."""
        with scope.part() as part:
            translated = await self.translator.translate(dialogue, source_language, part)
        characters = await self.course.take_characters(self.batch_id, part.keys)
        if not characters:
            return translated
        return replace(translated, billed_characters=translated.billed_characters + characters, cached=False)

    async def close(self) -> None:
        return


UNAVAILABLE = "provider-batch-unavailable"
FAILED = "provider-batch-failed"
BUDGET = "budget-exhausted"
ACTIVE = frozenset({"queued", "running"})
RENEWALS = 3
"""Within the time of a lease."""


@dataclass(frozen=True)
class BatchReplies:
    """The replies of one batch: fills `KeptReplies`."""

    course: ProviderBatchStore
    batch_id: str

    async def find(self, key: str) -> KeptReply | None:
        return await self.course.find_reply(self.batch_id, key)


class ProviderRun:
    """Takes batches through the provider's batch mode, step by step. Many may do so, in as many processes.

    `poll_seconds` lies between two polls of a batch's status; a batch whose step died is taken up again after
    `lease_seconds`.
    """

    def __init__(
        self,
        *,
        store: BatchStore,
        queue: JobQueue,
        course: ProviderBatchStore,
        provider: BatchProvider,
        judge: DeferringJudge,
        cache: CallCache,
        instruments: ScoringContext,
        owner: str,
        limits: PartLimits | None = None,
        poll_seconds: float = 60.0,
        lease_seconds: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._queue = queue
        self._course = course
        self._judge = judge
        self._cache = cache
        self._owner = owner
        self._poll_seconds = poll_seconds
        self._lease_seconds = lease_seconds
        self._sleep = sleep
        self._planner = Planner(
            store=store,
            course=course,
            provider=provider,
            judge=judge,
            cache=cache,
            instruments=instruments,
            limits=limits or PartLimits(),
        )
        self._parts = PartCourse(course, provider, self._planner)
        self._leftovers = LeftoverRemoval(course, provider, rest_seconds=poll_seconds)

    def instruments_for(self, batch_id: str, options: BatchOptions, instruments: ScoringContext) -> ScoringContext:
        """The instruments that score the batch once its replies are here."""
        judge = self._judge.answered_by(BatchReplies(self._course, batch_id), options.provider_batch.unanswered)
        translator = instruments.translator and PlannedTranslator(instruments.translator, self._course, batch_id)
        return replace(instruments, judge=judge, translator=translator)

    async def step(self, batch_id: str) -> None:
        """Whatever can be done for the batch now. Does nothing where another step is at it or its time has not come.

        Where somebody has to mend something the batch is paused; what passes by itself waits for a later step. Raises
        the `Store…` errors.
        """
        options = await self._find_active(batch_id)
        if options is None:
            return
        owner = f"{self._owner}/{secrets.token_hex(8)}"
        begun_at = await self._course.lease(batch_id, owner, self._lease_seconds)
        if begun_at is None:
            return
        step, wait_seconds = PlanStep(batch_id, owner, options, begun_at), 0.0
        try:
            async with self._renewing(step):
                wait_seconds = await self._try(step)
        finally:
            await self._course.release(batch_id, owner, wait_seconds)

    async def forget(self, batch_id: str) -> None:
        """To be called before the batch is erased. Does not ask the provider: what stands there is removed by a later
        `tidy`, in whichever process. Raises the `Store…` errors; then it is to be called again."""
        await self._cache.forget(await self._course.calls(batch_id))
        await self._course.forget(batch_id)

    async def cancel(self, batch_id: str) -> None:
        """To be called once the batch is cancelled: its replies are not needed any more."""
        await self._course.forget(batch_id)

    async def tidy(self) -> None:
        """Removes from the provider what is left there of batches that are done, cancelled or erased.

        What cannot be removed now stays for later. Raises the `Store…` errors.
        """
        await self._leftovers.remove()

    async def _find_active(self, batch_id: str) -> BatchOptions | None:
        """The options of a batch that is to be worked on."""
        project = await self._store.project_of(batch_id)
        batch = await self._store.find(project, batch_id) if project is not None else None
        if project is None or batch is None or batch.status not in ACTIVE:
            return None
        return await self._store.options(project, batch_id)

    async def _try(self, step: PlanStep) -> float:
        """Makes the step; returns in how many seconds the next may come."""
        about: dict[str, object] = {"batch_id": step.batch}
        try:
            return await self._advance(step)
        except LeaseLost:
            logger.info("the batch is another's now, or gone", extra=about)
        except PartRefused as refusal:
            await self._store.pause(step.batch, FAILED, refusal.detail)
        except JudgeRefusedRequest as error:
            await self._store.pause(step.batch, FAILED, error.detail)
        except PAUSING as error:
            await self._store.pause(step.batch, error.code, error.detail)
        except (JudgeUnavailable, TranslatorUnavailable) as error:
            logger.info("a batch waits: %s", error.loggable, extra=about | {"code": error.code})
            return error.retry_after_seconds or 0.0
        return 0.0

    async def _advance(self, step: PlanStep) -> float:
        parts = await self._planner.plan(step)
        if not await self._can_afford(step, parts):
            return 0.0
        for part in parts:
            # What a caller pauses or cancels meanwhile is not sent any more.
            if await self._find_active(step.batch) is None:
                return 0.0
            others = [one for one in parts if one.number != part.number]
            parts[part.number] = await self._parts.advance(step, part, others)
        await self.tidy()
        if any(part.state != "done" for part in parts):
            waits = any(part.state == "submitted" for part in parts)
            return self._poll_seconds if waits else 0.0
        await enqueue(self._queue, await self._store.unhold(step.batch))
        return 0.0

    async def _can_afford(self, step: PlanStep, parts: Sequence[ProviderPart]) -> bool:
        """Pauses the batch where all of it together is expected to cost more than its budget, and was not sent yet."""
        budget_usd, costs = step.options.budget_usd, [part.cost_usd for part in parts]
        sent = all(part.state not in {"planned", "uploading"} or part.round for part in parts)
        if budget_usd is None or None in costs or sent:
            return True
        cost_usd = fsum(cost for cost in costs if cost is not None)
        if cost_usd <= budget_usd:
            return True
        detail = f"the provider's batch is expected to cost {cost_usd:.4f} USD, more than the budget of {budget_usd:g}"
        await self._store.pause(step.batch, BUDGET, detail)
        return False

    @asynccontextmanager
    async def _renewing(self, step: PlanStep) -> AsyncIterator[None]:
        """Keeps the lease while the step lasts. A step that loses it all the same finds out at its next write."""
        renewal = asyncio.create_task(self._renew(step))
        try:
            yield
        finally:
            await cancel_for_good([renewal])

    async def _renew(self, step: PlanStep) -> None:
        while True:
            await self._sleep(self._lease_seconds / RENEWALS)
            try:
                await self._course.renew(step.batch, step.owner, self._lease_seconds)
            except StoreError as error:
                logger.warning("a lease waits for the store: %s", error.loggable, extra={"code": error.code})
