"""The rating and comparison services over SQLite stores and a fake judge."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.comparison.judge_checks.service import AnchorCheck, AnchorStore
from saiten_server.comparison.links.service import LinkService
from saiten_server.comparison.links.store import LinkStore
from saiten_server.comparison.runs import RunReader
from saiten_server.comparison.sequences import SequenceService, SequenceStore
from saiten_server.comparison.service import ComparisonService
from saiten_server.comparison.store import BaselineStore, GateArchive, GateStore
from saiten_server.core.rubric import Rubric
from saiten_server.governance.store import AuditLog
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.ratings.reliability import Reliabilities, Revalidation
from saiten_server.ratings.service import RatingService
from saiten_server.ratings.store import RatingStore
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.frames import FrameStore
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import Relevance
from saiten_server.scoring.store import EvaluationStore
from tests.support.batches import START, HandClock
from tests.support.dict_cache import DictCache
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.lexical_rubric import build_ko_rubric
from tests.support.scored_batches import RUBRIC

KO = build_ko_rubric()
"""Has the id, aspects and scales of a rubric with anchors."""


@dataclass
class Bench:
    """`now` is the services' clock."""

    rating: RatingService
    comparison: ComparisonService
    engine: AsyncEngine
    batches: BatchStore
    store: RatingStore
    judge: FakeJudge
    reliabilities: Reliabilities
    anchors: AnchorCheck
    now: HandClock
    telemetry: FakeTelemetry
    audit: AuditLog

    def tomorrow(self) -> None:
        self.now.move(timedelta(days=1).total_seconds())


NUMBERS = count(1)
"""Of kept gates."""


def build_bench(engine: AsyncEngine, *rubrics: Rubric) -> Bench:
    batches, judge, now = BatchStore(engine, clock=lambda: START), FakeJudge(), HandClock()
    store, telemetry, audit = RatingStore(engine), FakeTelemetry(), AuditLog(engine)
    source = FakeRubrics([RUBRIC, KO, *rubrics])
    instruments = ScoringContext(
        rubrics=source,
        judge=judge,
        translator=None,
        relevance=Relevance(FakeEncoder(), EvaluationStore(engine), CachedCalls(DictCache(), telemetry)),
        telemetry=telemetry,
        speech=FakeSpeech(),
        now=now,
        new_id=lambda: "ev_anchor",
        lane="batch",
    )
    reliabilities = Reliabilities(store, clock=lambda: now().timestamp())
    anchors = AnchorCheck(instruments, AnchorStore(engine), audit, now=now)
    rating = RatingService(batches=batches, ratings=store, rubrics=source, now=now, revalidation=Revalidation())
    runs, new_link = RunReader(batches, FrameStore(engine)), lambda: "ln_1"
    comparison = ComparisonService(
        batches=batches,
        runs=runs,
        ratings=store,
        rubrics=source,
        reliabilities=reliabilities,
        anchors=anchors,
        links=LinkService(
            batches=batches, runs=runs, links=LinkStore(engine), rubrics=source, now=now, new_id=new_link
        ),
        baselines=BaselineStore(engine),
        sequences=SequenceService(batches=batches, store=SequenceStore(engine), now=now),
        gates=GateArchive(
            batches=batches,
            store=GateStore(engine),
            quota=StorageQuota(engine, None),
            now=now,
            new_id=lambda: f"ga_{next(NUMBERS)}",
        ),
        now=now,
        telemetry=telemetry,
    )
    return Bench(rating, comparison, engine, batches, store, judge, reliabilities, anchors, now, telemetry, audit)
