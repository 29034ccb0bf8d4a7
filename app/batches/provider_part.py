"""One part of a batch in the provider's batch mode, from its file to its answers. Each step of it may be its last."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from app.batches.provider_plan import LeaseLost, Planner, PlanStep
from app.domain.errors import JudgeRefusedRequest
from app.domain.provider_batch import Leftover, ProviderPart
from app.providers.ports import BatchProvider, ProviderAnswer, ProviderBatch
from app.storage.sql.provider_batches import ProviderBatchStore

logger = logging.getLogger("saiten.batches")

ANSWERS = 100
"""Kept in one transaction."""

CLOCK_SKEW = timedelta(hours=1)
"""By how much the provider's clock may differ from ours."""


@dataclass(frozen=True)
class PartRefused(Exception):
    """The provider does not take the part; in one sentence. Somebody is to mend that."""

    detail: str


@dataclass
class Harvest:
    """What a part's files held: how many replies, and the calls that failed by the parameter they were refused for.

    `group` are replies that are still to be kept.
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
        """The parameter, where each of so many calls was refused for one; None otherwise."""
        if self.replies or self.refused.total() != requests or None in self.refused:
            return None
        return next((name for name, _ in self.refused.most_common(1)), None)


class PartCourse:
    """Takes parts one step further. A part that was cut short anywhere is taken up from what is known of it."""

    def __init__(self, course: ProviderBatchStore, provider: BatchProvider, planner: Planner) -> None:
        self._course = course
        self._provider = provider
        self._planner = planner

    async def advance(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        """The part after whatever can be done for it now. Raises LeaseLost, PartRefused and the `Judge…` errors."""
        if part.state == "submitted":
            part = await self._poll(step, part, others)
        if part.state == "ended":
            part = await self._collect(step, part)
        if part.alone and any(other.state == "submitted" for other in others):
            return part
        if part.state in {"planned", "uploading"}:
            part = await self._upload(step, part, others)
        return await self._submit(step, part) if part.state == "uploaded" else part

    async def _upload(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        if part.state == "uploading":
            # A step was cut off here, and the id of what it may have uploaded is lost.
            for file_id in await self._provider.find_uploads(part.file_name):
                await self._provider.delete_file(file_id)
        # What one part learned, all need not learn.
        conceded = max((one.conceded for one in [part, *others]), key=len)
        part = await self._save(step, replace(part, state="uploading", conceded=conceded))
        async with self._planner.write_file(step, part) as (file, written):
            file_id = await self._provider.upload(file, part.file_name)
        uploaded = replace(written, state="uploaded", file_id=file_id)
        return await self._save(step, uploaded, on_loss=Leftover("file", file_id))

    async def _submit(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """Makes the provider's batch, unless a step that was cut off has made it."""
        found = await self._provider.find(part.tags, since=step.begun_at - CLOCK_SKEW)
        if found is None:
            # Asked for anew just before: what is made now is paid for.
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
            # The file may be at fault, or have expired: the next try is to bring its own.
            await self._begin_anew(step, part, list_files(part))
            raise PartRefused(error.detail) from error

    async def _poll(self, step: PlanStep, part: ProviderPart, others: Sequence[ProviderPart]) -> ProviderPart:
        found = await self._provider.retrieve(str(part.provider_batch_id))
        if found is None:
            await self._begin_anew(step, part, list_files(part))
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
        """The provider began none of it. Where only too much was waiting, it is sent again once the others are done."""
        failed = replace(part, error_file_id=found.error_file_id, alone=part.alone or found.over_limit)
        part = await self._begin_anew(step, failed, list_files(failed))
        if found.over_limit and any(other.state == "submitted" for other in others):
            logger.info("a part waits for the others", extra=trace(part))
            return part
        raise PartRefused(f"the provider did not begin the batch: {found.failure}")

    async def _collect(self, step: PlanStep, part: ProviderPart) -> ProviderPart:
        """Fetches the answers; asks again without a parameter where that is what every call was refused for."""
        harvest, leftovers = await self._fetch(part), list_files(part)
        if (refused := harvest.find_refused(part.requests)) is not None:
            logger.info("a part is asked again without %s", refused, extra=trace(part))
            conceded = self._provider.concede(part.conceded, refused)
            return await self._begin_anew(step, replace(part, conceded=conceded), leftovers)
        about = {**trace(part), "answered": harvest.replies, "asked": part.requests}
        logger.info("a part's answers are kept", extra=about)
        return await self._save(step, replace(part, state="done"), leftovers)

    async def _fetch(self, part: ProviderPart) -> Harvest:
        """Keeps every answer, in groups. After a step that was cut off all are fetched again, and change nothing."""
        harvest = Harvest()
        for file_id in filter(None, (part.output_file_id, part.error_file_id)):
            async for answer in self._provider.answers(file_id, part):
                harvest.add(answer)
                if len(harvest.group) >= ANSWERS:
                    await self._course.keep(part.batch, harvest.group)
                    harvest.group = {}
        await self._course.keep(part.batch, harvest.group)
        return harvest

    async def _begin_anew(self, step: PlanStep, part: ProviderPart, leftovers: Sequence[Leftover]) -> ProviderPart:
        """The part as it was before it was sent, to be sent in another round."""
        anew = replace(
            part,
            state="planned",
            round=part.round + 1,
            file_id=None,
            provider_batch_id=None,
            output_file_id=None,
            error_file_id=None,
        )
        return await self._save(step, anew, leftovers)

    async def _save(
        self, step: PlanStep, part: ProviderPart, leftovers: Sequence[Leftover] = (), *, on_loss: Leftover | None = None
    ) -> ProviderPart:
        """Keeps the part. Where that is refused, what was just made at the provider is to be removed there."""
        if await self._course.save(step.owner, part, leftovers):
            return part
        if on_loss is not None:
            await self._course.leave([on_loss])
        raise LeaseLost


def list_files(part: ProviderPart) -> list[Leftover]:
    """A part's files at the provider."""
    return [Leftover("file", one) for one in (part.file_id, part.output_file_id, part.error_file_id) if one]


def trace(part: ProviderPart) -> dict[str, object]:
    """What a log record says of a part: ids, and no text."""
    return {"batch_id": part.batch, "part": part.number, "provider_batch_id": part.provider_batch_id}
