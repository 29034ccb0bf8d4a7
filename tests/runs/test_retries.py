"""When a candidate is tried again, when it is given up, and when a judge that refuses everything pauses the batch."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from saiten_server.core.evaluation import Usage
from saiten_server.runs.attempt import (
    LONGEST_WAIT_SECONDS,
    MAX_FAILED_ROUNDS,
    MOST_REFUSED,
    REMEMBERED_BATCHES,
    RefusalCounter,
    RetryPolicy,
    Service,
    Trial,
)
from tests.support.worker_bench import turns

JUDGED = Usage(judge_calls=1, cost_usd=0.5)


class Bench:
    """A policy, a judge that answers probes or does not, and candidates in hand."""

    def __init__(self, inside: ExitStack) -> None:
        self.waits: list[float] = []
        self.retries = RetryPolicy(sleep=self.sleep, spread=lambda _, most: most)
        self.inside = inside
        self.answers = False
        self.probes = 0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def begin(self) -> Trial:
        return self.inside.enter_context(self.retries.trying())

    async def probe(self) -> Usage | None:
        self.probes += 1
        return JUDGED if self.answers else None

    async def fail(self, trial: Trial, service: Service | None = "judge") -> bool:
        """One failed round, and the wait after it where there is to be another."""
        again = self.retries.count(trial, service, "ba_1", self.probe)
        if again:
            await self.retries.wait(trial)
        await turns(5)
        return again


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as inside:
        yield Bench(inside)


async def test_in_an_outage_a_candidate_waits_as_long_as_it_takes(bench: Bench) -> None:
    trials = [bench.begin() for _ in range(3)]
    for _ in range(50):
        assert all([await bench.fail(trial) for trial in trials])
    # 0.5 · 2^n, at most 8: 1, 2, 4, 8, 8 …
    assert bench.waits[:15:3] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert max(bench.waits) == LONGEST_WAIT_SECONDS


async def test_a_candidate_that_fails_while_others_succeed_is_given_up(bench: Bench) -> None:
    bench.begin()
    trial, rounds = bench.begin(), 0
    while True:
        bench.retries.served(JUDGED)
        rounds += 1
        if not await bench.fail(trial):
            break
    assert rounds == MAX_FAILED_ROUNDS
    assert bench.probes == 0


async def test_what_was_served_before_it_began_or_during_the_wait_counts_as_it_should(bench: Bench) -> None:
    bench.begin()
    bench.retries.served(JUDGED)
    trial = bench.begin()
    await bench.fail(trial)
    assert trial.failed_rounds == 0
    # Between that failure and the next: it does not matter when.
    bench.retries.served(JUDGED)
    await bench.fail(trial)
    assert trial.failed_rounds == 1
    await bench.fail(trial)
    assert trial.failed_rounds == 1


async def test_what_came_from_the_cache_tells_nothing_of_a_service_nor_does_another_service(bench: Bench) -> None:
    bench.begin()
    trial = bench.begin()
    cases: list[tuple[Usage, Service | None]] = [
        (Usage(), "judge"),
        (Usage(translated_characters=9), "judge"),
        (JUDGED, "translator"),
        (JUDGED, None),
    ]
    for served, service in cases:
        bench.retries.served(served)
        await bench.fail(trial, service)
    assert trial.failed_rounds == 0


async def test_where_nothing_else_is_left_a_scored_candidate_is_asked_about(bench: Bench) -> None:
    bench.answers = True
    trials = [bench.begin() for _ in range(4)]
    for trial in trials[:3]:
        assert all([await bench.fail(trial) for _ in range(9)])
    # Nobody is asked while there is a candidate that is not in trouble.
    assert bench.probes == 0
    rounds = 0
    while await bench.fail(trials[3]):
        rounds += 1
    # The first round counts against it only if somebody was served meanwhile.
    assert (rounds, bench.probes) == (MAX_FAILED_ROUNDS, MAX_FAILED_ROUNDS)
    assert bench.retries.take_bill("ba_1") == Usage(judge_calls=3, cost_usd=1.5)
    assert bench.retries.take_bill("ba_1") == Usage()


async def test_one_probe_at_a_time_is_enough_for_all(bench: Bench) -> None:
    asked = asyncio.Event()

    async def probe() -> Usage:
        bench.probes += 1
        await asked.wait()
        return JUDGED

    trials = [bench.begin() for _ in range(5)]
    for trial in trials:
        bench.retries.count(trial, "judge", "ba_1", probe)
    await turns(5)
    assert bench.probes == 1
    asked.set()
    await turns(5)
    for trial in trials:
        bench.retries.count(trial, "judge", "ba_1", probe)
    assert [trial.failed_rounds for trial in trials] == [1] * 5
    await bench.retries.close()


async def test_a_defect_in_a_probe_is_logged_and_costs_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def probe() -> Usage:
        raise ValueError("odd")

    trial = bench.begin()
    assert bench.retries.count(trial, "judge", "ba_1", probe)
    await turns(5)
    assert "unexpected error in a probe" in caplog.text
    assert await bench.fail(trial)


def test_refusals_before_the_first_taken_candidate_pause_the_batch() -> None:
    refusals = RefusalCounter()
    assert [refusals.refused("ba_1") for _ in range(MOST_REFUSED)] == [False] * (MOST_REFUSED - 1) + [True]


def test_one_taken_candidate_ends_all_doubt_about_its_batch_alone() -> None:
    refusals = RefusalCounter()
    refusals.took("ba_1")
    assert not any(refusals.refused("ba_1") for _ in range(5 * MOST_REFUSED))
    assert any(refusals.refused("ba_2") for _ in range(MOST_REFUSED))


def test_after_a_pause_the_count_starts_anew() -> None:
    refusals = RefusalCounter()
    for _ in range(MOST_REFUSED):
        refusals.refused("ba_1")
    assert not refusals.refused("ba_1")


def test_only_batches_of_late_are_remembered() -> None:
    refusals = RefusalCounter()
    refusals.took("long ago")
    for number in range(REMEMBERED_BATCHES - 1):
        refusals.took(f"ba_{number}")
    assert not any(refusals.refused("long ago") for _ in range(MOST_REFUSED))
    for number in range(REMEMBERED_BATCHES):
        refusals.took(f"bb_{number}")
    assert any(refusals.refused("long ago") for _ in range(MOST_REFUSED))
