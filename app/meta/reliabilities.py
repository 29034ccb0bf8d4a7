"""The reliability badge: what results and summaries say of how far their judge was held against people."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime

from app.domain.batch import ItemResult
from app.domain.evaluation import Evaluation
from app.domain.reliability import (
    UNVALIDATED,
    AspectValidation,
    JudgeKey,
    Reliability,
    Validation,
    describe_reliability,
    outweighs,
)
from app.domain.reports import CorrelationReport
from app.domain.signature import plain, read_signature
from app.domain.summary import Summary
from app.meta_ports import ValidationStore
from app.remembering import Remembered

FRESH_SECONDS = 10.0
"""So long another process's validation may go unseen."""

DIGEST = 12
"""Digits of the rubric's digest that a signature has."""


class Reliabilities:
    """Looks up the validation of a result's judge; a project's are read at most once in `FRESH_SECONDS`."""

    def __init__(self, store: ValidationStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._known = Remembered(self._describe, seconds=FRESH_SECONDS, clock=clock)

    async def of(self, project: str, key: JudgeKey) -> Reliability:
        """The badge of one judge."""
        return (await self._known.get(project)).get(key, UNVALIDATED)

    async def mark(self, project: str, evaluation: Evaluation) -> Evaluation:
        """The evaluation with its judge's badge."""
        return evaluation.model_copy(update={"reliability": await self.of(project, key_of(evaluation))})

    async def mark_summary(self, project: str, summary: Summary) -> Summary:
        """The summary with the badge of the one judge that its signatures name; with several it has none to show."""
        signatures = summary.signatures or ({summary.signature: 1} if summary.signature else {})
        keys = {key_in(signature) for signature in signatures}
        badge = UNVALIDATED
        if len(keys) == 1:
            badge = await self.of(project, keys.pop())
        return summary.model_copy(update={"reliability": badge})

    async def mark_pages(
        self, project: str, pages: AsyncIterable[Sequence[ItemResult]]
    ) -> AsyncIterator[list[ItemResult]]:
        """Results page by page, each evaluation with its badge."""
        async for page in pages:
            yield [
                result.model_copy(update={"evaluation": await self.mark(project, result.evaluation)})
                if result.evaluation
                else result
                for result in page
            ]

    async def keep(self, project: str, key: JudgeKey, found: Validation) -> None:
        """From now on this is what the judge's results say, unless they rest on a correlation of more items."""
        if outweighs(found, (await self._store.validations(project)).get(key)):
            await self._store.keep_validation(project, key, found)
            self._known.forget(project)

    async def renew(
        self,
        project: str,
        key: JudgeKey,
        batch: str,
        found: Validation | None,
        *,
        now: datetime,
        removed: bool = False,
    ) -> None:
        """Keeps what the ratings of the batch now say of its judge, None where they say nothing. A badge that rests on
        the batch gives way even to nothing; so does one of several batches where ratings were `removed`, since it may
        rest on them."""
        known = (await self._store.validations(project)).get(key)
        rests = known is not None and (known.batch == batch or (removed and known.batch is None))
        if found is not None and (rests or outweighs(found, known)):
            await self._store.keep_validation(project, key, found)
        elif found is None and known is not None and known.aspects and rests:
            # In the place of the figures that are gone: it holds none, and any others outweigh it.
            await self._store.keep_validation(project, key, Validation(n=0, batch=batch, at=now, aspects={}))
        self._known.forget(project)

    async def batches(self, project: str) -> list[str]:
        """The batches on which the project's badges rest, those of several batches left out."""
        found = await self._store.validations(project)
        return [known.batch for known in found.values() if known.batch is not None and known.aspects]

    async def _describe(self, project: str) -> Mapping[JudgeKey, Reliability]:
        """The badges of a project's judges. Put into words once: a stream of results asks a hundred thousand times."""
        found = await self._store.validations(project)
        return {key: describe_reliability(validation) for key, validation in found.items() if validation.aspects}


def key_of(evaluation: Evaluation) -> JudgeKey:
    """The judge of an evaluation. With both paths its aspects are the source path's."""
    return JudgeKey(
        rubric=evaluation.rubric.id,
        digest=evaluation.rubric.digest[:DIGEST],
        kind=evaluation.judge.kind,
        model=plain(evaluation.judge.model),
        path="english" if evaluation.path == "english" else "source",
    )


def key_in(signature: str) -> JudgeKey:
    """The same, from the line that every result carries."""
    pieces = read_signature(signature)
    return JudgeKey(
        rubric=pieces.get("rubric", "").rpartition("@")[0],
        digest=pieces.get("digest", ""),
        kind=pieces.get("judge", "").partition("/")[0],
        model=pieces.get("model", ""),
        path="english" if pieces.get("path") == "english" else "source",
    )


def validation_of(report: CorrelationReport, batch: str | None, now: datetime) -> Validation | None:
    """What a correlation says of the judge; None where no aspect has a correlation."""
    aspects = {
        name: AspectValidation(
            n=found.n,
            raters=found.ceiling.raters if found.ceiling else report.raters,
            spearman=found.spearman,
            pearson=found.pearson,
            spearman_interval=found.spearman_interval,
            ceiling_spearman=found.ceiling.spearman if found.ceiling else None,
        )
        for name, found in report.aspects.items()
        if found.spearman is not None and not name.endswith(".blended")
    }
    if not aspects:
        return None
    return Validation(n=max(aspect.n for aspect in aspects.values()), batch=batch, at=now, aspects=aspects)
