"""Single flight, sound entries, callers that go away, other processes, and the keys that an erasure needs."""

import asyncio

import pytest

from saiten_server.platform.memory_cache import Caller
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import RequestScope
from tests.support.dict_cache import DictCache
from tests.support.fake_telemetry import FakeTelemetry


class Maker:
    """Counts its calls; waits for `go` before it answers, where it is told to."""

    def __init__(self, *replies: bytes | Exception, wait: bool = False) -> None:
        self.replies = list(replies)
        self.calls = 0
        self.cancelled = 0
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        if not wait:
            self.go.set()

    async def __call__(self) -> bytes:
        self.calls += 1
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def is_sound(reply: bytes) -> bool:
    return reply.startswith(b"good")


@pytest.fixture
def cache() -> DictCache:
    return DictCache()


@pytest.fixture
def telemetry() -> FakeTelemetry:
    return FakeTelemetry()


@pytest.fixture
def calls(cache: DictCache, telemetry: FakeTelemetry) -> CachedCalls:
    return CachedCalls(cache, telemetry)


async def test_the_second_fetch_makes_no_call(calls, telemetry):
    make = Maker(b"good 1", b"good 2")
    assert await calls.fetch("judge", "k", make, is_sound, RequestScope()) == (b"good 1", False)
    assert await calls.fetch("judge", "k", make, is_sound, RequestScope()) == (b"good 1", True)
    assert make.calls == 1
    assert telemetry.told == [("cache", "judge", "miss"), ("cache", "judge", "hit")]


async def test_another_key_is_another_call(calls):
    make = Maker(b"good 1", b"good 2")
    await calls.fetch("judge", "k", make, is_sound, RequestScope())
    assert await calls.fetch("judge", "l", make, is_sound, RequestScope()) == (b"good 2", False)


@pytest.mark.parametrize("poison", [b"", b"goo", b"bad", b"\xff\x00"])
async def test_a_spoiled_entry_is_a_miss_and_is_replaced(calls, cache, poison):
    cache.entries["k"] = poison
    assert await calls.fetch("judge", "k", Maker(b"good"), is_sound, RequestScope()) == (b"good", False)
    assert cache.entries["k"] == b"good"


async def test_a_reply_that_is_not_accepted_is_returned_but_not_kept(calls, cache):
    assert await calls.fetch("judge", "k", Maker(b"bad"), is_sound, RequestScope()) == (b"bad", False)
    assert cache.entries == {}


async def test_concurrent_callers_share_one_call(calls, telemetry):
    make = Maker(b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope())) for _ in range(20)]
    await make.started.wait()
    make.go.set()
    results = await asyncio.gather(*tasks)
    assert make.calls == 1
    assert sorted(hit for _, hit in results) == [False] + [True] * 19
    assert sorted(telemetry.told) == [("cache", "judge", "hit")] * 19 + [("cache", "judge", "miss")]


async def test_an_error_reaches_all_and_is_not_kept(calls):
    make = Maker(OSError("down"), b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope())) for _ in range(3)]
    await make.started.wait()
    make.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    assert await calls.fetch("judge", "k", make, is_sound, RequestScope()) == (b"good", False)


async def test_a_cancelled_leader_leaves_the_call_to_the_others(calls):
    make = Maker(b"good", wait=True)
    leader = asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope()))
    await make.started.wait()
    follower = asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope()))
    await asyncio.sleep(0)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    make.go.set()
    # The follower is told of the call: somebody has to count what it cost.
    assert await follower == (b"good", False)
    assert (make.calls, make.cancelled) == (1, 0)


async def test_the_call_ends_when_nobody_waits_any_more(calls):
    make = Maker(b"good", wait=True)
    tasks = [asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope())) for _ in range(2)]
    await make.started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert make.cancelled == 1
    make.go.set()
    assert await calls.fetch("judge", "k", make, is_sound, RequestScope()) == (b"good", False)
    assert make.calls == 2


class SharedCache(DictCache):
    """A cache that another process uses too: it holds the turn for `held`, and what it does then is the test's to say."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[str] = set()
        self.asked = asyncio.Event()
        self.left: list[str] = []

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Caller:
        found = await super().claim(key, refused)
        self.asked.set()
        return Caller.WAIT if found is Caller.CALL and key in self.held else found

    async def leave(self, key: str) -> None:
        await super().leave(key)
        self.left.append(key)


@pytest.fixture
def shared() -> SharedCache:
    return SharedCache()


async def test_another_process_reply_is_waited_for_and_is_a_hit(shared, telemetry):
    shared.held.add("k")
    make = Maker(b"good 2")
    waiting = asyncio.create_task(CachedCalls(shared, telemetry).fetch("judge", "k", make, is_sound, RequestScope()))
    await shared.asked.wait()
    shared.entries["k"] = b"good"
    assert await waiting == (b"good", True)
    assert make.calls == 0
    assert telemetry.told == [("cache", "judge", "hit")]


async def test_where_another_process_gives_up_the_call_is_made_here(shared, telemetry):
    shared.held.add("k")
    waiting = asyncio.create_task(
        CachedCalls(shared, telemetry).fetch("judge", "k", Maker(b"good"), is_sound, RequestScope())
    )
    await shared.asked.wait()
    shared.held.clear()
    assert await waiting == (b"good", False)
    assert telemetry.told == [("cache", "judge", "miss")]


async def test_another_process_unsound_reply_is_not_believed(shared, telemetry):
    shared.held.add("k")
    waiting = asyncio.create_task(
        CachedCalls(shared, telemetry).fetch("judge", "k", Maker(b"good"), is_sound, RequestScope())
    )
    await shared.asked.wait()
    shared.entries["k"] = b"bad"
    shared.held.clear()
    assert await waiting == (b"good", False)
    assert shared.entries["k"] == b"good"


async def test_no_process_is_waited_for_beyond_the_patience(shared, telemetry):
    shared.held.add("k")
    calls = CachedCalls(shared, telemetry, max_wait_seconds=0.02)
    assert await calls.fetch("judge", "k", Maker(b"good"), is_sound, RequestScope()) == (b"good", False)


async def test_a_sound_reply_is_put_and_nothing_else_leaves(shared, telemetry):
    calls = CachedCalls(shared, telemetry)
    assert await calls.fetch("judge", "kept", Maker(b"good"), is_sound, RequestScope()) == (b"good", False)
    assert await calls.fetch("judge", "kept", Maker(), is_sound, RequestScope()) == (b"good", True)
    assert shared.left == []
    await calls.fetch("judge", "unsound", Maker(b"bad"), is_sound, RequestScope())
    assert shared.left == ["unsound"]
    with pytest.raises(OSError, match="down"):
        await calls.fetch("judge", "failed", Maker(OSError("down")), is_sound, RequestScope())
    assert shared.left == ["unsound", "failed"]


async def test_a_call_that_nobody_waits_for_leaves(shared, telemetry):
    calls, make = CachedCalls(shared, telemetry), Maker(b"good", wait=True)
    caller = asyncio.create_task(calls.fetch("judge", "k", make, is_sound, RequestScope()))
    await make.started.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await asyncio.sleep(0)  # the cancellation arrives
    await asyncio.sleep(0)  # and the turn is given back
    assert shared.left == ["k"]


async def test_every_key_that_is_fetched_is_collected_once_and_in_order(calls):
    await calls.fetch("judge", "before", Maker(b"good"), is_sound, RequestScope())
    scope = RequestScope()
    await calls.fetch("judge", "b", Maker(b"good"), is_sound, scope)
    await calls.fetch("judge", "before", Maker(), is_sound, scope)  # a hit counts too
    await calls.fetch("judge", "b", Maker(), is_sound, scope)
    scope.note_key("translation")
    await calls.fetch("judge", "after", Maker(b"good"), is_sound, RequestScope())
    assert tuple(scope.keys) == ("b", "before", "translation")


async def test_keys_of_child_tasks_and_of_failed_calls_are_collected(calls):
    scope = RequestScope()
    sound = asyncio.create_task(calls.fetch("judge", "sound", Maker(b"good"), is_sound, scope))
    failed = asyncio.create_task(calls.fetch("judge", "failed", Maker(OSError("down")), is_sound, scope))
    await asyncio.gather(sound, failed, return_exceptions=True)
    assert set(scope.keys) == {"sound", "failed"}


async def test_a_caller_that_shares_anothers_call_collects_its_key_too(calls):
    make = Maker(b"good", wait=True)

    async def collect() -> tuple[str, ...]:
        scope = RequestScope()
        await calls.fetch("judge", "k", make, is_sound, scope)
        return tuple(scope.keys)

    tasks = [asyncio.create_task(collect()) for _ in range(3)]
    await make.started.wait()
    make.go.set()
    assert await asyncio.gather(*tasks) == [("k",)] * 3


def test_a_scope_has_what_its_parts_collected_however_they_end():
    scope = RequestScope(actor="key_1", begun_at=3.0)
    scope.note_key("a")
    parts: list[RequestScope] = []

    def fail() -> None:
        with scope.part() as part:
            parts.append(part)
            part.note_key("b")
            part.cost_usd += 0.25
            assert (part.actor, part.begun_at, tuple(scope.keys)) == ("key_1", 3.0, ("a",))
            raise OSError("down")

    with pytest.raises(OSError, match="down"):
        fail()
    scope.note_key("c")
    assert tuple(parts[0].keys) == ("b",)
    assert (tuple(scope.keys), scope.cost_usd) == (("a", "b", "c"), 0.25)


async def test_a_scope_that_bypasses_the_cache_makes_every_call_and_keeps_nothing(calls, cache):
    scope, make = RequestScope(bypass_cache=True), Maker(b"good 1", b"good 2")
    assert [await calls.fetch("judge", "k", make, is_sound, scope) for _ in range(2)] == [
        (b"good 1", False),
        (b"good 2", False),
    ]
    assert (cache.entries, scope.keys) == ({}, {})


class PeekingCache(DictCache):
    """Tells what it holds without waiting, and counts who waits all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0

    def peek(self, key: str) -> bytes | None:
        return self.entries.get(key)

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Caller:
        self.waited += 1
        return await super().claim(key, refused)


async def test_what_is_at_hand_is_not_waited_for(telemetry: FakeTelemetry) -> None:
    cache, make = PeekingCache(), Maker()
    cache.entries["k"] = b"good"
    scope = RequestScope()
    assert await CachedCalls(cache, telemetry).fetch("judge", "k", make, is_sound, scope) == (b"good", True)
    assert (cache.waited, make.calls, list(scope.keys)) == (0, 0, ["k"])
    assert telemetry.told == [("cache", "judge", "hit")]


async def test_what_is_at_hand_and_not_sound_is_made_anew(telemetry: FakeTelemetry) -> None:
    cache = PeekingCache()
    cache.entries["k"] = b"bad"
    assert await CachedCalls(cache, telemetry).fetch("judge", "k", Maker(b"good"), is_sound, RequestScope()) == (
        b"good",
        False,
    )
    assert cache.entries["k"] == b"good"
    assert telemetry.told == [("cache", "judge", "miss")]


class NearCache(DictCache):
    """Tells what it has without waiting."""

    def peek(self, key: str) -> bytes | None:
        return self.entries.get(key)


async def test_what_is_near_is_recalled_without_waiting(telemetry):
    cache = NearCache()
    calls = CachedCalls(cache, telemetry)
    await cache.put("a", b"good")
    await cache.put("b", b"bad")
    scope = RequestScope()
    assert calls.recall("judge", "a", is_sound, scope) == b"good"
    assert calls.recall("judge", "b", is_sound, scope) is None
    assert calls.recall("judge", "c", is_sound, scope) is None
    assert list(scope.keys) == ["a", "b", "c"]
    assert telemetry.told == [("cache", "judge", "hit")]
