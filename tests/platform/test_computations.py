"""Long computations: begun once, waited for a moment, kept, and ended with the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from saiten_server.core.errors import NotFound
from saiten_server.platform.computations import ERROR_SECONDS, Computations, PendingComputation
from tests.support.batches import HandClock
from tests.support.faults import words

FOREVER = 3600.0


class Work:
    """Counts its runs; each ends once it is let, with what it is told to."""

    def __init__(self, value: str = "done", error: Exception | None = None) -> None:
        self.value, self.error = value, error
        self.runs = 0
        self.begun, self.let, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self) -> str:
        self.runs += 1
        self.begun.set()
        try:
            await self.let.wait()
        finally:
            self.ended.set()
        if self.error is not None:
            raise self.error
        return self.value


def free(value: str = "done", error: Exception | None = None) -> Work:
    """Work that ends at once."""
    work = Work(value, error)
    work.let.set()
    return work


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def computations(clock: HandClock) -> AsyncIterator[Computations]:
    made = Computations(now=clock, kept=2, at_once=1, waiting=1)
    yield made
    await made.close()


async def ask(computations: Computations, key: str, work: Callable[[], Awaitable[str]]) -> str | PendingComputation:
    """Without patience."""
    return await computations.get("team", key, work, wait_seconds=0)


async def test_what_gets_ready_within_the_patience_is_the_answer_and_is_kept(computations: Computations) -> None:
    work = free()
    assert [await computations.get("team", "k", work, wait_seconds=FOREVER) for _ in range(3)] == ["done"] * 3
    assert work.runs == 1


async def test_what_takes_longer_is_pending_and_goes_on(computations: Computations, clock: HandClock) -> None:
    work, began = Work(), clock()
    first = await ask(computations, "k", work)
    await work.begun.wait()
    clock.move(7)
    assert (first, await ask(computations, "k", work)) == (
        PendingComputation(began, 0.0),
        PendingComputation(began, 7.0),
    )
    work.let.set()
    assert await computations.get("team", "k", work, wait_seconds=FOREVER) == "done"
    assert work.runs == 1


async def test_a_caller_that_goes_away_ends_nothing(computations: Computations) -> None:
    work = Work()
    caller = asyncio.create_task(computations.get("team", "k", work, wait_seconds=FOREVER))
    await work.begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    work.let.set()
    assert await computations.get("team", "k", work, wait_seconds=FOREVER) == "done"
    assert work.runs == 1


async def test_projects_do_not_see_each_others_results(computations: Computations) -> None:
    for project in ("team", "rivals"):
        assert await computations.get(project, "k", free(project), wait_seconds=FOREVER) == project


async def test_only_so_many_compute_and_wait_and_others_are_turned_away(computations: Computations) -> None:
    first, second, third = Work(), Work(), Work()
    await ask(computations, "1", first)
    await first.begun.wait()
    states = [await ask(computations, key, work) for key, work in (("1", first), ("2", second), ("3", third))]
    assert [found.state for found in states if isinstance(found, PendingComputation)] == [
        "computing",
        "waiting",
        "turned-away",
    ]
    assert not second.begun.is_set()
    first.let.set()
    await second.begun.wait()
    await ask(computations, "3", third)
    second.let.set()
    await third.begun.wait()


async def test_the_results_asked_for_last_are_kept(computations: Computations) -> None:
    works = {key: free(key) for key in "abc"}
    for key in ("a", "b", "a", "c", "a", "b"):
        assert await computations.get("team", key, works[key], wait_seconds=FOREVER) == key
    assert [work.runs for work in works.values()] == [1, 2, 1]


async def test_an_error_is_the_answer_for_a_short_time(computations: Computations, clock: HandClock) -> None:
    work = free(error=NotFound(words("gone")))
    for _ in range(2):
        with pytest.raises(NotFound, match="gone"):
            await computations.get("team", "k", work, wait_seconds=FOREVER)
    assert work.runs == 1
    clock.move(ERROR_SECONDS)
    work.error = None
    assert await computations.get("team", "k", work, wait_seconds=FOREVER) == "done"


async def test_a_fault_is_logged_even_if_nobody_comes_back(
    computations: Computations, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error=ZeroDivisionError("a slip"))
    await ask(computations, "k", work)
    work.let.set()
    with pytest.raises(ZeroDivisionError):
        await computations.get("team", "k", work, wait_seconds=FOREVER)
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert logged.exc_info[1] is work.error


async def test_closing_ends_what_runs_and_nothing_is_begun_after(computations: Computations) -> None:
    work, kept = Work(), free("kept")
    assert await computations.get("team", "kept", kept, wait_seconds=FOREVER) == "kept"
    waiting = asyncio.create_task(computations.get("team", "k", work, wait_seconds=FOREVER))
    await work.begun.wait()
    await computations.close()
    assert work.ended.is_set()
    found = [await waiting, await ask(computations, "k", work)]
    assert [each.state for each in found if isinstance(each, PendingComputation)] == ["turned-away"] * 2
    assert (work.runs, await ask(computations, "kept", kept)) == (1, "kept")


async def test_one_project_does_not_take_the_others_places(clock: HandClock) -> None:
    computations = Computations(now=clock, at_once=1, waiting=9, of_one=2)
    works = {key: Work() for key in "abc"}
    found = [await ask(computations, key, work) for key, work in works.items()]
    assert [one.state for one in found if isinstance(one, PendingComputation)][1:] == ["waiting", "turned-away"]
    other = await computations.get("rivals", "a", Work(), wait_seconds=0)
    assert isinstance(other, PendingComputation)
    assert other.state == "waiting"
    await computations.close()


async def test_who_asks_again_and_again_holds_up_no_one(clock: HandClock) -> None:
    computations = Computations(now=clock, at_once=1, waiting=0)
    first = asyncio.create_task(computations.get("team", "a", free(), wait_seconds=FOREVER))
    await asyncio.sleep(0)
    for _ in range(100):  # for ever, where the first has no turn meanwhile
        found = await ask(computations, "b", free())
        if found == "done":
            break
    assert (found, await first) == ("done", "done")
    await computations.close()


async def test_without_a_wait_nothing_is_begun(computations):
    work = free()
    assert isinstance(await computations.get("team", "key", work, wait_seconds=None), PendingComputation)
    assert work.runs == 0
    assert await computations.get("team", "key", work, wait_seconds=FOREVER) == "done"
    assert await computations.get("team", "key", work, wait_seconds=None) == "done"
