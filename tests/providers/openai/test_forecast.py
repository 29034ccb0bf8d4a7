"""The OpenAI judge's estimates against the prompts that it does send."""

import json

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import LanguageNotSupported
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.token_estimate import estimate_tokens
from saiten_server.providers.openai.prices import SURELY_CACHEABLE_TOKENS, read_prices
from saiten_server.providers.ports import JudgingTask
from tests.support.judges import make_judge, make_task, open_bench
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

LONG = Dialogue(
    context=tuple(Utterance(speaker="甲乙"[turn % 2], text=f'{turn}回目の\n「発話」 "です" <b>') for turn in range(60)),
    response="はい。" * 200,
)


async def estimate(task: JudgingTask):
    judge = make_judge("http://127.0.0.1:9/v1")
    try:
        return judge.estimate(task)
    finally:
        await judge.close()


@pytest.mark.parametrize("rubric", [joint_rubric(), independent_rubric()], ids=lambda rubric: rubric.calls)
@pytest.mark.parametrize("dialogue", [make_dialogue(), LONG], ids=["short", "long"])
async def test_prompts_are_estimated_as_they_are_sent(rubric, dialogue):
    task = make_task(rubric, dialogue, references=("参考",))
    async with open_bench() as bench:
        estimate = bench.judge.estimate(task)
        assert not bench.fake.requests
        await bench.judge.judge(task)
        sent = bench.fake.requests
    users = sum(estimate_tokens(request["messages"][1]["content"]) for request in sent)
    systems = sum(estimate_tokens(request["messages"][0]["content"]) for request in sent)
    schemas = sum(
        estimate_tokens(json.dumps(request["response_format"]["json_schema"]["schema"], separators=(",", ":")))
        for request in sent
    )
    assert estimate.calls == len(sent)
    # The digest in the boundary lines is another one for each message.
    assert estimate.prompt_tokens - estimate.prefix_tokens == pytest.approx(users, rel=0.05)
    assert estimate.prefix_tokens == systems + schemas + 10 * len(sent)


async def test_reasons_cost_more_and_no_reply_passes_its_limit():
    bare = await estimate(make_task())
    reasoned = await estimate(make_task(explain=True))
    verdict = '{"naturalness": 3, "coherence": 1, "formality": 1, "relevance": 3, "overall": 5}'
    assert len(verdict) / 4 < bare.completion_tokens < len(verdict)
    assert bare.completion_tokens + 5 * 50 < reasoned.completion_tokens < 2048
    judge = make_judge("http://127.0.0.1:9/v1", max_output_tokens=64)
    assert judge.estimate(make_task(explain=True)).completion_tokens == 64
    await judge.close()


async def test_the_cost_is_the_price_lists():
    found = await estimate(make_task())
    spent = {"prompt_tokens": found.prompt_tokens, "completion_tokens": found.completion_tokens}
    assert found.cost_usd == read_prices().cost("gpt-6-luna", cached_tokens=0, **spent)
    dear = await estimate(make_task(model="gpt-6-astra"))
    assert dear.cost_usd == read_prices().cost("gpt-6-astra", cached_tokens=0, **spent)


async def test_a_model_without_a_price_has_tokens_and_no_cost():
    found = await estimate(make_task(model="our-own"))
    assert found.prompt_tokens > 0
    assert (found.cost_usd, found.cost_usd_prefix_cached) == (None, None)


async def test_only_a_long_prefix_is_kept_by_the_provider():
    short = await estimate(make_task(independent_rubric()))
    assert short.cost_usd_prefix_cached == short.cost_usd
    long = await estimate(make_task(joint_rubric(), explain=True))
    assert long.prefix_tokens >= SURELY_CACHEABLE_TOKENS
    spent = {"prompt_tokens": long.prompt_tokens, "completion_tokens": long.completion_tokens}
    assert long.cost_usd_prefix_cached == read_prices().cost("gpt-6-luna", cached_tokens=long.prefix_tokens, **spent)
    assert long.cost_usd_prefix_cached < long.cost_usd


async def test_a_language_that_the_rubric_lacks_is_refused():
    with pytest.raises(LanguageNotSupported):
        await estimate(JudgingTask(joint_rubric(), "ko", make_dialogue(), JudgeOptions()))
