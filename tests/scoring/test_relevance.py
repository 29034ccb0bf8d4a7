"""b and b̄: measured once, kept, and never in the way of the rating."""

import asyncio
import statistics
from collections.abc import Sequence

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.evaluation import RelevanceOptions, RelevanceResult
from saiten_server.platform.sql.engine import read
from saiten_server.platform.sql.tables import similarity_baselines
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import EncoderUnavailable, RequestScope, Similarity
from saiten_server.scoring.relevance import Relevance, load_calibration
from saiten_server.scoring.store import EvaluationStore
from tests.support.databases import unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_encoder import FakeEncoder, compare_bigrams
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.faults import words
from tests.support.records import make_request


@pytest.fixture
def store(sqlite_engine: AsyncEngine) -> EvaluationStore:
    return EvaluationStore(sqlite_engine)


async def baselines(engine: AsyncEngine) -> list[float]:
    """All that are kept."""
    async with read(engine) as connection:
        return [*(await connection.execute(select(similarity_baselines.c.value))).scalars()]


DIALOGUE = make_request().turn
DEFAULT = RelevanceOptions()


def make(
    encoder: FakeEncoder | None,
    store: EvaluationStore,
    telemetry: FakeTelemetry | None = None,
    timeout_seconds: float = 30.0,
) -> Relevance:
    calls = CachedCalls(DictCache(), FakeTelemetry())
    return Relevance(encoder, store, calls, telemetry=telemetry, timeout_seconds=timeout_seconds)


def texts_of(language: str) -> list[tuple[str, str]]:
    calibration = load_calibration(language)
    assert calibration is not None
    return calibration.texts


async def test_b_is_of_the_last_utterance_and_the_response(store: EvaluationStore) -> None:
    found = await make(FakeEncoder(), store).measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert found.score == compare_bigrams("おはよう", "おはよう、よく眠れた？")
    assert found.weight == 10
    assert found.encoder == "fake-ja_L0_no-idf_version=0"
    assert found.unavailable is None


async def test_the_baseline_is_the_mean_over_the_calibration_set(store: EvaluationStore) -> None:
    found = await make(FakeEncoder(), store).measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert found.baseline == pytest.approx(statistics.fmean(compare_bigrams(*pair) for pair in texts_of("ja")))
    assert found.baseline_source == "calibration"


async def test_the_baseline_is_computed_once_and_kept(store: EvaluationStore, sqlite_engine: AsyncEngine) -> None:
    encoder = FakeEncoder()
    relevance = make(encoder, store)
    await asyncio.gather(*(relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope()) for _ in range(5)))
    assert sum(len(pairs) > 1 for _, pairs in encoder.compared) == 1
    later = FakeEncoder()
    again = await make(later, store).measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert [len(pairs) for _, pairs in later.compared] == [1]
    assert again.baseline == (await baselines(sqlite_engine))[0]


async def test_each_language_and_encoder_has_its_own(store: EvaluationStore, sqlite_engine: AsyncEngine) -> None:
    for name in ("one", "two"):
        for language in ("ja", "ko", "en"):
            await make(FakeEncoder(name=name), store).measure(language, DIALOGUE, DEFAULT, RequestScope())
    assert len(await baselines(sqlite_engine)) == 6


async def test_a_number_needs_no_calibration_set(store: EvaluationStore) -> None:
    encoder = FakeEncoder()
    found = await make(encoder, store).measure("fr", DIALOGUE, RelevanceOptions(baseline=0.5, weight=2), RequestScope())
    assert (found.baseline, found.baseline_source, found.weight) == (0.5, "number", 2)
    assert [len(pairs) for _, pairs in encoder.compared] == [1]


async def test_a_language_without_calibration_set_says_so(store: EvaluationStore) -> None:
    found = await make(FakeEncoder(), store).measure("fr", DIALOGUE, DEFAULT, RequestScope())
    assert found.score is None
    assert "give relevance.baseline as a number" in str(found.unavailable)


async def test_trouble_is_a_reason_not_an_error_and_passes(store: EvaluationStore) -> None:
    encoder = FakeEncoder(unavailable="no weights")
    relevance = make(encoder, store)
    found = await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert (found.score, found.encoder, found.unavailable) == (None, None, "no weights")
    encoder.unavailable = None
    assert (await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())).score is not None


async def test_what_cannot_be_had_is_counted_and_an_encoder_that_is_off_is_not(store: EvaluationStore) -> None:
    told = FakeTelemetry()
    encoder = FakeEncoder(unavailable="no weights")
    relevance = make(encoder, store, telemetry=told)
    await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert told.told == [("encoder_failed",)] * 2
    encoder.unavailable = None
    await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    await make(None, store, telemetry=told).measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert told.told == [("encoder_failed",)] * 2


async def test_no_encoder_at_all(store: EvaluationStore) -> None:
    assert "SAITEN_ENCODER=off" in str(
        (await make(None, store).measure("ja", DIALOGUE, DEFAULT, RequestScope())).unavailable
    )


class SlowBaseline(FakeEncoder):
    """Holds the calibration set back until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        if len(pairs) > 1:
            await self.go.wait()
        return await super().compare(language, pairs)


async def test_a_request_that_gives_up_leaves_the_baseline_to_the_next(store: EvaluationStore) -> None:
    encoder = SlowBaseline()
    relevance = make(encoder, store, timeout_seconds=0.4)
    first = await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    assert first.unavailable == "the encoder gave no answer within 0.4 s"
    encoder.go.set()
    await asyncio.sleep(0)
    assert (await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())).score is not None
    assert sum(len(pairs) > 1 for _, pairs in encoder.compared) == 1


class FailsOnce(FakeEncoder):
    failed = False

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        if not self.failed:
            self.failed = True
            raise EncoderUnavailable(words("out of memory"))
        return await super().compare(language, pairs)


async def test_a_failed_baseline_is_tried_again(store: EvaluationStore) -> None:
    relevance = make(FailsOnce(), store)
    assert (await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())).unavailable == "out of memory"
    assert (await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())).score is not None


async def test_the_same_pair_is_encoded_once(store: EvaluationStore) -> None:
    encoder = FakeEncoder()
    relevance = make(encoder, store)
    options = RelevanceOptions(baseline=0.5)
    first = await relevance.measure("ja", DIALOGUE, options, RequestScope())
    assert await relevance.measure("ja", DIALOGUE, options, RequestScope()) == first
    assert len(encoder.compared) == 1


async def test_a_poisoned_entry_is_measured_again(store: EvaluationStore) -> None:
    cache, encoder = DictCache(), FakeEncoder()
    relevance = Relevance(encoder, store, CachedCalls(cache, FakeTelemetry()))
    options = RelevanceOptions(baseline=0.5)
    first = await relevance.measure("ja", DIALOGUE, options, RequestScope())
    for poison in (b"", b"[1]", b'["a", false, 0]', b"[0.9, false", b"{}", b"\xff"):
        for key in cache.entries:
            cache.entries[key] = poison
        assert await relevance.measure("ja", DIALOGUE, options, RequestScope()) == first
    assert len(encoder.compared) == 7


async def test_closing_ends_what_computes(store: EvaluationStore) -> None:
    encoder = SlowBaseline()
    relevance = make(encoder, store, timeout_seconds=0.2)
    await relevance.measure("ja", DIALOGUE, DEFAULT, RequestScope())
    await relevance.close()
    assert encoder.closed


class StuckEncoder(FakeEncoder):
    """Answers only while `go` is set; `waiting` counts who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.waiting = 0

    async def identify(self, language: str) -> str:
        self.waiting += 1
        self.asked.set()
        try:
            await self.go.wait()
        finally:
            self.waiting -= 1
        return await super().identify(language)


NUMBER = RelevanceOptions(baseline=0.5)


async def make_slow() -> tuple[StuckEncoder, Relevance]:
    """An encoder that has let one request wait in vain, and a time limit that nobody reaches by chance from then on."""
    encoder = StuckEncoder()
    relevance = make(encoder, unused_store(), timeout_seconds=0.2)
    assert "no answer within" in str((await relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())).unavailable)
    relevance._timeout_seconds = 60
    encoder.asked.clear()
    return encoder, relevance


async def ask_two(encoder: StuckEncoder, relevance: Relevance) -> list[RelevanceResult]:
    """Both of them wait for the encoder: neither is told that it is slow."""
    encoder.go.clear()
    both = [asyncio.create_task(relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert encoder.waiting == 2
    encoder.go.set()
    return await asyncio.gather(*both)


async def test_while_the_encoder_is_slow_only_one_waits_for_it() -> None:
    encoder, relevance = await make_slow()
    probe = asyncio.create_task(relevance.measure("ja", DIALOGUE, NUMBER, RequestScope()))
    await encoder.asked.wait()
    for _ in range(5):
        found = await relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())
        assert (found.score, found.baseline) == (None, 0.5)
        assert found.unavailable == "the encoder gave no answer within 60 s"
    assert encoder.waiting == 1
    assert not probe.done()
    encoder.go.set()
    assert (await probe).score is not None


async def test_once_the_encoder_has_answered_everybody_asks_it_again() -> None:
    encoder, relevance = await make_slow()
    encoder.go.set()
    assert (await relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())).score is not None
    assert [found.score is not None for found in await ask_two(encoder, relevance)] == [True, True]


async def test_an_encoder_that_answers_with_a_reason_is_not_slow_any_more() -> None:
    encoder, relevance = await make_slow()
    encoder.unavailable = "out of memory"
    encoder.go.set()
    assert (await relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())).unavailable == "out of memory"
    assert [found.unavailable for found in await ask_two(encoder, relevance)] == ["out of memory"] * 2


async def test_when_the_one_that_waits_goes_away_another_takes_its_place() -> None:
    encoder, relevance = await make_slow()
    probe = asyncio.create_task(relevance.measure("ja", DIALOGUE, NUMBER, RequestScope()))
    await encoder.asked.wait()
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    encoder.asked.clear()
    following = asyncio.create_task(relevance.measure("ja", DIALOGUE, NUMBER, RequestScope()))
    await encoder.asked.wait()
    encoder.go.set()
    assert (await following).score is not None


async def test_one_that_is_too_slow_is_counted(store: EvaluationStore) -> None:
    told = FakeTelemetry()
    relevance = make(StuckEncoder(), store, telemetry=told, timeout_seconds=0.2)
    assert (await relevance.measure("ja", DIALOGUE, NUMBER, RequestScope())).score is None
    assert told.told == [("encoder_failed",)]
