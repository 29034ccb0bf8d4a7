"""Asks the judge for ratings of the frozen anchors, bypassing every cache, and compares them with the stored ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.figures import write_figure
from saiten.core.messages import Message, Value
from saiten_server.comparison.judge_checks.values import (
    Anchor,
    AnchorRatings,
    AspectDrift,
    JudgeCheck,
    JudgeCheckRequest,
    PooledDrift,
)
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import InvalidRequest, JudgeReplyInvalid
from saiten_server.core.evaluation import Evaluation, EvaluationRequest
from saiten_server.core.model import digest
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import differences
from saiten_server.governance.store import AuditLog
from saiten_server.platform.bundled import bundled_folder, read_objects, validate_objects
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import anchor_ratings, can_store, equals
from saiten_server.platform.tasks import run_few
from saiten_server.providers.ports import RequestScope
from saiten_server.scoring.admission import admit
from saiten_server.scoring.evaluate import ScoringContext, evaluate
from saiten_server.scoring.store import STORED

anchor = anchor_ratings.c


class AnchorStore:
    """A judge's ratings of the anchors by project and key. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, project: str, key: str) -> AnchorRatings | None:
        """The stored ratings, if there are any."""
        if not can_store(key):
            return None
        query = select(anchor.ratings).where(equals(anchor.project, project), anchor.key == digest(key))
        found = await db.fetch_value(self._engine, query)
        return None if found is None else AnchorRatings.model_validate_json(found, context=STORED)

    async def keep(self, project: str, key: str, ratings: AnchorRatings) -> None:
        """Stores the ratings, replacing earlier ones with the same key."""
        text = ratings.model_dump_json()
        if not can_store(project, key):
            raise InvalidRequest(Message("anchors-key-not-kept"))
        row = {"project": project, "key": digest(key), "ratings": text}
        await db.execute(self._engine, db.insert_or_replace(self._engine, anchor_ratings), row)


ANCHORS_AT_ONCE = 8  # anchors that are asked together; the judge's flow control has the last word
MOST_CALLS = 150  # judge calls of a check, where one run of all anchors does not need more
MOST_CHECK_RUNS = 4
PATIENCE_SECONDS = 20.0  # a check waits for shorter pauses of the judge
RECORDED_RUNS = 4  # how often each anchor is asked when its ratings are stored: the judge's own noise shows in between
RECORDED_FOR_ONE = 8
"""The same where a check can afford one run alone: what one run cannot show of the noise, the stored ones must."""


Hindrance = tuple[str, Mapping[str, str]]
"""Why stored ratings cannot be compared with those of now: the end of a message's id, and its values."""


@dataclass(eq=False)
class AnchorCheck:
    """Checks a judge against its own stored ratings.

    `instruments` must not use a cache, which would return the judge's earlier replies. `check`
    raises InvalidRequest for a rubric without anchors, JudgeReplyInvalid where there is not one rating to store, and
    the errors of judge, translator and store. Ratings that replace stored ones are noted in the audit log: they change
    what drift is measured against. The first ones are not.
    """

    instruments: ScoringContext
    store: AnchorStore
    audit: AuditLog
    now: Callable[[], datetime]

    async def check(self, project: str, request: JudgeCheckRequest, scope: RequestScope) -> JudgeCheck:
        """Whether the judge moved. `scope` names the caller and collects the cost."""
        rubric = self.instruments.rubrics.get(request.rubric)
        anchors = load_anchors(rubric.id)
        judge = f"{self.instruments.judge.kind}/{request.judge.model or self.instruments.judge.default_model}"
        key = make_key(rubric, request, judge)
        stored = request.reference or await self.store.find(project, key)
        hindrance: Hindrance | None = None
        if stored is not None and stored.anchors != digest_anchors(rubric, anchors):
            hindrance = "of-other-anchors", {}
        elif stored is not None and stored.asked != key:
            hindrance = "of-other-judge", {"judge": stored.judge}
        elif stored is not None and not hold_ratings(stored, rubric, anchors):
            hindrance = "without-ratings", {}
        usable = stored is not None and hindrance is None and not request.record
        runs = count_runs(rubric, len(anchors), request, check=usable)
        with scope.part() as part:
            # A caller who waits for a check is told of a longer pause at once.
            part.longest_pause_seconds = PATIENCE_SECONDS
            evaluations = await self._rate(anchors, request, part, runs=runs)
        names = [aspect.id for aspect in rubric.aspects]
        now = AnchorRatings(
            rubric=rubric.id,
            anchors=digest_anchors(rubric, anchors),
            asked=key,
            judge=judge,
            signature=evaluations[0][0].signature,
            at=self.now(),
            ratings={
                anchor.id: {name: tuple(run[at].aspects[name].rating for run in evaluations) for name in names}
                for at, anchor in enumerate(anchors)
            },
        )
        if stored is not None and usable:
            # In a thread: scipy is loaded here, and a caller's reference may be long.
            found = await asyncio.to_thread(compared, stored, now, anchors, request)
        else:
            if all(rating is None for each in now.ratings.values() for runs in each.values() for rating in runs):
                # As a measure of next time that would be none for ever.
                raise JudgeReplyInvalid(Message("anchors-unrated"))
            if request.reference is None or request.record:  # else the measure is the caller's to keep
                await self._keep(project, key, now, scope.actor)
            found = recorded(now, anchors, request, hindrance=hindrance)
        self.instruments.telemetry.checked(found.verdict)
        return found

    async def _keep(self, project: str, key: str, ratings: AnchorRatings, actor: str) -> None:
        """Stores the ratings; where they replace others, notes who did so."""
        before = await self.store.find(project, key)
        await self.store.keep(project, key, ratings)
        if before is None:
            return
        event = AuditEvent(
            at=self.now(),
            project=project,
            actor=actor,
            action="judge-reference.replaced",
            target=ratings.rubric,
            detail={"asked": ratings.asked, "anchors": ratings.anchors, "before": before.at.isoformat()},
        )
        await self.audit.note(event)

    async def _rate(
        self, anchors: Sequence[Anchor], request: JudgeCheckRequest, scope: RequestScope, *, runs: int
    ) -> list[list[Evaluation]]:
        """The evaluations, run by run."""
        posed = [
            EvaluationRequest(
                rubric=request.rubric,
                context=anchor.context,
                response=anchor.response,
                path=request.path,
                judge=request.judge,
                relevance=None,  # a blend is not the judge's
            )
            for anchor in anchors
        ]
        await admit(posed, self.instruments, scope, times=runs)

        async def ask(one: EvaluationRequest) -> Evaluation:
            return (await evaluate(one, self.instruments, scope)).evaluation

        return [await run_few((partial(ask, one) for one in posed), ANCHORS_AT_ONCE) for _ in range(runs)]


def make_key(rubric: Rubric, request: JudgeCheckRequest, judge: str) -> str:
    """Which judge is asked what: as it is asked for, since what the endpoint makes of that is what may move."""
    options = request.judge.model_dump(exclude={"model"}, exclude_defaults=True)
    # Those of the first release always: ratings that it stored are still to be found.
    options |= request.judge.model_dump(include={"samples", "expected", "explain"})
    return digest([rubric.id, rubric.digest, request.path, judge, options])


def count_runs(rubric: Rubric, anchors: int, request: JudgeCheckRequest, *, check: bool) -> int:
    """How often each anchor is asked: in a check as often as `MOST_CALLS` allow, at least once, else to be stored."""
    calls = len(rubric.aspects) if rubric.calls == "independent" else 1
    calls *= request.judge.samples * (2 if request.path == "both" else 1)
    affordable = max(1, min(MOST_CHECK_RUNS, MOST_CALLS // (anchors * calls)))
    if check:
        return affordable
    return RECORDED_FOR_ONE if affordable == 1 else RECORDED_RUNS


@cache
def load_anchors(rubric_id: str) -> tuple[Anchor, ...]:
    """The anchors that ship for a rubric; raises InvalidRequest where none do."""
    file = bundled_folder("comparison/judge_checks/anchors").joinpath(f"{rubric_id}.jsonl")
    if not file.is_file():
        raise InvalidRequest(Message("anchors-none", rubric=rubric_id), pointer="/rubric")
    return tuple(validate_objects(file, read_objects(file), Anchor))


def digest_anchors(rubric: Rubric, anchors: Sequence[Anchor]) -> str:
    """What stored ratings must have been taken of: these texts, by this rubric."""
    return digest([rubric.digest, [[anchor.id, anchor.model_dump(mode="json")] for anchor in anchors]])


def hold_ratings(stored: AnchorRatings, rubric: Rubric, anchors: Sequence[Anchor]) -> bool:
    """Whether there is a rating of any aspect of any anchor: a caller's reference may hold none."""
    found = (stored.ratings.get(anchor.id, {}).get(aspect.id, ()) for anchor in anchors for aspect in rubric.aspects)
    return any(rating is not None for runs in found for rating in runs)


def by_aspect(ratings: AnchorRatings) -> dict[str, dict[str, tuple[int | None, ...]]]:
    """Anchor → aspect → runs, turned to aspect → anchor → runs."""
    turned: dict[str, dict[str, tuple[int | None, ...]]] = {}
    for anchor, aspects in ratings.ratings.items():
        for aspect, runs in aspects.items():
            turned.setdefault(aspect, {})[anchor] = runs
    return turned


def compared(
    then: AnchorRatings, now: AnchorRatings, anchors: Sequence[Anchor], request: JudgeCheckRequest
) -> JudgeCheck:
    """The verdict against the stored ratings."""
    # Loaded here: scipy takes half a second, for which each service, worker and command would wait as it starts.
    from saiten_server.comparison.judge_checks.drift import compare_anchors, could_find

    intended: dict[str, dict[str, int]] = {}
    for anchor in anchors:
        for aspect, rating in anchor.ratings.items():
            intended.setdefault(aspect, {})[anchor.id] = rating
    before, after = by_aspect(then), by_aspect(now)
    aspects, pooled = compare_anchors(before, after, intended, alpha=request.alpha)
    moved = pooled.moved or any(drift.moved for drift in aspects.values())
    detail = tell_drift(aspects, pooled, then)
    if not moved and not could_find(before, after, request.alpha):
        detail = Message("clauses", clauses=[detail, Message("nothing-could-be-found", alpha=request.alpha)])
    found = describe_check(now, anchors, request, verdict="moved" if moved else "steady", detail=detail)
    drift = {"aspects": aspects, "pooled": pooled, "reference_at": then.at}
    return found.model_copy(update={**drift, "signature_differences": differences(then.signature, now.signature)})


def tell_drift(aspects: Mapping[str, AspectDrift], pooled: PooledDrift, then: AnchorRatings) -> Message:
    """The verdict in a sentence, with the smallest shift that the check can see."""
    date = f"{then.at:%Y-%m-%d}"
    moved = [describe_drift(name, drift) for name, drift in aspects.items() if drift.moved]
    if moved:
        return Message("judge-moved-since", date=date, drifts=moved)
    changed = sum(drift.changed for drift in aspects.values())
    total = sum(drift.n for drift in aspects.values())
    if pooled.moved:
        return Message("judge-moved-since", date=date, drifts=[Message("all-aspects-moved", changed=changed, of=total)])
    steady = Message("judge-steady", date=date, changed=changed, of=total)
    sight = [drift.detectable for drift in aspects.values() if drift.detectable is not None]
    if not sight:
        return steady
    return Message("clauses", clauses=[steady, Message("shift-seen", size=write_figure(max(sight), 2))])


def describe_drift(name: str, drift: AspectDrift) -> Message:
    """How far one aspect moved."""
    figures: dict[str, Value] = {"aspect": name, "changed": drift.changed, "of": drift.n}
    if drift.shift is not None:
        figures["shift"] = write_figure(drift.shift, 2, signed=True)
    if drift.lost:
        figures["lost"] = drift.lost
    return Message(f"aspect-moved{'-mean' if 'shift' in figures else ''}{'-lost' if drift.lost else ''}", **figures)


def recorded(
    now: AnchorRatings, anchors: Sequence[Anchor], request: JudgeCheckRequest, *, hindrance: Hindrance | None
) -> JudgeCheck:
    """The result of a check without a reference; `hindrance` says why stored ratings could not be used."""
    if request.record:
        detail = Message("ratings-stored-as-asked")
    elif hindrance is None:
        detail = Message("first-ratings-stored")
    else:
        why, values = hindrance
        detail = Message(f"{'stored' if request.reference is None else 'given'}-ratings-{why}", **values)
    return describe_check(now, anchors, request, verdict="recorded", detail=detail)


def describe_check(
    now: AnchorRatings, anchors: Sequence[Anchor], request: JudgeCheckRequest, **more: object
) -> JudgeCheck:
    """A report without drift."""
    unrated = sum(None in runs for aspects in now.ratings.values() for runs in aspects.values())
    return JudgeCheck.model_validate(
        {
            "rubric": now.rubric,
            "judge": now.judge,
            "anchors": len(anchors),
            "unrated": unrated,
            "alpha": request.alpha,
            "aspects": {},
            "ratings": now,
            **more,
        }
    )
