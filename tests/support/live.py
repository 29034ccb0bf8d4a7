"""Live conversations for tests of monitors, their store, and one worker's part in time that is moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.conversation import Finding, Role
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.evaluation import AspectResult, ConversationRequest, RubricReference, Usage
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.sinks.store import OutboxStore
from saiten_server.monitors.sinks.values import SinkKeys
from saiten_server.monitors.store.monitors import MonitorStore
from saiten_server.monitors.traces.service import TraceIntake
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.traces.values import ConversationClaim, LiveConversation, LiveTurn, TraceRules
from saiten_server.monitors.values import Monitor, MonitorOptions
from saiten_server.monitors.work import MonitorWork
from saiten_server.platform.telemetry import Telemetry
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import ChunkJob, FinishedCandidate, JobQueue
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.batches import LEASE, START, HandClock
from tests.support.records import make_record

PROJECT = "team"
ASKED = ("予約をお願いします。", "駐車場はどこにありますか？", "雨でも大丈夫ですか？")


def make_live(name: str = "c-1", *system: str, at: datetime = START, **changes: Any) -> LiveConversation:
    """A closed conversation in which the system says these texts."""
    said = system or ("ご予約を承りました。",)
    turns = [
        LiveTurn(
            role,
            cast(Role, role),
            text,
            at,
            "t" * 32,
            f"{number:016x}",
            "bot",
            "1",
            1.5 if role == "system" else None,
            "chatcmpl-9",
        )
        for number, answer in enumerate(said)
        for role, text in (("user", ASKED[number % len(ASKED)]), ("system", answer))
    ]
    usual: dict[str, Any] = {
        "id": f"lc_{name}",
        "project": PROJECT,
        "name": name,
        "state": "closed",
        "version": 1,
        "turns": tuple(turns),
        "first_at": at,
        "last_at": at,
        "closed_at": at,
        "system": "bot",
        "build": "1",
    }
    return LiveConversation(**{**usual, **changes})


class FakeLive:
    """Hands out what it is given, as `LiveStore` does: each conversation to one worker, until it is done."""

    def __init__(self) -> None:
        self.closed: dict[str, LiveConversation] = {}
        self.rules: dict[str, TraceRules] = {}
        self.finished: list[str] = []
        self.loses = False

    def close(self, *conversations: LiveConversation) -> None:
        self.closed |= {one.id: one for one in conversations}

    async def set_rules(self, project: str, rules: TraceRules) -> None:
        self.rules[project] = rules

    async def claim(
        self, owner: str, now: datetime, *, limit: int, lease_seconds: float
    ) -> Sequence[ConversationClaim]:
        found = [*self.closed.values()][:limit]
        return [ConversationClaim(one, owner, now + timedelta(seconds=lease_seconds)) for one in found]

    async def finish(self, claims: Sequence[ConversationClaim]) -> int:
        if self.loses:
            raise RuntimeError("the process died")
        for claim in claims:
            self.closed.pop(claim.conversation.id, None)
            self.finished.append(claim.conversation.name)
        return len(claims)


class KeptJobs:
    """A queue from which the test takes the jobs."""

    def __init__(self) -> None:
        self.jobs: list[ChunkJob] = []

    async def put(self, jobs: Sequence[ChunkJob]) -> None:
        self.jobs += jobs


@dataclass
class MonitorBench:
    """A monitor's service and worker over a real store; results are given by the test."""

    engine: AsyncEngine
    clock: HandClock = field(default_factory=HandClock)
    project: str = PROJECT

    def __post_init__(self) -> None:
        ids = count(1)
        self.live = FakeLive()
        self.queue = KeptJobs()
        self.store = MonitorStore(self.engine)
        self.batches = BatchStore(self.engine, clock=self.clock)
        instruments = SimpleNamespace(
            rubrics=open_rubrics(None), now=self.clock, telemetry=Telemetry(CollectorRegistry())
        )
        shared: dict[str, Any] = {
            "store": self.store,
            "new_id": lambda prefix: f"{prefix}{next(ids)}",
        }
        self.outbox = OutboxStore(self.engine)
        self.service = MonitorService(
            rubrics=instruments.rubrics,
            sinks=SinkKeys({"http://sink.example": "KEY", "http://hooks.example": None}),
            outbox=self.outbox,
            intake=cast(TraceIntake, self.live),
            now=self.clock,
            has_price=lambda rubric, judge: judge.model != "unpriced",
            new_salt=lambda: "salt",  # the same conversations are sampled in every run of a test
            **shared,
        )
        self.work = MonitorWork(
            conversations=cast(LiveStore, self.live),
            batches=self.batches,
            queue=cast(JobQueue, self.queue),
            instruments=cast(Any, instruments),
            policies=PolicyStore(self.engine),
            limits=DEFAULT_LIMITS,
            owner="w1",
            window=24,
            **shared,
        )

    async def make(self, **options: Any) -> Monitor:
        """A monitor that samples every conversation."""
        usual = {"name": "live", "rubric": "ja-conversation", "rate": 1.0}
        return await self.service.make(self.project, MonitorOptions.model_validate({**usual, **options}))

    async def score(self, ratings: Mapping[str, float] | float = 7.0, *, faulty: int = 0) -> int:
        """Gives every conversation that waits in a run this rating, by conversation or to all; how many."""
        scored = 0
        jobs, self.queue.jobs = self.queue.jobs, []
        for job in jobs:
            work = await self.batches.claim(job, "w1", LEASE)
            if work is None:
                continue
            done = []
            for entry, candidate in work.todo:
                name = candidate.metadata["conversation"]
                rating = ratings if isinstance(ratings, int | float) else ratings[name]
                done.append(finish_with(job, entry, candidate, rating, faulty))
            await self.batches.commit("w1", done, [job])
            scored += len(done)
        return scored


def finish_with(job: Any, entry: Any, candidate: Any, rating: float, faulty: int) -> FinishedCandidate:
    """A result in which `overall` has the rating, and the first `faulty` system turns are at fault."""
    aspect = AspectResult(
        rating=round(rating), scale=(1, 9), label="", samples=(round(rating),), mean=rating, sd=0.0, blended=None
    )
    conversation = candidate.conversation
    findings = tuple(
        Finding(turn=turn, aspect="coherence", code=None, by="judge", detail="…", kind="unclear-intention")
        for turn in conversation.system_turns[:faulty]
    )
    record = make_record(
        f"ev_{job.batch}_{entry.position}",
        rubric=RubricReference(id="ja-conversation", version=2, digest="d" * 64),
        aspects={"overall": aspect},
        composites={},
        findings=findings,
        kinds={},
        warnings=(),
        usage=Usage(judge_calls=1, cost_usd=0.25),
        metadata=candidate.metadata,
    )
    asked = ConversationRequest.model_construct(turns=conversation.turns, persona=None, goal=None)
    return FinishedCandidate(job, entry, record.model_copy(update={"request": asked}), None, record.evaluation.usage)
