"""Where a prompt's fixed part is marked for the provider's prompt cache, and what the marks do not touch."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from saiten_server.core.errors import JudgeRefusedRequest
from saiten_server.platform.flow_state import FlowLimits
from saiten_server.providers.flow_control import open_local_flow
from saiten_server.providers.openai.endpoint import OpenAIEndpoint, RequestBodies
from saiten_server.providers.openai.parameters import Question, find_refused, takes_marks
from saiten_server.providers.openai.reply import Reply
from tests.support.fake_openai import Answer, FakeOpenAI, refuse, status, valid
from tests.support.judges import make_judge, make_task, open_bench

MARK = {"mode": "explicit"}
NAMES = {"prompt_cache_key", "prompt_cache_options"}


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("gpt-6-luna", True),
        ("gpt-6-luna-2026-09-22", True),
        ("gpt-6.1-terra", True),
        ("gpt-5.6", True),
        ("gpt-5.10-luna", True),
        ("gpt-12", True),
        ("gpt-5.5-pro", False),
        ("gpt-5", False),
        ("gpt-4.1", False),
        ("gpt-4o", False),
        ("o5", False),
        ("ft:gpt-6-luna:us:one:2", False),
        ("openai/gpt-6-luna", False),
        ("gpt-oss-120b", False),
        ("", False),
    ],
)
def test_models_from_gpt_5_6_on_take_marks(model: str, taken: bool) -> None:
    assert takes_marks(model) is taken


async def ask_for(base_url: str | None, model: str = "gpt-6-luna") -> Question:
    """The question that a judge at that address would ask."""
    judge = make_judge(base_url, model=model)
    try:
        return judge._prepare(make_task())[0]
    finally:
        await judge.close()


@pytest.mark.parametrize(
    ("base_url", "model", "marked"),
    [
        (None, "gpt-6-luna", True),
        ("https://api.openai.com/v1/", "gpt-6-luna", True),
        ("https://jp.api.openai.com/v1", "gpt-6-luna", True),
        (None, "gpt-4.1", False),
        ("https://ours.openai.azure.com/openai/v1", "gpt-6-luna", False),
        ("https://api.openai.com.example/v1", "gpt-6-luna", False),
        ("https://notapi.openai.com/v1", "gpt-6-luna", False),
        ("https://example.com/api.openai.com", "gpt-6-luna", False),
        ("http://127.0.0.1:9/v1", "gpt-6-luna", False),
    ],
)
async def test_only_openais_own_service_is_sent_marks(base_url: str | None, model: str, marked: bool) -> None:
    question = await ask_for(base_url, model)
    body = question.body()
    assert question.marked is marked
    assert body.keys() >= NAMES if marked else not NAMES & body.keys()
    assert isinstance(body["messages"][0]["content"], list if marked else str)


async def test_the_mark_stands_at_the_end_of_the_fixed_part_and_changes_no_word() -> None:
    question = await ask_for(None)
    plain, body = replace(question, marked=False).body(), question.body()
    system, user = body["messages"]
    fixed = plain["messages"][0]["content"]
    assert system == {
        "role": "system",
        "content": [{"type": "text", "text": fixed, "prompt_cache_breakpoint": MARK}],
    }
    assert user == plain["messages"][1]
    assert body["prompt_cache_options"] == MARK
    rest = NAMES | {"messages"}
    assert {name: value for name, value in body.items() if name not in rest} == {
        name: value for name, value in plain.items() if name != "messages"
    }


async def test_the_cache_key_is_that_of_the_fixed_part_and_of_nothing_else() -> None:
    one = await ask_for(None)
    other = replace(one, structured=replace(one.structured, user="ほかの対話"))
    another = replace(one, structured=replace(one.structured, prefix_digest="f" * 64))
    keys = [question.body()["prompt_cache_key"] for question in (one, other, another)]
    assert keys[0] == keys[1] == f"saiten-{one.structured.prefix_digest[:32]}"
    assert keys[2] == "saiten-" + "f" * 32


async def test_marks_are_in_no_digest_and_no_parameter() -> None:
    marked = await ask_for(None)
    plain = replace(marked, marked=False)
    assert marked.key("http://e") == plain.key("http://e")
    assert marked.parameters() == plain.parameters()
    assert marked.parameters(("prompt_cache_options",)) == plain.parameters()


async def test_marked_and_unmarked_bodies_are_not_mixed_up() -> None:
    marked, bodies = await ask_for(None), RequestBodies()
    for question in (marked, replace(marked, marked=False)) * 2:
        assert json.loads(bodies.write(question, ())) == question.body()


async def test_the_providers_batch_is_sent_no_marks() -> None:
    judge = make_judge(None, model="gpt-6-luna")
    try:
        assert not NAMES & judge.defer(make_task())[0].body.keys()
    finally:
        await judge.close()


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as running:
        yield running


@pytest.fixture
async def endpoint(fake: FakeOpenAI) -> AsyncIterator[OpenAIEndpoint]:
    made = OpenAIEndpoint(
        api_key="k",
        url=fake.base_url,
        timeout_seconds=5,
        deadline_seconds=10,
        max_attempts=1,
        backoff_seconds=0.001,
        flow=open_local_flow(FlowLimits(4)),
    )
    yield made
    await made.close()


def refuse_part(request: dict[str, Any]) -> Answer:
    """As an endpoint does that knows no marks inside messages."""
    where = "messages[0].content[0].prompt_cache_breakpoint"
    if isinstance(request["messages"][0]["content"], str):
        return valid(request)
    return status(400, f"Unknown parameter: '{where}'.", param=where, code="unknown_parameter")(request)


@pytest.mark.parametrize(
    "refusing",
    [
        refuse("prompt_cache_options"),
        refuse("prompt_cache_key", param=False),
        refuse_part,
    ],
    ids=["options", "key", "breakpoint"],
)
async def test_an_endpoint_that_refuses_marks_is_asked_without_them(
    fake: FakeOpenAI, endpoint: OpenAIEndpoint, refusing: Any
) -> None:
    question = await ask_for(None)
    fake.default = refusing
    first, second = [await endpoint.ask(question, "key", make_task()) for _ in range(2)]
    # Refused once, asked again, and remembered.
    assert [NAMES & request.keys() for request in fake.requests] == [NAMES, set(), set()]
    assert first.content == second.content is not None
    # What was given up says nothing of the score: it is not told, and two such results are comparable.
    assert (first.dropped, first.parameters, first.structured) == ((), question.parameters(), True)


async def test_marks_and_a_parameter_may_both_be_refused(fake: FakeOpenAI, endpoint: OpenAIEndpoint) -> None:
    fake.default = refuse("seed", then=refuse("prompt_cache_options"))
    reply = await endpoint.ask(await ask_for(None), "key", make_task())
    assert reply.dropped == ("seed",)
    assert "seed" not in reply.parameters
    assert len(fake.requests) == 3


async def test_a_refusal_that_goes_on_without_marks_is_an_error(fake: FakeOpenAI, endpoint: OpenAIEndpoint) -> None:
    fake.default = status(400, "prompt_cache is broken today")
    with pytest.raises(JudgeRefusedRequest):
        await endpoint.ask(await ask_for(None), "key", make_task())
    assert len(fake.requests) == 2


def test_a_refusal_of_what_was_not_sent_is_none() -> None:
    assert find_refused({"messages": []}, "Unknown parameter: 'prompt_cache_key'", None, None) is None


async def test_what_was_written_to_the_prompt_cache_is_paid_for() -> None:
    def write(request: dict[str, Any]) -> Answer:
        answer = valid(request)
        answer.body["usage"] |= {
            "prompt_tokens": 3000,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 2000},
        }
        return answer

    async with open_bench(write) as bench:
        usage = (await bench.rate()).usage
    # 500 fresh, 500 read, 2,000 written, 30 out: 500 · 0.10 + 500 · 0.01 + 2000 · 0.125 + 30 · 0.50 millionths.
    assert usage.cost_usd == pytest.approx((50 + 5 + 250 + 15) / 1e6)
    assert (usage.prompt_tokens, usage.cached_tokens) == (3000, 500)


def test_an_entry_without_writes_is_as_it_was_before_they_were_counted() -> None:
    """So that a Saiten that is taken back to the version before finds its call cache as it left it."""
    reply = Reply(key="k", content="{}", finish_reason="stop", structured=True, parameters={}, dropped=())
    assert "written_tokens" not in json.loads(reply.model_dump_json())
    written = reply.model_copy(update={"written_tokens": 3})
    assert Reply.model_validate_json(written.model_dump_json()) == written
    assert Reply.model_validate_json(reply.model_dump_json()).written_tokens == 0
