"""The services over fakes, each at hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from app.call_cache import CachedCalls
from app.domain.rubric import Rubric
from app.meta.anchors import AnchorCheck
from app.meta.comparison_service import ComparisonService
from app.meta.rating_service import RatingService
from app.meta.reliabilities import Reliabilities
from app.pipeline import Instruments
from app.relevance import Relevance
from tests.support.batches import START, HandClock
from tests.support.dict_cache import DictCache
from tests.support.fake_batch_store import FakeBatchStore
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_meta_store import FakeMetaStore
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_store import FakeStore
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
    batches: FakeBatchStore
    store: FakeMetaStore
    judge: FakeJudge
    reliabilities: Reliabilities
    anchors: AnchorCheck
    now: HandClock
    telemetry: FakeTelemetry

    def tomorrow(self) -> None:
        self.now.move(timedelta(days=1).total_seconds())


def build_bench(*rubrics: Rubric) -> Bench:
    batches, judge, now = FakeBatchStore(clock=lambda: START), FakeJudge(), HandClock()
    store, telemetry = FakeMetaStore(batches), FakeTelemetry()
    source = FakeRubrics([RUBRIC, KO, *rubrics])
    instruments = Instruments(
        rubrics=source,
        judge=judge,
        translator=None,
        relevance=Relevance(FakeEncoder(), FakeStore(), CachedCalls(DictCache(), telemetry)),
        telemetry=telemetry,
        speech=FakeSpeech(),
        now=now,
        new_id=lambda: "ev_anchor",
        lane="batch",
    )
    reliabilities = Reliabilities(store, clock=lambda: now().timestamp())
    anchors = AnchorCheck(instruments, store, now=now)
    rating = RatingService(batches=batches, ratings=store, rubrics=source, now=now)
    comparison = ComparisonService(
        batches=batches,
        ratings=store,
        rubrics=source,
        reliabilities=reliabilities,
        anchors=anchors,
        now=now,
        telemetry=telemetry,
    )
    return Bench(rating, comparison, batches, store, judge, reliabilities, anchors, now, telemetry)


@pytest.fixture
def bench() -> Bench:
    return build_bench()
