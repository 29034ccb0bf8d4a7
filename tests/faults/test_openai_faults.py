"""The judge's endpoint slow, broken, over its limits or against us."""

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import openai
import pytest
from redis.asyncio import Redis

from saiten_server.core.errors import (
    JudgeQuotaExhausted,
    JudgeRefusedRequest,
    JudgeUnauthorized,
    JudgeUnavailable,
    SettingsInvalid,
    UpstreamError,
)
from saiten_server.platform.flow_state import LONGEST_PAUSE_SECONDS, Demand, FlowLimits, FlowReport
from saiten_server.platform.redis.flow import RedisFlowState
from saiten_server.providers.flow_control import FlowControl, open_local_flow
from saiten_server.providers.openai.errors import TREATMENTS, may_retry, read_wait, treat
from saiten_server.providers.openai.parameters import LARGEST_PLAIN_REPLY_BYTES, bound_reply
from tests.support.dict_cache import FakeTime
from tests.support.fake_openai import (
    Answer,
    Behaviour,
    FakeOpenAI,
    Request,
    flood,
    flood_error,
    garble,
    hang,
    refuse,
    reset,
    status,
    trickle,
    valid,
)
from tests.support.faults import words
from tests.support.judges import KEY, make_judge, make_task, open_bench, ratings_of
from tests.support.small_rubrics import make_dialogue

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def limited(**headers: str) -> Behaviour:
    return status(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)


@pytest.mark.parametrize(
    "fault",
    [status(500), status(502), status(503), status(408), status(409), limited(), reset, status(529)],
    ids=["500", "502", "503", "408", "409", "429", "reset", "529"],
)
async def test_a_passing_fault_is_tried_again(fault: Behaviour):
    async with open_bench() as bench:
        bench.fake.script(fault, fault)
        judgement = await bench.rate()
        assert len(bench.fake.requests) == 3
        assert judgement.usage.judge_calls == 1
        assert ratings_of(judgement)["overall"] == (5,)


@pytest.mark.parametrize("fault", [hang, trickle])
async def test_a_call_that_does_not_end_is_cut_and_tried_again(fault: Behaviour):
    async with open_bench(timeout_seconds=0.3) as bench:
        bench.fake.script(fault)
        assert ratings_of(await bench.rate())["overall"] == (5,)
        assert len(bench.fake.requests) == 2


@pytest.mark.parametrize(
    ("fault", "error", "requests"),
    [
        (status(500), JudgeUnavailable, 4),
        (limited(), JudgeUnavailable, 4),
        (reset, JudgeUnavailable, 4),
        (status(429, "You exceeded your quota", code="insufficient_quota"), JudgeQuotaExhausted, 1),
        (status(429, "You exceeded your quota", type="insufficient_quota"), JudgeQuotaExhausted, 1),
        (status(402, "Insufficient Balance"), JudgeQuotaExhausted, 1),
        (status(401, "Incorrect API key"), JudgeUnauthorized, 1),
        (status(403, "Forbidden"), JudgeUnauthorized, 1),
        (status(400, "Invalid schema", param="messages"), JudgeRefusedRequest, 1),
        (status(404, "The model `x` does not exist", code="model_not_found"), JudgeRefusedRequest, 1),
        (status(413, "Too large"), JudgeRefusedRequest, 1),
        (status(422, "No"), JudgeRefusedRequest, 1),
        (
            status(400, "'max_completion_tokens' is too large: the maximum context length is 4096"),
            JudgeRefusedRequest,
            1,
        ),
        (status(400, "max_completion_tokens", code="context_length_exceeded"), JudgeRefusedRequest, 1),
    ],
)
async def test_a_lasting_fault_becomes_its_error(fault: Behaviour, error: type[Exception], requests: int):
    async with open_bench(fault) as bench:
        with pytest.raises(error):
            await bench.rate()
        assert len(bench.fake.requests) == requests
        assert bench.cache.entries == {}


async def test_an_endpoint_that_is_not_there_is_unavailable():
    judge = make_judge("http://127.0.0.1:9/v1")
    with pytest.raises(JudgeUnavailable, match="OPENAI_BASE_URL"):
        await judge.judge(make_task())
    await judge.close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [(status(401), JudgeUnauthorized), (status(429, code="insufficient_quota"), JudgeQuotaExhausted)],
)
async def test_an_account_that_is_refused_costs_no_more_calls_than_were_in_flight(fault, error):
    async with open_bench(fault, concurrency=3) as bench:
        with pytest.raises(error):
            await bench.rate(samples=16)
        assert len(bench.fake.requests) <= 3
        seen = len(bench.fake.requests)
        with pytest.raises(error):
            await bench.rate(None, make_dialogue("別の応答"))
        assert len(bench.fake.requests) == seen + 1, "a later caller asks anew: the account may have been mended"


async def test_what_belongs_to_a_refused_piece_of_work_and_comes_late_makes_no_call():
    async with open_bench(status(401)) as bench:
        task = make_task()
        with pytest.raises(JudgeUnauthorized):
            await bench.judge.judge(task)
        seen = len(bench.fake.requests)
        with pytest.raises(JudgeUnauthorized):
            await bench.judge.judge(replace(task, dialogue=make_dialogue("別の応答")))
        assert len(bench.fake.requests) == seen


@pytest.mark.parametrize("headers", [{"retry-after-ms": "30"}, {"Retry-After": "1"}, {"Retry-After": "0.5"}])
async def test_a_wait_that_was_asked_for_is_kept(headers: dict[str, str]):
    time = FakeTime()
    async with open_bench(sleep=time.sleep, clock=time.clock) as bench:
        bench.fake.script(limited(**headers))
        await bench.rate()
        asked = float(headers.get("Retry-After", 0)) or float(headers["retry-after-ms"]) / 1000
        assert asked <= sum(time.slept) <= asked + 0.5


async def test_a_wait_beyond_the_deadline_is_given_up_at_once():
    async with open_bench(limited(**{"Retry-After": "300"})) as bench:
        with pytest.raises(JudgeUnavailable) as caught:
            await bench.rate()
        assert caught.value.retry_after_seconds == 300
        assert len(bench.fake.requests) == 1
        with pytest.raises(JudgeUnavailable) as again:
            await bench.rate(None, make_dialogue("別の応答"))
        assert again.value.retry_after_seconds == pytest.approx(300, abs=5)
        assert len(bench.fake.requests) == 1, "nobody calls before the time that the endpoint asked for"


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "1e9"},
        {"Retry-After": "999999999"},
        {"Retry-After": "Tue, 01 Jan 2999 00:00:00 GMT"},
        {"Retry-After": "-5"},
        {"Retry-After": "9" * 5000},
        {"retry-after-ms": "1e300"},
        {"retry-after-ms": "-1"},
        {"retry-after-ms": "nan"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "999999h"},
    ],
)
async def test_no_header_stops_the_calls_for_longer_than_is_believed(headers: dict[str, str]):
    time = FakeTime()
    async with open_bench(sleep=time.sleep, clock=time.clock, max_attempts=1) as bench:
        bench.fake.script(limited(**headers))
        with pytest.raises(JudgeUnavailable) as caught:
            await bench.rate()
        assert (caught.value.retry_after_seconds or 0.0) <= LONGEST_PAUSE_SECONDS
        # A caller without a deadline goes on by itself.
        await bench.judge.judge(replace(make_task(None, make_dialogue("別の応答")), lane="batch"))
        assert sum(time.slept) <= LONGEST_PAUSE_SECONDS + 1
        assert len(bench.fake.requests) == 2


async def test_a_reply_that_states_a_limit_of_years_is_one_among_others():
    time = FakeTime()
    stated = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "999999h"}
    async with open_bench(
        lambda asked: replace(valid(asked), headers=stated), sleep=time.sleep, clock=time.clock
    ) as bench:
        for text in ("一つ", "二つ", "三つ"):
            await bench.rate(None, make_dialogue(text))
        assert time.slept == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after-ms": "-3"}, None),
        ({"retry-after-ms": "9" * 5000, "retry-after": "9" * 5000}, None),
        ({"retry-after-ms": "nan", "retry-after": "4"}, 4.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "999999999"}, 86400.0),
        ({"retry-after-ms": "1e300"}, 86400.0),
        ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:05 -0000"}, 5.0),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None):
    assert read_wait(headers, now=NOW) == seconds


async def test_a_call_gets_no_more_time_than_its_deadline():
    async with open_bench(hang, deadline_seconds=0.2) as bench:
        with pytest.raises(JudgeUnavailable, match=r"no reply within 0\.2 s"):
            await bench.rate()
        assert len(bench.fake.requests) == 1


async def test_who_waits_for_a_place_waits_no_longer_than_that():
    flow = open_local_flow(FlowLimits(1))
    async with open_bench(deadline_seconds=0.3, flow=flow) as bench:
        async with flow.passage(max_wait_seconds=60):
            rates = (bench.rate(None, make_dialogue(f"応答 {number}")) for number in range(6))
            for refused in await asyncio.gather(*rates, return_exceptions=True):
                assert isinstance(refused, JudgeUnavailable)
                # The two limits end at the same moment: on a busy machine either is noticed first.
                busy, slow = "the judge is busy: no place within", "the judge gave no reply within 0.3 s"
                assert busy in str(refused) or slow in str(refused)
                assert refused.retry_after_seconds == (1.0 if busy in str(refused) else None)
        assert bench.fake.requests == []
        async with flow.passage(max_wait_seconds=60):
            pass  # The place is free again


async def test_a_refused_parameter_buys_no_second_deadline():
    async with open_bench(deadline_seconds=0.3) as bench:
        bench.fake.script(refuse("seed"), hang)
        with pytest.raises(JudgeUnavailable, match="all tries and waits included"):
            await bench.rate()
        assert len(bench.fake.requests) == 2


BOMB = gzip.compress(bytes(32 * 2**20))
"""32 MiB in some 32 KB."""


@pytest.mark.parametrize(
    "fault",
    [
        flood,
        lambda _: Answer(body=BOMB, headers={"content-encoding": "gzip"}),
        lambda _: Answer(body=b" " * (LARGEST_PLAIN_REPLY_BYTES + 1)),
    ],
    ids=["endless", "gzip bomb", "one byte too many"],
)
async def test_a_reply_larger_than_any_verdict_is_not_read_and_is_no_outage(fault: Behaviour):
    async with open_bench(fault, malformed_retries=1) as bench:
        judgement = await bench.rate()
        assert len(bench.fake.requests) == 2
        assert ratings_of(judgement)["overall"] == (None,)
        assert "larger than any verdict" in str(judgement.verdicts["overall"].samples[0])


@pytest.mark.parametrize(
    ("fault", "error", "requests"),
    [
        (flood_error, JudgeUnavailable, 2),
        (lambda _: Answer(400, body=BOMB, headers={"content-encoding": "gzip"}), JudgeRefusedRequest, 1),
    ],
    ids=["endless", "gzip bomb"],
)
async def test_an_error_larger_than_any_verdict_is_what_its_status_says(fault, error, requests: int):
    async with open_bench(fault, max_attempts=2) as bench:
        with pytest.raises(error):
            await bench.rate()
        assert len(bench.fake.requests) == requests


def padded(size: int) -> Behaviour:
    """A valid completion of that many bytes, with token probabilities where they are asked for."""
    return lambda request: Answer(body=json.dumps(valid(request).body).encode().ljust(size))


async def test_the_largest_reply_is_read():
    async with open_bench(padded(LARGEST_PLAIN_REPLY_BYTES)) as bench:
        assert ratings_of(await bench.rate())["overall"] == (5,)


async def test_token_probabilities_may_take_more():
    async with open_bench(padded(bound_reply(2048)), max_attempts=1) as bench:
        assert (await bench.rate(expected=True)).verdicts["overall"].expected is not None
        bench.fake.default = padded(bound_reply(2048) + 1)
        (unrated,) = (await bench.rate(None, make_dialogue("別の応答"), expected=True)).verdicts["overall"].samples
        assert "larger than any verdict" in str(unrated)


@pytest.mark.parametrize(("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_compressed_reply_is_read(encoding: str, encode: Callable[[bytes], bytes]):
    def answer(request: Request) -> Answer:
        return Answer(body=encode(json.dumps(valid(request).body).encode()), headers={"content-encoding": encoding})

    async with open_bench(answer) as bench:
        assert ratings_of(await bench.rate())["overall"] == (5,)


async def test_a_reply_whose_compression_is_broken_is_tried_again():
    async with open_bench() as bench:
        bench.fake.script(lambda _: Answer(body=b"no gzip", headers={"content-encoding": "gzip"}))
        assert ratings_of(await bench.rate())["overall"] == (5,)
        assert len(bench.fake.requests) == 2


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(code: int):
    async with FakeOpenAI() as elsewhere:
        location = f"{elsewhere.base_url}/chat/completions"
        async with open_bench(status(code, f"see {location}", headers={"location": location})) as bench:
            with pytest.raises(JudgeRefusedRequest, match="redirect; check OPENAI_BASE_URL") as caught:
                await bench.rate()
            assert len(bench.fake.requests) == 1
        assert elsewhere.requests == []
        assert location not in str(caught.value)


async def test_the_client_logs_no_text_and_no_key(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "aiohttp"):
        caplog.set_level(logging.DEBUG, logger=name)
    async with open_bench() as bench:
        await bench.rate(None, make_dialogue("秘密の応答"))
        logging.getLogger("aiohttp.client").debug("what a client says is seen here")
    assert "what a client says is seen here" in caplog.text
    for text in ("秘密", "\\u79d8", KEY, "自然さ", "naturalness"):
        assert text not in caplog.text


@pytest.mark.parametrize("code", [400, 401, 429, 500])
async def test_no_error_and_no_log_holds_the_key(code: int, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, logger="saiten")
    words = f"Incorrect API key provided: {KEY}. Or sk-proj-abcdef****wxyz. " + "長" * 500
    async with open_bench(status(code, words), max_attempts=1) as bench:
        with pytest.raises(UpstreamError) as caught:
            await bench.rate()
    told = str(caught.value)
    assert KEY not in told + caplog.text
    assert "sk-" not in told
    assert "redirect" not in told
    assert len(told) < 320


@pytest.mark.parametrize("key", ["鍵", "key\n"])
def test_a_key_that_no_header_can_carry_is_refused(key: str):
    with pytest.raises(SettingsInvalid, match="OPENAI_API_KEY"):
        make_judge("http://127.0.0.1:9/v1", api_key=key)


def every_subclass(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(every_subclass(part) for part in kind.__subclasses__()))


def test_every_error_of_the_vendor_has_a_treatment():
    kinds = every_subclass(openai.OpenAIError)
    assert len(kinds) > 15
    assert all(any(issubclass(kind, row) for row, _ in TREATMENTS) for kind in kinds)


def test_the_table_has_the_special_before_the_general():
    rows = [kind for kind, _ in TREATMENTS]
    assert not [
        (early, late) for place, early in enumerate(rows) for late in rows[place + 1 :] if issubclass(late, early)
    ]


def test_an_error_of_ours_is_not_the_vendors():
    assert treat(ValueError("x")) is None
    assert not may_retry(JudgeUnavailable(words("x")))


async def test_what_the_headers_tell_holds_for_the_calls_that_follow():
    time = FakeTime()

    def tell(request: Request) -> Answer:
        return Answer(body=valid(request).body, headers={"x-ratelimit-limit-requests": "60"})

    async with open_bench(tell, sleep=time.sleep, clock=time.clock, deadline_seconds=600) as bench:
        await asyncio.gather(*(bench.rate(None, make_dialogue(f"応答 {number}")) for number in range(20)))
        assert len(bench.fake.requests) == 20
        assert 10 <= sum(time.slept) <= 20, "one a second, less those that were on their way"


async def test_a_spent_limit_is_waited_for():
    time = FakeTime()
    spent = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s"}
    async with open_bench(sleep=time.sleep, clock=time.clock) as bench:
        bench.fake.script(lambda request: Answer(body=valid(request).body, headers=spent))
        await bench.rate()
        await bench.rate(None, make_dialogue("別の応答"))
        assert sum(time.slept) >= 6


async def test_a_pause_asked_for_with_a_503_is_kept_by_everybody():
    time = FakeTime()
    async with open_bench(sleep=time.sleep, clock=time.clock) as bench:
        bench.fake.script(status(503, headers={"Retry-After": "9"}))
        await bench.rate()
        assert 9 <= sum(time.slept) <= 9.75


async def test_an_idle_connection_that_the_endpoint_closes_costs_no_call():
    async with open_bench() as bench:
        await bench.rate()
        bench.fake.drop_connections()
        assert ratings_of(await bench.rate(None, make_dialogue("別の応答")))["overall"] == (5,)


async def test_connections_are_used_again():
    async with open_bench() as bench:
        for number in range(5):
            await bench.rate(None, make_dialogue(f"応答 {number}"))
        assert bench.fake.connections == 1


async def test_an_answer_that_is_no_http_is_a_passing_fault():
    async with open_bench() as bench:
        bench.fake.script(garble)
        assert ratings_of(await bench.rate())["overall"] == (5,)
        assert len(bench.fake.requests) == 2


@pytest.mark.parametrize("fault", [reset, garble])
async def test_a_broken_connection_is_not_called_slow(fault: Behaviour):
    async with open_bench(fault, max_attempts=1) as bench:
        with pytest.raises(JudgeUnavailable, match="cannot be reached"):
            await bench.rate()


async def test_a_slow_answer_is_called_slow():
    async with open_bench(hang, max_attempts=1, timeout_seconds=0.1) as bench:
        with pytest.raises(JudgeUnavailable, match="did not answer in time"):
            await bench.rate()


async def test_two_processes_keep_one_pause(redis_url: str):
    client = Redis.from_url(redis_url)
    flows = [FlowControl(RedisFlowState(client, "scope", FlowLimits(8), timeout_seconds=60)) for _ in range(2)]
    async with FakeOpenAI() as fake:
        judges = [make_judge(fake.base_url, flow=flow) for flow in flows]
        fake.script(limited(**{"Retry-After": "1"}))
        first = asyncio.create_task(judges[0].judge(make_task()))
        while not fake.requests:
            await asyncio.sleep(0.001)
        state = RedisFlowState(client, "scope", FlowLimits(8), timeout_seconds=60)
        while not (closed := (await state.exchange(FlowReport(), Demand())).closed_seconds):
            await asyncio.sleep(0.001)
        began, sent = asyncio.get_running_loop().time(), len(fake.requests)
        await judges[1].judge(make_task(None, make_dialogue("別の応答")))
        assert sent == 1
        assert asyncio.get_running_loop().time() - began >= closed - 0.01
        await first
        await asyncio.gather(*(judge.close() for judge in judges), *(flow.close() for flow in flows))
    await client.aclose()


async def test_a_caller_that_goes_away_ends_the_call():
    async with open_bench(hang) as bench:
        task = asyncio.create_task(bench.rate())
        while not bench.fake.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while bench.fake.in_flight:
            await asyncio.sleep(0.005)
