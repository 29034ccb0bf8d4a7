"""The reliability badges of judges: how far results and summaries can be trusted, by human ratings.

After ratings change, the badges that depend on them are computed again in the background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from saiten.core.messages import Message
from saiten_server.analyses.requests import CorrelationRequest
from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.errors import InvalidRequest, NotFound, SaitenError, UnknownRubric
from saiten_server.core.evaluation import Evaluation
from saiten_server.core.reliability import (
    NO_VALIDATION,
    UNVALIDATED,
    AspectValidation,
    JudgeKey,
    Reliability,
    Validation,
    ValidationState,
    describe_reliability,
    find_weakest,
    list_all,
    outweighs,
)
from saiten_server.core.reports import AnalysisReport, AspectCorrelation, CorrelationReport, RatingsUsed
from saiten_server.core.signature import ENGLISH_PIECES, read_signature, sign
from saiten_server.platform.memory_cache import RecentValues
from saiten_server.platform.tasks import end_tasks
from saiten_server.platform.telemetry import working_on
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import RatedDraw, StoredRating
from saiten_server.runs.result import Result
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summary import Summary

VALIDATION_FRESH_SECONDS = 10.0  # how long a validation by another process may go unnoticed
NOT_OF_RATINGS = frozenset({"saiten", "encoder", "baseline", "weight", "blended"})
"""Pieces of a signature that change no rating: Saiten's version, and the blend, which is computed from ratings."""

Names = tuple[str, ...]


class Badges:
    """A project's badges. Each is written once, since a stream of results asks for it a hundred thousand times."""

    def __init__(self, found: Mapping[JudgeKey, Validation]) -> None:
        self._known = {key: describe_reliability(one) for key, one in found.items() if one.aspects}
        self._listed: dict[tuple[JudgeKey, Names], Reliability] = {}

    def get(self, key: JudgeKey, names: Names) -> Reliability:
        """The judge's badge with these aspects in it."""
        badge = self._known.get(key)
        if badge is None:
            return unknown(names)
        listed = self._listed.get((key, names))
        if listed is None:
            listed = self._listed[key, names] = list_all(badge, names)
        return listed


class Reliabilities:
    """Looks up the validation of a result's judge; a project's are read at most once in `VALIDATION_FRESH_SECONDS`.
    `renew` is called, once, for a project that has no validation at all: its ratings may not have been
    looked at since an upgrade that cleared what was stored."""

    def __init__(
        self,
        store: RatingStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        renew: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._renew = renew
        self._renewed: set[str] = set()
        self._known = RecentValues(self._read, seconds=VALIDATION_FRESH_SECONDS, clock=clock)

    async def of(self, project: str, key: JudgeKey, names: Collection[str] = ()) -> Reliability:
        """The badge of one judge, with the aspects of these names whether or not people rated them."""
        return (await self._known.get(project)).get(key, tuple(names))

    async def badge_of(self, project: str, evaluation: Evaluation) -> Reliability:
        """The badge of the evaluation's judge."""
        return await self.of(project, key_in(evaluation.signature), evaluation.aspects)

    async def mark(self, project: str, evaluation: Evaluation) -> Evaluation:
        """The evaluation with its judge's badge."""
        return evaluation.model_copy(update={"reliability": await self.badge_of(project, evaluation)})

    async def mark_summary(self, project: str, summary: Summary) -> Summary:
        """The summary with the badge of the one judge that its signatures name; with several it has none to show."""
        signatures = summary.signatures or ({summary.signature: 1} if summary.signature else {})
        keys = {key_in(signature) for signature in signatures}
        names = tuple(summary.aspects)
        badge = await self.of(project, keys.pop(), names) if len(keys) == 1 else unknown(names)
        return summary.model_copy(update={"reliability": badge})

    async def states(
        self, project: str, signatures: Collection[str], names: Collection[str]
    ) -> dict[str, ValidationState]:
        """By name whether the judges of all these signatures follow people's ratings."""
        return {name: found.state for name, found in (await self.weakest(project, signatures, names)).items()}

    async def weakest(
        self, project: str, signatures: Collection[str], names: Collection[str]
    ) -> dict[str, AspectValidation]:
        """By name the validation of that judge of these signatures which is least shown to follow people's ratings."""
        keys = {key_in(signature) for signature in signatures}
        badges = [await self.of(project, key) for key in keys]
        return {name: find_weakest(badge.aspects.get(name, NO_VALIDATION) for badge in badges) for name in names}

    async def mark_pages(self, project: str, pages: AsyncIterable[Sequence[Result]]) -> AsyncIterator[list[Result]]:
        """Results page by page, each evaluation with its badge."""
        async for page in pages:
            yield [
                replace(result, evaluation=await self.mark(project, result.evaluation)) if result.evaluation else result
                for result in page
            ]

    async def keep(self, project: str, key: JudgeKey, found: Validation) -> None:
        """From now on this is what the judge's results say, unless they rest on a correlation of more items."""
        if outweighs(found, (await self._store.validations(project)).get(key)):
            await self._store.keep_validation(project, key, found)
            self._known.forget(project)

    async def renew(
        self, project: str, key: JudgeKey, batch: str, found: Validation | None, *, now: datetime, removed: bool = False
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

    async def _read(self, project: str) -> Badges:
        found = await self._store.validations(project)
        if not found and self._renew is not None and project not in self._renewed:
            self._renewed.add(project)
            self._renew(project)
        return Badges(found)


@dataclass(frozen=True)
class CountedRatings:
    """The ratings that count; `used` says how many there are and how many were left out. `draws` are what was rated in
    rounds, with the probability of each."""

    ratings: Sequence[StoredRating]
    used: RatingsUsed
    draws: Sequence[RatedDraw] = ()


async def fetch_ratings(store: RatingStore, project: str, batch_ids: Sequence[str]) -> CountedRatings:
    """The ratings that may concern the batches, each once, without those of excluded raters and rounds. Simulated
    ratings count only if there are no others."""
    found: dict[int, StoredRating] = {}
    for batch_id in batch_ids:
        after = -1
        while page := await store.of_batch(project, batch_id, after=after, limit=RATINGS_PAGE):
            after = page[-1][0]
            for number, rating in page:
                found.setdefault(number, rating)
    excluded = await store.excluded(project)
    left = [rating for rating in found.values() if not excluded.holds(rating)]
    people = [rating for rating in left if not rating.simulated]
    counted = people or left
    used = RatingsUsed(
        counted=len(counted),
        simulated=bool(left) and not people,
        simulated_left_out=len(left) - len(counted),
        excluded=len(found) - len(left),
    )
    draws = await store.draws(project, batch_ids) if counted else []
    return CountedRatings(counted, used, draws)


@lru_cache(maxsize=256)
def unknown(names: Names) -> Reliability:
    """The badge of a judge that was never compared with human ratings, with these aspects."""
    return list_all(UNVALIDATED, names)


@lru_cache(maxsize=256)
def key_in(signature: str) -> JudgeKey:
    """The judge of a result, from the signature that it carries. With both paths the aspects are the source path's."""
    pieces = read_signature(signature)
    named = ("rubric", "digest", "path")
    rest = {
        name: value
        for name, value in pieces.items()
        if name not in NOT_OF_RATINGS and name not in named and not name.startswith(ENGLISH_PIECES)
    }
    rubric, digest, path = (pieces.get(name, "") for name in named)
    return JudgeKey(rubric=rubric, digest=digest, path="source" if path == "both" else path, judge=sign(rest))


def validation_of(report: CorrelationReport, batch: str | None, now: datetime) -> Validation | None:
    """What a correlation says of the judge; None where no aspect was compared, or where ratings are simulated. Where
    people tell items apart and the judge gives all of them one score there is no correlation, and that it follows them
    is not shown."""
    if report.ratings_used is not None and report.ratings_used.simulated:
        return None
    aspects = {
        name: AspectValidation(
            n=within.n,
            raters=found.ceiling.raters if found.ceiling else min(1, report.raters),
            spearman=found.spearman if within.spearman is None else within.spearman,
            pearson=found.pearson,
            spearman_interval=within.interval,
            ceiling_spearman=within.agreement,
        )
        for name, found in report.aspects.items()
        if (within := found.within_systems) is not None
        and (found.spearman is not None or tells_nothing_apart(found))
        and not name.endswith(".blended")
    }
    if not aspects:
        return None
    return Validation(n=max(report.aspects[name].n for name in aspects), batch=batch, at=now, aspects=aspects)


def tells_nothing_apart(found: AspectCorrelation) -> bool:
    """Whether the judge gives all items one score, and people do not: then the differences are not equal."""
    told = found.undefined
    return told.get("spearman") == Message("scores-equal") and told.get("bias_interval") != Message(
        "all-differences-equal"
    )


logger = logging.getLogger("saiten.meta")

REST = 9.0  # seconds of rest per second of work, so that continuous ratings take at most a tenth of the time
NEWEST = 20  # batches of a project that are looked at for ratings that name neither a batch nor an evaluation of one
RATINGS_PAGE = 1000

FAILED = "a judge's reliability could not be computed after its ratings changed"

Change = tuple[str, str | None]
"""A project, and the batch whose ratings changed; None where the ratings do not say which."""


class Revalidator(Protocol):
    """What a `Revalidation` does, piece by piece."""

    async def renew(self, project: str, batch_id: str, *, removed: bool) -> None:
        """Computes the badge from the batch's ratings. `removed`: some of them may be gone."""
        ...

    async def look(self, project: str, *, removed: bool) -> Collection[str]:
        """The batches that ratings may concern which name none."""
        ...


class Revalidation:
    """Renews badges behind the requests that change ratings, one batch after the other. For one event loop. What is
    asked for while it works or rests is done once, however often it was asked. An error of one batch is logged and
    takes nothing from the others."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._revalidator: Revalidator | None = None
        self._pending: dict[Change, bool] = {}
        self._runner: asyncio.Task[None] | None = None
        self._rested_at = 0.0
        self._hurried = asyncio.Event()

    def begin(self, revalidator: Revalidator) -> None:
        """From now on what is asked for is done."""
        self._revalidator = revalidator

    def ask(self, project: str, batches: Iterable[str | None], *, removed: bool = False) -> None:
        """The ratings of these batches changed, and some are gone where they were `removed`."""
        if self._revalidator is None:
            return
        for batch_id in batches:
            self._note(project, batch_id, removed=removed)
        if self._pending and self._runner is None:
            # In a context of its own, without the log context of the request that happened to be first.
            self._runner = asyncio.create_task(self._run(self._revalidator), context=Context())

    async def drain(self) -> None:
        """Does all that was asked for, without rests."""
        self._hurried.set()
        try:
            while self._runner is not None:
                await asyncio.wait({self._runner})
        finally:
            self._hurried.clear()

    async def close(self) -> None:
        """Ends what runs, and takes nothing more."""
        self._revalidator = None
        self._pending.clear()
        if self._runner is not None:
            await end_tasks([self._runner])

    def _note(self, project: str, batch_id: str | None, *, removed: bool) -> None:
        self._pending[project, batch_id] = removed or self._pending.get((project, batch_id), False)

    async def _run(self, revalidator: Revalidator) -> None:
        try:
            while self._pending:
                await self._rest()
                change = next(iter(self._pending))
                removed = self._pending.pop(change)
                began = self._clock()
                await self._work(revalidator, change, removed=removed)
                now = self._clock()
                self._rested_at = now + REST * (now - began)
        finally:
            self._runner = None

    async def _rest(self) -> None:
        """Waits until it is this one's turn again, or somebody drains."""
        seconds = self._rested_at - self._clock()
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._hurried.wait()
            except TimeoutError:
                return

    async def _work(self, revalidator: Revalidator, change: Change, *, removed: bool) -> None:
        project, batch_id = change
        with working_on(batch_id=batch_id):
            try:
                if batch_id is not None:
                    await revalidator.renew(project, batch_id, removed=removed)
                    return
                for found in await revalidator.look(project, removed=removed):
                    self._note(project, found, removed=removed)
            except SaitenError as error:
                logger.warning("%s: %s", FAILED, error.loggable)
            except Exception:
                logger.exception(FAILED)


class Analyse(Protocol):
    """`ComparisonService.analyse`."""

    async def __call__(self, project: str, request: CorrelationRequest, *, remember: bool) -> AnalysisReport: ...


@dataclass(kw_only=True, eq=False)
class BadgeRenewal:
    """`Revalidator` by the correlation of the batch. Ratings that name no batch concern those that have such items,
    which no index tells: looked at are the batches on which the project's badges rest, and the NEWEST, and of these
    those with ratings that came in since the last look."""

    analyse: Analyse
    batches: BatchStore
    ratings: RatingStore
    reliabilities: Reliabilities
    now: Callable[[], datetime]
    _seen: dict[str, dict[str, int]] = field(default_factory=dict, init=False)

    async def renew(self, project: str, batch_id: str, *, removed: bool) -> None:
        """Nothing where the batch or its rubric are gone, or where it was not one judge that rated it."""
        batch = await self.batches.find(project, batch_id)
        keys = {key_in(line) for line in batch.signature_lines} if batch is not None else set()
        if batch is None or len(keys) != 1:
            return
        try:
            found = await self._validate(project, batch)
        except (NotFound, UnknownRubric):
            return
        await self.reliabilities.renew(project, keys.pop(), batch_id, found, now=self.now(), removed=removed)

    async def look(self, project: str, *, removed: bool) -> Collection[str]:
        """The batches whose badges may have changed; if ratings were removed, every batch that may be concerned."""
        resting = await self.reliabilities.batches(project)
        if not (await self.ratings.mark(project)).count:
            return resting if removed else []
        newest = await self.batches.list(project, BatchFilter(), after=None, limit=NEWEST)
        candidates = dict.fromkeys([*resting, *(batch.id for batch in newest)])
        if removed:
            return candidates | dict.fromkeys(await self.ratings.rated_batches(project, limit=NEWEST))
        before, seen = self._seen.get(project, {}), dict[str, int]()
        for batch_id in candidates:
            seen[batch_id] = await self._newest_of(project, batch_id, before.get(batch_id, -1))
        self._seen[project] = seen
        return [batch_id for batch_id, number in seen.items() if number > before.get(batch_id, -1)]

    async def _validate(self, project: str, batch: Batch) -> Validation | None:
        """What its ratings say of the judge; None where they say nothing. Raises NotFound, UnknownRubric."""
        # Before its results are read, which may be a hundred thousand.
        used = (await fetch_ratings(self.ratings, project, [batch.id])).used
        if not used.counted or used.simulated:
            return None
        try:
            report = await self.analyse(project, CorrelationRequest(batch=batch.id), remember=False)
        except UnknownRubric:
            raise
        except InvalidRequest:
            return None  # too few ratings, or none that fit a result
        return validation_of(report, batch.id, self.now()) if isinstance(report, CorrelationReport) else None

    async def _newest_of(self, project: str, batch_id: str, after: int) -> int:
        """The number of the newest rating that may concern the batch; `after` where none is newer."""
        while page := await self.ratings.of_batch(project, batch_id, after=after, limit=RATINGS_PAGE):
            after = page[-1][0]
        return after
