"""The reliability badge: what results and summaries say of how far their judge was held against people."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from app.adapters.sql.ratings import RatingStore
from app.domain.batch import ItemResult
from app.domain.comparison import Comparison, GateReport
from app.domain.evaluation import Evaluation
from app.domain.reliability import (
    UNKNOWN,
    UNVALIDATED,
    AspectValidation,
    JudgeKey,
    Reliability,
    State,
    Validation,
    describe_reliability,
    join_states,
    list_all,
    outweighs,
)
from app.domain.reports import CorrelationReport
from app.domain.signature import read_signature, sign
from app.domain.summary import Summary
from app.remembering import Remembered

FRESH_SECONDS = 10.0
"""So long another process's validation may go unseen."""

NOT_OF_RATINGS = frozenset({"saiten", "encoder", "baseline", "weight", "blended"})
"""Pieces of a signature that change no rating: Saiten's version, and the blend, which is computed from ratings."""

ENGLISH = "english."
"""Before pieces of the English path where both paths were asked: the aspects are the source path's."""

Names = tuple[str, ...]


class Badges:
    """A project's badges. Each is put into words once: a stream of results asks a hundred thousand times."""

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
    """Looks up the validation of a result's judge; a project's are read at most once in `FRESH_SECONDS`.

    `renew` is called, once, for a project that has no validation at all: its ratings may not have been looked at since
    an upgrade that cleared what was stored.
    """

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
        self._known = Remembered(self._read, seconds=FRESH_SECONDS, clock=clock)

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

    async def states(self, project: str, signatures: Collection[str], names: Collection[str]) -> dict[str, State]:
        """By name whether the judges of all these signatures follow people's ratings."""
        keys = {key_in(signature) for signature in signatures}
        badges = [await self.of(project, key) for key in keys]
        return {name: join_states([badge.aspects.get(name, UNKNOWN).state for badge in badges]) for name in names}

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

    async def _read(self, project: str) -> Badges:
        found = await self._store.validations(project)
        if not found and self._renew is not None and project not in self._renewed:
            self._renewed.add(project)
            self._renew(project)
        return Badges(found)


def measures_of(comparison: Comparison) -> list[str]:
    """Every measure of the comparison, by the names that rules have for them."""
    return [*comparison.aspects, *comparison.composites, *(f"{name}.blended" for name in comparison.blended)]


def asked_of(report: GateReport) -> list[str]:
    """Every measure that the gate looked at."""
    compared = measures_of(report.comparison) if report.comparison is not None else []
    return [*dict.fromkeys([*(rule.aspect for rule in report.rules), *compared])]


def attach_states(report: GateReport, states: Mapping[str, State]) -> GateReport:
    """The gate's report with the state beside each measure, in its comparison as well."""
    comparison = report.comparison
    if comparison is not None:
        held = {name: states[name] for name in measures_of(comparison)}
        comparison = comparison.model_copy(update={"reliability": held})
    return report.model_copy(update={"comparison": comparison, "reliability": dict(states)})


@lru_cache(maxsize=256)
def unknown(names: Names) -> Reliability:
    """The badge of a judge that was never held against people, with the aspects of these names."""
    return list_all(UNVALIDATED, names)


@lru_cache(maxsize=256)
def key_in(signature: str) -> JudgeKey:
    """The judge of a result, from the signature that it carries. With both paths the aspects are the source path's."""
    pieces = read_signature(signature)
    named = ("rubric", "digest", "path")
    rest = {
        name: value
        for name, value in pieces.items()
        if name not in NOT_OF_RATINGS and name not in named and not name.startswith(ENGLISH)
    }
    rubric, digest, path = (pieces.get(name, "") for name in named)
    return JudgeKey(rubric=rubric, digest=digest, path="source" if path == "both" else path, judge=sign(rest))


def validation_of(report: CorrelationReport, batch: str | None, now: datetime) -> Validation | None:
    """What a correlation says of the judge; None where no aspect has a correlation, or where ratings are simulated."""
    if report.ratings_used is not None and report.ratings_used.simulated:
        return None
    aspects = {
        name: AspectValidation(
            n=found.n,
            raters=found.ceiling.raters if found.ceiling else min(1, report.raters),
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
