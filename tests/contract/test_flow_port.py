"""One suite for every `FlowState`: alone in memory, and shared through a real Redis."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import pytest
from redis.asyncio import Redis

from saiten_server.core.errors import JudgeUnavailable
from saiten_server.platform.flow_state import (
    FIRST_CALLS,
    FIRST_LIMIT,
    Demand,
    FlowLimits,
    FlowReport,
    FlowState,
    LocalFlowState,
)
from saiten_server.platform.redis.flow import (
    HEARTBEAT_SECONDS,
    LIVE_SECONDS,
    OVERDUE_SECONDS,
    RedisFlowState,
    read_script,
    scope_of,
)
from saiten_server.platform.tasks import cancel_for_good
from saiten_server.providers.flow_control import FlowControl
from saiten_server.providers.ports import Lane
from tests.support.services import free_port, redis_on

Open = Callable[..., FlowState]
BOUNDS = FlowLimits(100)
ANSWERED = FlowReport(successes=1)


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    made = Redis.from_url(redis_url)
    yield made
    await made.aclose()


def open_shared(client: Redis, scope: str, bounds: FlowLimits) -> RedisFlowState:
    """A state that waits for Redis however slow the machine is."""
    return RedisFlowState(client, scope, bounds, timeout_seconds=60)


@pytest.fixture(params=["local", "redis"])
def open_state(request: pytest.FixtureRequest) -> Open:
    """Makes a state; those of Redis with one scope are processes that share."""
    if request.param == "local":
        return lambda bounds=BOUNDS: LocalFlowState(bounds)
    client: Redis = request.getfixturevalue("client")
    return lambda bounds=BOUNDS: open_shared(client, "scope", bounds)


def ask(calls: int, *, tokens: int = 1, interactive: int | None = None, in_flight: int = 0) -> Demand:
    return Demand((tokens,) * calls, calls if interactive is None else interactive, in_flight)


async def test_until_the_first_answer_only_few_calls_are_in_flight(open_state: Open):
    state = open_state()
    assert (await state.exchange(FlowReport(), ask(50))).admitted == FIRST_CALLS
    grant = await state.exchange(FlowReport(), ask(50, in_flight=FIRST_CALLS))
    assert (grant.admitted, grant.wait_seconds) == (0, None)
    assert (await state.exchange(ANSWERED, ask(100))).admitted == FIRST_LIMIT + 1


async def test_the_limit_grows_by_one_a_success_up_to_the_configured_one(open_state: Open):
    state = open_state()
    assert (await state.exchange(FlowReport(successes=5), Demand())).places == FIRST_LIMIT + 5
    assert (await state.exchange(FlowReport(successes=500), Demand())).places == 100
    assert (await open_state(FlowLimits(3)).exchange(ANSWERED, Demand())).places <= 3


async def test_a_429_halves_the_limit_once_a_round_trip_and_never_below_one(open_state: Open):
    state = open_state()
    await state.exchange(FlowReport(successes=100), Demand())
    assert (await state.exchange(FlowReport(throttled_age_seconds=0.0), Demand())).places == 50
    # A call that began before that halving.
    assert (await state.exchange(FlowReport(throttled_age_seconds=60.0), Demand())).places == 50
    for _ in range(10):
        await asyncio.sleep(0.001)
        grant = await state.exchange(FlowReport(throttled_age_seconds=0.0), Demand())
    assert grant.places == 1
    assert (await state.exchange(FlowReport(), ask(1))).admitted == 1


async def test_nobody_calls_while_it_is_closed_and_a_shorter_time_never_cuts_a_longer_one(open_state: Open):
    state = open_state()
    await state.exchange(FlowReport(closed_seconds=60.0), Demand())
    grant = await state.exchange(FlowReport(closed_seconds=1.0), ask(1))
    assert grant.admitted == 0
    assert grant.wait_seconds == grant.closed_seconds == pytest.approx(60, abs=5)


async def test_it_opens_again(open_state: Open):
    state = open_state()
    grant = await state.exchange(FlowReport(closed_seconds=0.02), ask(1))
    assert grant.admitted == 0
    await asyncio.sleep((grant.wait_seconds or 0) + 0.001)
    assert (await state.exchange(FlowReport(), ask(1))).admitted == 1


async def test_no_pause_is_longer_than_is_believed_and_one_call_comes_after_it(open_state: Open):
    state = open_state(FlowLimits(100, longest_pause_seconds=0.05))
    grant = await state.exchange(FlowReport(successes=50, closed_seconds=86_400.0, probing=True), ask(9))
    assert grant.admitted == 0
    assert 0 < grant.closed_seconds < 0.051
    await asyncio.sleep(0.06)
    assert (await state.exchange(FlowReport(), ask(9))).admitted == 1
    assert (await state.exchange(FlowReport(), ask(9, in_flight=1))).admitted == 0
    assert (await state.exchange(FlowReport(successes=1), ask(9))).admitted == 2


async def test_an_operator_ends_a_pause(open_state: Open):
    state = open_state()
    await state.exchange(FlowReport(closed_seconds=60.0), Demand())
    await state.reopen()
    assert (await state.exchange(FlowReport(), ask(1))).admitted == 1


async def test_batches_leave_some_places_to_others(open_state: Open):
    state = open_state()
    await state.exchange(FlowReport(successes=100), Demand())
    for_batches = (await state.exchange(FlowReport(), ask(200, interactive=0))).admitted
    assert 97 <= for_batches < 100
    assert (await state.exchange(FlowReport(), ask(1, interactive=0, in_flight=for_batches))).admitted == 0
    assert (await state.exchange(FlowReport(), ask(1, in_flight=for_batches))).admitted == 1
    mixed = await state.exchange(FlowReport(), ask(20, interactive=2, in_flight=for_batches - 5))
    assert mixed.admitted == 5


@pytest.mark.parametrize("concurrency", [1, 2, 4, 30])
async def test_batches_keep_a_tenth_of_the_calls_under_interactive_overload(open_state: Open, concurrency: int):
    flow = FlowControl(open_state(FlowLimits(concurrency)))
    made = Counter[Lane]()

    async def call_for_ever(lane: Lane) -> None:
        while True:
            async with flow.passage(lane=lane, max_wait_seconds=60) as call:
                made[lane] += 1
                await asyncio.sleep(0.001)
                call.succeeded()

    callers = [asyncio.create_task(call_for_ever("interactive")) for _ in range(3 * concurrency)]
    callers += [asyncio.create_task(call_for_ever("batch")) for _ in range(concurrency)]
    while made.total() < 200 + 10 * concurrency:
        await asyncio.sleep(0.001)
    await cancel_for_good(callers)
    await flow.close()
    # The first places are given before anybody waits.
    assert (made.total() - concurrency) // 10 - 1 <= made["batch"] <= made.total() // 10 + concurrency


async def test_a_small_limit_has_no_reserve(open_state: Open):
    assert (await open_state(FlowLimits(3)).exchange(FlowReport(), ask(9, interactive=0))).admitted == 3


@pytest.mark.parametrize("report", [FlowReport(), FlowReport(successes=1, requests_per_minute=60.0)])
async def test_requests_keep_to_the_rate_whether_configured_or_told(open_state: Open, report: FlowReport):
    state = open_state(BOUNDS if report.requests_per_minute else FlowLimits(100, requests_per_minute=60.0))
    grant = await state.exchange(report, ask(8))
    assert grant.admitted == 1
    assert grant.wait_seconds == pytest.approx(0.9, abs=0.2)
    assert (await state.exchange(FlowReport(), ask(8, in_flight=1))).admitted == 0


async def test_the_endpoint_tightens_a_rate_and_relaxes_it_again_but_not_beyond_the_configured_one(open_state: Open):
    state = open_state(FlowLimits(100, tokens_per_minute=240.0))
    waits = []
    for told in (60.0, 120.0, 100_000.0):
        grant = await state.exchange(FlowReport(successes=1, tokens=10, tokens_per_minute=told), ask(1))
        waits.append(grant.wait_seconds)
    # Ten tokens take 10 s, then 5 s, then 2.5 s as configured.
    assert waits == pytest.approx([9.9, 14.9, 17.4], abs=1)


async def test_tokens_keep_to_their_rate_and_no_call_is_too_large_for_it(open_state: Open):
    state = open_state(FlowLimits(100, tokens_per_minute=6000.0))
    grant = await state.exchange(FlowReport(), ask(3, tokens=1000))
    assert grant.admitted == 1
    assert grant.wait_seconds == pytest.approx(9.9, abs=1)


async def test_tokens_are_settled_after_the_reply(open_state: Open):
    state = open_state(FlowLimits(100, tokens_per_minute=600.0))
    await state.exchange(FlowReport(), ask(1, tokens=1000))
    cheaper = await state.exchange(FlowReport(successes=1, tokens=-900), ask(1, tokens=1000))
    assert cheaper.wait_seconds == pytest.approx(9.9, abs=2)
    dearer = await state.exchange(FlowReport(tokens=500), ask(1))
    assert dearer.wait_seconds == pytest.approx(59.9, abs=4)


async def test_processes_share_the_places_and_the_pause(client: Redis):
    one, two = (open_shared(client, "scope", BOUNDS) for _ in range(2))
    assert (await one.exchange(FlowReport(successes=100), Demand())).places == 100
    assert (await two.exchange(FlowReport(), Demand())).places == 50
    assert (await one.exchange(FlowReport(closed_seconds=30.0), Demand())).places == 50
    assert (await two.exchange(FlowReport(), ask(1))).closed_seconds == pytest.approx(30, abs=2)
    await two.close()
    assert (await one.exchange(FlowReport(), Demand())).places == 100


async def silence(client: Redis, name: str, seconds: float) -> None:
    """Makes the process of this name one that was last heard of so long ago."""
    [key] = await client.keys("*:processes")
    seen, counts = (await client.execute_command("HGET", key, name)).decode().split(" ", 1)
    await client.execute_command("HSET", key, name, f"{float(seen) - seconds:.6f} {counts}")


async def open_two(client: Redis, concurrency: int) -> tuple[RedisFlowState, RedisFlowState]:
    """The first has been alone, and may have all calls in flight."""
    one, two = (open_shared(client, "scope", FlowLimits(concurrency)) for _ in range(2))
    await one.exchange(FlowReport(successes=100), Demand())
    return one, two


@pytest.mark.parametrize("concurrency", [1, 2, 3, 32, 33])
@pytest.mark.parametrize("lane", ["interactive", "batch"])
async def test_a_process_that_appears_waits_for_what_another_has_in_flight(client: Redis, concurrency: int, lane: str):
    one, two = await open_two(client, concurrency)
    interactive = None if lane == "interactive" else 0
    calls = {one: 0, two: 0}
    largest = 0

    async def take(state: RedisFlowState) -> float | None:
        nonlocal largest
        grant = await state.exchange(FlowReport(), ask(100, interactive=interactive, in_flight=calls[state]))
        calls[state] += grant.admitted
        largest = max(largest, sum(calls.values()))
        return grant.wait_seconds

    await take(one)
    assert calls[one] == concurrency - (concurrency > 3 and lane == "batch")
    wait = await take(two)
    assert (wait is None) == (calls[two] > 0), "who has none in flight must ask again"
    assert wait is None or 0.01 <= wait <= 0.05
    for _ in range(3 * concurrency):
        for state in (one, two):
            calls[state] -= calls[state] > 0
            await take(one)
            await take(two)
    await take(one)
    assert largest <= concurrency
    shares = sorted(calls.values())
    assert shares[0] >= concurrency // 2 - (concurrency > 6 and lane == "batch")
    assert sum(shares) >= concurrency - 2 * (concurrency > 6 and lane == "batch")


async def test_who_waits_longest_is_next_where_places_are_fewer_than_processes(client: Redis):
    states = [open_shared(client, "scope", FlowLimits(1)) for _ in range(3)]
    served = []
    holder = states[0]
    for state in states:
        await state.exchange(FlowReport(), ask(5))
    for _ in range(6):
        # The holder's call ends, and it asks first.
        admitted = [
            state for state in (holder, *states) if (await state.exchange(FlowReport(), ask(5, in_flight=0))).admitted
        ]
        assert len(admitted) == 1
        holder = admitted[0]
        served.append(states.index(holder))
    assert sorted(served) == [0, 0, 1, 1, 2, 2]


async def test_who_has_stopped_asking_keeps_no_place_from_others(client: Redis):
    one, two = await open_two(client, 1)
    assert (await one.exchange(FlowReport(), ask(1))).admitted == 1
    assert (await two.exchange(FlowReport(), ask(1))).admitted == 0
    assert (await one.exchange(FlowReport(), ask(1))).admitted == 0, "the other waits"
    await silence(client, two._process, 1)
    assert (await one.exchange(FlowReport(), ask(1))).admitted == 1


async def test_a_dead_processs_calls_are_its_share_at_most_and_then_forgotten(client: Redis):
    dead, other = await open_two(client, 32)
    assert (await dead.exchange(FlowReport(), ask(32))).admitted == 32
    assert (await other.exchange(FlowReport(), ask(32))).admitted == 0
    await silence(client, dead._process, HEARTBEAT_SECONDS + 1)
    assert (await other.exchange(FlowReport(), ask(32))).admitted == 0, "it may have been late"
    await silence(client, dead._process, OVERDUE_SECONDS)
    assert (await other.exchange(FlowReport(), ask(32))).admitted == 16
    await silence(client, dead._process, LIVE_SECONDS)
    assert (await other.exchange(FlowReport(), ask(32))).admitted == 32


async def test_places_that_one_process_no_longer_needs_are_anothers_at_once(client: Redis):
    one, two = (FlowControl(state) for state in await open_two(client, 32))

    async def hold(flow: FlowControl, until: asyncio.Event) -> None:
        async with flow.passage(max_wait_seconds=OVERDUE_SECONDS - 1):
            began[flow] += 1
            await until.wait()

    began = {one: 0, two: 0}
    leave, never = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(32):
            group.create_task(hold(one, leave))
        while began[one] < 32:
            await asyncio.sleep(0.005)
        for _ in range(16):
            group.create_task(hold(two, never))
        await asyncio.sleep(0.05)
        assert began[two] == 0
        leave.set()
        while began[two] < 16:
            await asyncio.sleep(0.005)
        never.set()
    for flow in (one, two):
        await flow.close()


async def test_processes_share_the_rates(client: Redis):
    one, two = (open_shared(client, "scope", BOUNDS) for _ in range(2))
    assert (await one.exchange(FlowReport(successes=1, requests_per_minute=60.0), ask(1))).admitted == 1
    assert (await two.exchange(FlowReport(), ask(1))).admitted == 0


async def test_endpoints_and_keys_share_nothing(client: Redis):
    scopes = {scope_of(url, key) for url in ("https://a", "https://b") for key in ("sk-one", "sk-two")}
    assert len(scopes) == 4
    one, two = (open_shared(client, scope, BOUNDS) for scope in sorted(scopes)[:2])
    await one.exchange(FlowReport(closed_seconds=60.0), Demand())
    assert (await two.exchange(FlowReport(), ask(1))).admitted == 1


async def test_the_key_is_not_in_redis_and_everything_expires(client: Redis):
    state = open_shared(client, scope_of("https://a", "sk-secret"), FlowLimits(100, longest_pause_seconds=9000.0))
    await state.exchange(FlowReport(closed_seconds=7200.0), Demand())
    names = [name.decode() for name in await client.keys("*")]
    assert len(names) == 2
    assert "sk-secret" not in " ".join(names)
    assert min([await client.ttl(name) for name in names]) > 0
    assert await client.ttl(min(names, key=len)) > 7200, "the pause outlives no other state"


async def test_a_pause_that_another_process_left_in_redis_is_bounded_and_ends_in_all(client: Redis):
    flows = [FlowControl(open_shared(client, "scope", BOUNDS)) for _ in range(2)]
    # A release without a bound wrote it, or Redis' clock was put back.
    await cast("Awaitable[int]", client.hset("saiten:flow:{scope}", "opens_at", str(time.time() + 86_400)))
    for flow in flows:
        assert 500 < await flow.find_pause() <= BOUNDS.longest_pause_seconds
        with pytest.raises(JudgeUnavailable, match="no calls for another"):
            async with flow.passage(max_wait_seconds=10):
                pass
    assert await flows[0].reopen() > 500
    for flow in reversed(flows):
        async with flow.passage(max_wait_seconds=10):
            pass
        await flow.close()


async def test_a_pause_that_redis_missed_is_told_when_it_is_back(client: Redis):
    state = open_shared(client, "scope", BOUNDS)
    await state.exchange(FlowReport(), Demand())
    state._outage._lasts, state._outage._look_at = True, math.inf
    await state.exchange(FlowReport(closed_seconds=60.0), Demand())
    state._outage._lasts = False
    assert (await state.exchange(FlowReport(), ask(1))).closed_seconds == pytest.approx(60, abs=5)
    assert (await open_shared(client, "scope", BOUNDS).exchange(FlowReport(), ask(1))).admitted == 0


async def test_one_exchange_is_one_command(client: Redis):
    state = open_shared(client, "scope", BOUNDS)
    await state.exchange(FlowReport(), ask(8))
    before = (await client.info("commandstats")).get("cmdstat_evalsha", {}).get("calls", 0)
    await state.exchange(FlowReport(), ask(8))
    assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] == before + 1


async def test_without_redis_a_process_keeps_to_its_share(client: Redis, caplog: pytest.LogCaptureFixture):
    port = free_port()
    now = [1000.0]
    with redis_on(port) as url:
        own = Redis.from_url(url)
        states = [RedisFlowState(own, "scope", BOUNDS, clock=lambda: now[0]) for _ in range(2)]
        for state in states:
            await state.exchange(FlowReport(successes=100, requests_per_minute=60.0), Demand())
        await states[0].exchange(FlowReport(), Demand())
    grant = await states[0].exchange(FlowReport(), ask(9))
    assert (grant.places, grant.admitted) == (50, 1)
    assert grant.wait_seconds == pytest.approx(1.9, abs=0.2), "half of one a second"
    assert (await states[0].exchange(FlowReport(closed_seconds=9.0), ask(1))).closed_seconds == pytest.approx(9)
    assert len([one for one in caplog.records if one.name == "saiten.flow"]) == 1
    with redis_on(port):
        assert (await states[0].exchange(FlowReport(), Demand())).places == 50, "not asked again so soon"
        now[0] += 60
        # Beside the calls it finds Redis again, where nobody has left anything.
        while (await states[0].exchange(FlowReport(), Demand())).places != FIRST_CALLS:
            await asyncio.sleep(0.005)
        assert (await states[0].exchange(ANSWERED, Demand())).places == FIRST_LIMIT + 1
        for state in states:
            await state.close()
        await own.aclose()


async def test_a_redis_that_hangs_delays_one_exchange_only():
    asked = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(1)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    client = Redis.from_url(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    now = [1000.0]
    state = RedisFlowState(client, "scope", BOUNDS, timeout_seconds=0.05, clock=lambda: now[0])
    for _ in range(3):
        assert (await state.exchange(FlowReport(), ask(1))).admitted == 1
    while not asked:  # a busy machine may take longer to accept a connection than the client waits for its answer
        await asyncio.sleep(0.005)
    assert len(asked) == 1
    now[0] += 60
    assert (await state.exchange(FlowReport(), ask(1))).admitted == 1, "it is looked for beside the calls"
    while len(asked) < 2:
        await asyncio.sleep(0.005)
    await state.close()
    await client.aclose()
    server.close()
    await server.wait_closed()


def test_every_constant_of_the_script_is_filled_in():
    assert "@" not in read_script()
