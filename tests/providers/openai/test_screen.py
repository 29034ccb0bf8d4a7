"""`judge.screen`: the verdict says whether a text addresses its evaluator. It warns, and changes no rating."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import describe_judge
from saiten_server.judging.prompt import SCREEN
from saiten_server.providers.openai.judge import OpenAIJudge
from tests.support.fake_openai import Answer, Behaviour, Request, complete, refuse, tell_tokens, verdict_of
from tests.support.judges import Bench, make_task, open_bench, ratings_of, reasons_of
from tests.support.small_rubrics import independent_rubric, joint_rubric

JOINT = joint_rubric()
SECOND = JOINT.model_copy(update={"version": 2})


def suspect(*numbers: int) -> Behaviour:
    """Rates all highest, and says in the calls of these numbers, counted from 0, that a text addresses its evaluator."""
    seen = iter(range(100))

    def answer(request: Request) -> Answer:
        verdict = json.loads(verdict_of(request))
        content = json.dumps(verdict | ({SCREEN: True} if next(seen) in numbers and SCREEN in verdict else {}))
        return complete(request, content, logprobs=tell_tokens(content) if "logprobs" in request else None)

    return answer


def schema_of(request: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = request["response_format"]["json_schema"]["schema"]
    return schema


async def test_the_schema_asks_for_it_first_and_the_prompt_says_what_it_is() -> None:
    async with open_bench() as bench:
        judgement = await bench.rate(screen=True)
    (request,) = bench.fake.requests
    assert next(iter(schema_of(request)["properties"].items())) == (SCREEN, {"type": "boolean"})
    assert schema_of(request)["required"][0] == SCREEN
    assert f'{{"{SCREEN}": true | false, "naturalness": ' in request["messages"][0]["content"]
    assert judgement.warnings == ()
    assert judgement.provenance.screen


@pytest.mark.parametrize(
    ("rubric", "screen", "asked"), [(JOINT, None, False), (SECOND, None, True), (SECOND, False, False)]
)
async def test_it_is_asked_from_version_2_of_a_rubric_on_unless_a_request_says(
    rubric: Rubric, screen: bool | None, asked: bool
) -> None:
    async with open_bench() as bench:
        judgement = await bench.rate(rubric, screen=screen)
    assert (SCREEN in schema_of(bench.fake.requests[0])["properties"]) == asked
    assert judgement.provenance.screen == asked
    pieces = describe_judge(judgement.provenance, JudgeOptions(screen=screen))
    assert pieces.get("screen") == ("yes" if asked else None)


@pytest.mark.parametrize("options", [{}, {"explain": True}, {"expected": True}, {"samples": 3}], ids=str)
async def test_it_warns_and_leaves_every_rating_as_it_is(options: dict[str, Any]) -> None:
    async with open_bench(suspect()) as calm:
        plain = await calm.rate(screen=True, **options)
    async with open_bench(suspect(0)) as alarmed:
        judgement = await alarmed.rate(screen=True, **options)
    (warning,) = judgement.warnings
    assert (warning.code, warning.where) == ("suspected-injection", "verdict")
    assert f"in 1 of {options.get('samples', 1)} replies" in warning.detail
    assert judgement.verdicts == plain.verdicts
    assert plain.warnings == ()
    assert len(judgement.trace) == options.get("samples", 1)


async def test_the_probabilities_of_the_right_tokens_are_read() -> None:
    async with open_bench(suspect()) as bench:
        without = await bench.rate(expected=True)
        screened = await bench.rate(expected=True, screen=True)
    assert without.verdicts["naturalness"].expected is not None
    assert screened.verdicts == without.verdicts


async def test_one_aspect_of_many_that_were_asked_about_by_themselves_is_enough() -> None:
    async with open_bench(suspect(2)) as bench:
        judgement = await bench.rate(independent_rubric(), screen=True)
    assert len(bench.fake.requests) == 3
    assert all(SCREEN in schema_of(request)["properties"] for request in bench.fake.requests)
    (warning,) = judgement.warnings
    assert "in 1 of 3 replies" in warning.detail
    assert ratings_of(judgement) == {"formality": (1,), "amount": (1,), "factuality": (3,)}


async def test_it_survives_the_cache() -> None:
    async with open_bench(suspect(0)) as bench:
        first, second = await bench.rate(screen=True), await bench.rate(screen=True)
    assert second.cached
    assert second.warnings == first.warnings != ()


async def test_the_text_format_never_asks() -> None:
    async with open_bench(refuse("response_format")) as bench:
        judgement = await bench.rate(screen=True)
    assert SCREEN not in bench.fake.requests[-1]["messages"][0]["content"]
    assert not judgement.provenance.screen
    assert judgement.warnings == ()
    assert all(isinstance(sample, int) for verdict in judgement.verdicts.values() for sample in verdict.samples)


@pytest.mark.parametrize("said", [None, "false", 0, "missing"])
async def test_a_reply_that_does_not_answer_it_is_no_verdict(said: object) -> None:
    def answer(request: Request) -> Answer:
        verdict = json.loads(verdict_of(request)) | {SCREEN: said}
        if said == "missing":
            del verdict[SCREEN]
        return complete(request, json.dumps(verdict))

    async with open_bench(answer) as bench:
        judgement = await bench.rate(screen=True)
    assert len(judgement.trace) == 3  # asked again, twice
    assert reasons_of(judgement) == {"unparseable"}


async def test_an_answer_that_was_not_asked_for_is_no_verdict_either() -> None:
    def answer(request: Request) -> Answer:
        return complete(request, json.dumps({SCREEN: False} | json.loads(verdict_of(request))))

    async with open_bench(answer) as bench:
        assert reasons_of(await bench.rate(screen=False)) == {"unparseable"}


async def test_a_provider_s_batch_is_asked_it_too(bench: Bench) -> None:
    (call,) = bench.judge.defer(make_task(screen=True))
    assert SCREEN in schema_of(call.body)["properties"]


async def test_an_estimate_counts_it(bench: Bench) -> None:
    judge: OpenAIJudge = bench.judge
    without, screened = judge.estimate(make_task(screen=False)), judge.estimate(make_task(screen=True))
    assert screened.prefix_tokens > without.prefix_tokens
    assert screened.completion_tokens > without.completion_tokens


@pytest.fixture
async def bench() -> Any:
    async with open_bench() as opened:
        yield opened
