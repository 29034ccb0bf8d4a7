"""The judge `openai` over HTTP: what it sends, what it believes, what it keeps and what it reports."""

import asyncio
import json
import math
from typing import Any

import pytest

from saiten_server.core.errors import JudgeRefusedRequest
from saiten_server.core.evaluation import Unrated
from saiten_server.core.sentences import in_english
from saiten_server.judging.prompt import derive_canary
from saiten_server.judging.verdict import LEAKED
from tests.support.fake_openai import (
    Answer,
    Behaviour,
    Request,
    complete,
    refuse,
    say,
    status,
    tell_tokens,
    valid,
    verdict_of,
)
from tests.support.judges import Bench, details_of, make_judge, open_bench, ratings_of, reasons_of
from tests.support.malformed import JSON_KINDS, TEXT_KINDS
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

HIGHEST = {"naturalness": (3,), "coherence": (1,), "formality": (1,), "relevance": (3,), "overall": (5,)}
ASPECTS = joint_rubric().aspects


@pytest.fixture
async def bench():
    async with open_bench() as opened:
        yield opened


async def test_one_call_rates_every_aspect_of_a_joint_rubric(bench: Bench):
    judgement = await bench.rate()
    assert ratings_of(judgement) == HIGHEST
    (request,) = bench.fake.requests
    assert request["model"] == "gpt-6-luna"
    assert request["temperature"] == 0
    assert request["reasoning_effort"] == "none"
    assert request["response_format"]["json_schema"]["strict"] is True
    assert {"max_completion_tokens", "seed"} <= set(request)
    assert not {"max_tokens", "n", "logprobs", "top_logprobs", "stream"} & set(request)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]


async def test_an_independent_rubric_is_one_call_an_aspect(bench: Bench):
    judgement = await bench.rate(independent_rubric())
    assert ratings_of(judgement) == {"formality": (1,), "amount": (1,), "factuality": (3,)}
    asked = [list(request["response_format"]["json_schema"]["schema"]["properties"]) for request in bench.fake.requests]
    assert sorted(asked) == [["amount"], ["factuality"], ["formality"]]
    assert judgement.usage.judge_calls == len(judgement.trace) == 3


async def test_a_model_that_does_not_reason_is_sent_max_tokens(bench: Bench):
    await bench.rate(model="qwen-4-8b")
    (request,) = bench.fake.requests
    assert "max_tokens" in request
    assert not {"max_completion_tokens", "reasoning_effort"} & set(request)


async def test_the_result_says_how_it_was_made(bench: Bench):
    judgement = await bench.rate()
    origin = judgement.provenance
    assert (origin.kind, origin.endpoint, origin.model) == ("openai", "compatible", "gpt-6-luna-2026-09-22")
    assert origin.fingerprint == "fp_test"
    assert origin.dropped == ()
    assert origin.parameters == {
        "temperature": 0,
        "seed": 20_240_719,
        "reasoning_effort": "none",
        "max_completion_tokens": 2048,
        "response_format": "json_schema",
    }
    (call,) = judgement.trace
    assert call.reply == verdict_of(bench.fake.requests[0])
    assert (call.sample, call.attempt, call.cached, call.finish_reason) == (0, 0, False, "stop")
    assert call.prompt_digest != origin.prompt


async def test_openai_itself_is_named_so():
    judge = make_judge("https://api.openai.com/v1/")
    assert judge._address.kind == "openai"
    await judge.close()


async def test_usage_is_priced_by_the_model_that_answered(bench: Bench):
    usage = (await bench.rate()).usage
    sent = sum(len(message["content"]) for message in bench.fake.requests[0]["messages"])
    got = len(verdict_of(bench.fake.requests[0]))
    assert (usage.judge_calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1, sent, 40, got)
    # gpt-6-luna: 0.10 fresh, 0.01 cached, 0.50 out, each per million.
    assert usage.cost_usd == pytest.approx(((sent - 40) * 0.10 + 40 * 0.01 + got * 0.50) / 1e6, rel=1e-12)
    assert (await bench.rate(model="unheard-of")).usage.cost_usd is None


async def test_the_same_request_again_makes_no_call_and_spends_nothing(bench: Bench):
    first, second = await bench.rate(), await bench.rate()
    assert len(bench.fake.requests) == 1
    assert (first.cached, second.cached) == (False, True)
    assert ratings_of(first) == ratings_of(second)
    assert second.usage.judge_calls == second.usage.prompt_tokens == second.usage.cost_usd == 0
    assert first.provenance == second.provenance
    assert second.trace[0].cached


@pytest.mark.parametrize(
    "change",
    [
        {"dialogue": make_dialogue("いいですね。駅前の店に寄ってもいいですか！")},
        {"language": "en"},
        {"references": ("手本",)},
        {"model": "gpt-6-sol"},
        {"explain": True},
        {"expected": True},
    ],
)
async def test_anything_changed_is_a_new_call(bench: Bench, change: dict[str, Any]):
    await bench.rate()
    assert not (await bench.rate(**change)).cached
    assert len(bench.fake.requests) == 2


async def test_a_changed_level_is_a_new_call(bench: Bench):
    raw = json.loads(joint_rubric().model_dump_json())
    raw["aspects"][0]["levels"][0]["description"]["ja"] += "。"
    await bench.rate()
    await bench.rate(type(joint_rubric()).model_validate(raw))
    assert len(bench.fake.requests) == 2


async def test_concurrent_equal_requests_are_one_call(bench: Bench):
    judgements = await asyncio.gather(*(bench.rate() for _ in range(10)))
    assert len(bench.fake.requests) == 1
    assert sum(judgement.usage.judge_calls for judgement in judgements) == 1


async def test_samples_are_calls_of_their_own_with_their_own_seeds(bench: Bench):
    judgement = await bench.rate(samples=3)
    assert ratings_of(judgement)["overall"] == (5, 5, 5)
    assert sorted(request["seed"] - 20_240_719 for request in bench.fake.requests) == [0, 1, 2]
    assert judgement.usage.judge_calls == 3
    assert (await bench.rate()).cached, "the first sample is the same call, however many follow"


async def test_at_most_so_many_calls_are_in_flight():
    async with open_bench(concurrency=2) as bench:
        await bench.rate(samples=8)
        assert bench.fake.peak == 2


async def test_reasons_are_asked_for_before_the_values(bench: Bench):
    judgement = await bench.rate(explain=True)
    assert ratings_of(judgement) == HIGHEST
    assert {verdict.reason for verdict in judgement.verdicts.values()} == {"文脈に沿う。"}
    schema = bench.fake.requests[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]["overall"]["properties"]) == ["reason", "rating"]


class TestMalformed:
    """A malformed reply is asked again, twice by default; what the judge did not validly give stays unrated."""

    async def test_the_second_reply_is_taken_where_it_is_better(self, bench: Bench):
        bench.fake.script(say("評価できません。"))
        judgement = await bench.rate()
        assert ratings_of(judgement) == HIGHEST
        assert [call.attempt for call in judgement.trace] == [0, 1]
        first, second = bench.fake.requests
        assert first["seed"] != second["seed"]
        assert {**first, "seed": 0} == {**second, "seed": 0}
        assert judgement.usage.judge_calls == 2

    async def test_after_three_it_stays_unrated(self, bench: Bench):
        bench.fake.script(say("評価できません。"), say(""), say("{}"))
        judgement = await bench.rate()
        assert len(bench.fake.requests) == 3
        assert all(value == (None,) for value in ratings_of(judgement).values())
        assert reasons_of(judgement) == {"unparseable"}
        assert [call.reply for call in judgement.trace] == ["評価できません。", "", "{}"]
        assert bench.cache.entries == {}

    async def test_the_reply_that_rates_more_is_kept_whole(self, bench: Bench):
        bench.fake.script(say('{"naturalness": 1, "coherence": 0, "formality": 0}'), say('{"overall": 2}'), say(""))
        ratings = ratings_of(await bench.rate())
        assert ratings == {
            "naturalness": (1,),
            "coherence": (0,),
            "formality": (0,),
            "relevance": (None,),
            "overall": (None,),
        }

    async def test_of_equals_the_first_is_kept(self, bench: Bench):
        bench.fake.script(say('{"naturalness": 1}'), say('{"overall": 2}'), say('{"overall": 3}'))
        ratings = ratings_of(await bench.rate())
        assert (ratings["naturalness"], ratings["overall"]) == ((1,), (None,))

    async def test_only_whole_replies_are_kept_in_the_cache(self, bench: Bench):
        bench.fake.script(*[say('{"naturalness": 1}')] * 3)
        await bench.rate()
        assert bench.cache.entries == {}
        assert not (await bench.rate()).cached

    @pytest.mark.parametrize("structured", [True, False])
    async def test_a_thousand_replies_of_every_kind_store_nothing_the_judge_did_not_give(self, structured: bool):
        base = {aspect.id: aspect.values[0] for aspect in ASPECTS}
        kinds = JSON_KINDS if structured else TEXT_KINDS
        names = [list(kinds)[number % len(kinds)] for number in range(500)]
        spoiled = {f"応答 {number}": kinds[name](base, ASPECTS) for number, name in enumerate(names)}

        def answer(request):
            user = request["messages"][-1]["content"]
            text = json.loads("\n".join(user.split("\n")[1:-2]))["response"]
            one = spoiled[text]
            return complete(request, one.content, finish_reason=one.finish_reason, refusal=one.refusal)

        default = answer if structured else refuse("response_format", then=answer)
        async with open_bench(default, concurrency=32) as bench:
            judgements = await asyncio.gather(*(bench.rate(None, make_dialogue(text)) for text in spoiled))
        forged = 0
        for one, judgement in zip(spoiled.values(), judgements, strict=True):
            stored = {name: value for name, (value,) in ratings_of(judgement).items() if value is not None}
            forged += len(set(stored.items()) - set(one.valid.items()))
            assert stored == one.valid
        assert forged == 0

    @pytest.mark.parametrize(
        "body",
        [b"", b"<html>", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": 3}]}', b"[" * 9000],
    )
    async def test_an_answer_that_is_no_completion_is_a_malformed_reply(self, bench: Bench, body: bytes):
        bench.fake.default = lambda _: Answer(body=body)
        judgement = await bench.rate()
        assert reasons_of(judgement) == {"unparseable"}
        assert details_of(judgement) == {"the endpoint's answer is no chat completion; check OPENAI_BASE_URL"}
        assert len(bench.fake.requests) == 3

    @pytest.mark.parametrize(
        ("choice", "reason"),
        [
            ({"message": {"content": None}, "finish_reason": "stop"}, "unparseable"),
            ({"message": {}}, "unparseable"),
            ({"finish_reason": "content_filter"}, "content-filter"),
            ({"finish_reason": "length"}, "truncated"),
        ],
    )
    async def test_a_completion_without_a_message_is_one_all_the_same(self, bench: Bench, choice: Any, reason: str):
        bench.fake.default = lambda _: Answer(body={"choices": [choice]})
        judgement = await bench.rate()
        assert reasons_of(judgement) == {reason}
        assert not any("OPENAI_BASE_URL" in detail for detail in details_of(judgement))

    async def test_text_that_no_store_can_keep_is_mended(self, bench: Bench):
        bench.fake.default = say("\ud800 and \x00")
        judgement = await bench.rate()
        assert judgement.trace[0].reply == "\ufffd and \ufffd"

    async def test_a_filter_of_the_provider_is_named(self, bench: Bench):
        bench.fake.default = status(400, "filtered", code="content_filter", param="prompt")
        assert reasons_of(await bench.rate()) == {"content-filter"}


class TestPoisonedCache:
    @pytest.mark.parametrize(
        "spoil",
        [
            lambda entry: b"",
            lambda entry: entry[: len(entry) // 2],
            lambda entry: b"\xff" + entry,
            lambda entry: entry.replace(b'\\"overall\\": 5', b'\\"overall\\": 6'),
            lambda entry: entry.replace(b'"finish_reason":"stop"', b'"finish_reason":"length"'),
            lambda entry: entry.replace(b'"structured":true', b'"structured":false'),
            lambda entry: entry.replace(b'"key":"', b'"key":"0'),
            lambda entry: b'{"ratings": {"overall": 5}}',
        ],
    )
    async def test_a_spoiled_entry_is_a_miss(self, bench: Bench, spoil):
        await bench.rate()
        ((key, entry),) = bench.cache.entries.items()
        assert spoil(entry) != entry
        bench.cache.entries[key] = spoil(entry)
        judgement = await bench.rate()
        assert not judgement.cached
        assert ratings_of(judgement) == HIGHEST
        assert bench.cache.entries[key] == entry

    async def test_an_entry_of_another_question_is_a_miss(self, bench: Bench):
        await bench.rate()
        ((_, entry),) = bench.cache.entries.items()
        await bench.rate(None, make_dialogue("別の応答"))
        other = list(bench.cache.entries)[1]
        bench.cache.entries[other] = entry
        assert not (await bench.rate(None, make_dialogue("別の応答"))).cached


class TestExpected:
    async def test_the_mean_over_legal_values_and_the_mass_beside_them(self, bench: Bench):
        judgement = await bench.rate(expected=True)
        request = bench.fake.requests[0]
        assert (request["logprobs"], request["top_logprobs"]) == (True, 20)
        assert judgement.warnings == ()
        # The fake's token "3" has e^-0.25, then 0, 1 and 2 have e^-2, e^-3 and e^-4. On the scale 1–3 only
        # 1, 2 and 3 count; 0 is off the scale with whatever else is left of 1.
        three, one, two = math.exp(-0.25), math.exp(-3), math.exp(-4)
        verdict = judgement.verdicts["naturalness"]
        assert verdict.expected == pytest.approx((3 * three + one + 2 * two) / (three + one + two), rel=1e-12)
        assert verdict.off_scale_mass == pytest.approx(1 - (three + one + two), rel=1e-12)
        assert verdict.samples == (3,)

    async def test_it_survives_the_cache(self, bench: Bench):
        first, second = await bench.rate(expected=True), await bench.rate(expected=True)
        assert second.cached
        assert first.verdicts == second.verdicts

    async def test_it_is_the_mean_over_the_samples(self, bench: Bench):
        one = (await bench.rate(expected=True)).verdicts["overall"]
        three = (await bench.rate(expected=True, samples=3)).verdicts["overall"]
        assert one.expected == pytest.approx(three.expected)

    async def test_without_log_probabilities_it_is_null_with_a_warning(self, bench: Bench):
        bench.fake.default = refuse("logprobs")
        judgement = await bench.rate(expected=True)
        assert ratings_of(judgement) == HIGHEST
        assert {verdict.expected for verdict in judgement.verdicts.values()} == {None}
        (warning,) = judgement.warnings
        assert warning.code == "expected-unavailable"
        assert "overall" in warning.detail
        assert judgement.provenance.dropped == ("logprobs",)
        assert "top_logprobs" not in judgement.provenance.parameters

    async def test_an_endpoint_that_ignores_the_wish_is_warned_of_too(self, bench: Bench):
        bench.fake.default = lambda request: complete(request, verdict_of(request))
        judgement = await bench.rate(expected=True)
        assert [warning.code for warning in judgement.warnings] == ["expected-unavailable"]

    @pytest.mark.parametrize(
        "logprobs",
        ["x", [3], [{"token": 3}], [{"token": "3", "logprob": "x"}], [{"token": "3", "logprob": -1, "bytes": [999]}]],
    )
    async def test_broken_log_probabilities_are_none(self, bench: Bench, logprobs: Any):
        bench.fake.default = lambda request: complete(request, verdict_of(request), logprobs=logprobs)
        judgement = await bench.rate(expected=True)
        assert ratings_of(judgement) == HIGHEST
        assert [warning.code for warning in judgement.warnings] == ["expected-unavailable"]

    async def test_it_works_in_the_text_format(self, bench: Bench):
        bench.fake.default = refuse("response_format")
        text = (await bench.rate(expected=True)).verdicts
        bench.fake.default = valid
        structured = (await bench.rate(expected=True, model="another")).verdicts
        assert text["naturalness"].expected == pytest.approx(structured["naturalness"].expected, rel=1e-12)
        assert text["naturalness"].off_scale_mass == structured["naturalness"].off_scale_mass

    async def test_a_negative_value_in_two_tokens(self, bench: Bench):
        content = '{"naturalness":1,"coherence":0,"formality":-1,"relevance":1,"overall":1}'
        bench.fake.default = say(content, logprobs=tell_tokens(content))
        verdict = (await bench.rate(expected=True)).verdicts["formality"]
        # The minus has e^-0.25 and the 1 after it e^-0.25, so -1 has e^-0.5; in the minus's place, 0 has e^-2, 1 e^-3.
        minus, zero, one = math.exp(-0.5), math.exp(-2), math.exp(-3)
        assert verdict.expected == pytest.approx((one - minus) / (minus + zero + one), rel=1e-12)
        assert verdict.off_scale_mass == pytest.approx(1 - (minus + zero + one), rel=1e-12)


class TestNegotiation:
    """HTTP 400 that names a parameter: that one gives way, is remembered, and is told."""

    @pytest.mark.parametrize("param", [True, False])
    @pytest.mark.parametrize("parameter", ["temperature", "seed", "reasoning_effort"])
    async def test_a_refused_parameter_is_dropped_and_remembered(self, bench: Bench, parameter: str, param: bool):
        bench.fake.default = refuse(parameter, param=param)
        judgement = await bench.rate()
        assert ratings_of(judgement) == HIGHEST
        assert judgement.provenance.dropped == (parameter,)
        assert parameter not in judgement.provenance.parameters
        assert [parameter in request for request in bench.fake.requests] == [True, False]
        again = await bench.rate(None, make_dialogue("別の応答"))
        assert again.provenance.dropped == (parameter,)
        assert parameter not in bench.fake.requests[-1]
        assert len(bench.fake.requests) == 3

    async def test_it_is_remembered_for_that_model_only(self, bench: Bench):
        bench.fake.default = lambda request: (refuse("seed") if request["model"] == "a" else valid)(request)
        await bench.rate(model="a")
        await bench.rate(model="b")
        assert "seed" in bench.fake.requests[-1]

    @pytest.mark.parametrize(
        ("model", "refused", "used"),
        [("gpt-6-luna", "max_completion_tokens", "max_tokens"), ("qwen", "max_tokens", "max_completion_tokens")],
    )
    async def test_a_token_limit_changes_its_name(self, bench: Bench, model: str, refused: str, used: str):
        bench.fake.default = refuse(refused)
        judgement = await bench.rate(model=model)
        assert judgement.provenance.parameters[used] == 2048
        assert judgement.provenance.dropped == (refused,)

    async def test_without_either_limit_none_is_sent(self, bench: Bench):
        bench.fake.default = refuse("max_tokens", then=refuse("max_completion_tokens"))
        judgement = await bench.rate()
        assert not {"max_tokens", "max_completion_tokens"} & set(bench.fake.requests[-1])
        assert set(judgement.provenance.dropped) == {"max_tokens", "max_completion_tokens"}

    async def test_without_structured_output_the_text_format_is_asked_for(self, bench: Bench):
        bench.fake.default = refuse("response_format")
        judgement = await bench.rate()
        assert ratings_of(judgement) == HIGHEST
        assert judgement.provenance.parameters["response_format"] == "text"
        assert "自然さ: 「整数」" in bench.fake.requests[-1]["messages"][0]["content"]
        assert judgement.trace[0].reply is not None
        assert judgement.trace[0].reply.startswith("自然さ: 「3」\n")
        assert (await bench.rate()).cached

    async def test_structured_output_that_is_ignored_stays_unrated(self, bench: Bench):
        bench.fake.default = say("自然さ: 「3」")
        judgement = await bench.rate()
        assert reasons_of(judgement) == {"unparseable"}
        assert all("response_format" in request for request in bench.fake.requests)

    async def test_effort_and_then_temperature(self, bench: Bench):
        bench.fake.default = refuse("reasoning_effort", then=refuse("temperature"))
        assert (await bench.rate()).provenance.dropped == ("reasoning_effort", "temperature")

    async def test_fewer_alternatives_where_twenty_are_too_many(self, bench: Bench):
        def answer(request):
            if request.get("top_logprobs", 0) > 5:
                return status(400, "top_logprobs must be at most 5", param="top_logprobs")(request)
            return valid(request)

        bench.fake.default = answer
        judgement = await bench.rate(expected=True)
        assert judgement.provenance.parameters["top_logprobs"] == 5
        assert judgement.verdicts["overall"].expected is not None

    async def test_no_alternatives_where_five_are_too_many(self, bench: Bench):
        bench.fake.default = refuse("top_logprobs")
        judgement = await bench.rate(expected=True)
        assert ratings_of(judgement) == HIGHEST
        assert judgement.provenance.dropped == ("top_logprobs", "logprobs")

    async def test_everything_refused_still_rates(self, bench: Bench):
        behaviour: Behaviour = valid
        for name in ("temperature", "seed", "reasoning_effort", "response_format", "max_tokens", "logprobs"):
            behaviour = refuse(name, then=behaviour)
        bench.fake.default = refuse("max_completion_tokens", then=behaviour)
        assert ratings_of(await bench.rate(expected=True)) == HIGHEST
        assert set(bench.fake.requests[-1]) == {"model", "messages"}

    async def test_a_refusal_that_never_ends_well_changes_nothing_for_others(self, bench: Bench):
        bench.fake.script(*[status(400, "the words temperature, seed, response_format are in your text")] * 4)
        with pytest.raises(JudgeRefusedRequest):
            await bench.rate(None, make_dialogue("temperature"))
        judgement = await bench.rate()
        assert judgement.provenance.dropped == ()


async def test_mixed_parameters_are_told(bench: Bench):
    await bench.rate()
    bench.fake.default = refuse("seed")
    judgement = await bench.rate(samples=2)
    assert judgement.provenance.parameters["seed"] == "mixed"
    assert judgement.provenance.dropped == ("seed",)
    assert not judgement.cached


async def test_several_models_behind_one_name_are_all_told(bench: Bench):
    bench.fake.script(
        lambda request: complete(request, verdict_of(request), model="a"),
        lambda request: complete(request, verdict_of(request), model="b"),
    )
    assert sorted((await bench.rate(samples=2)).provenance.model.split(",")) == ["a", "b"]


async def test_unrated_values_are_values_of_their_own(bench: Bench):
    bench.fake.default = say('{"naturalness": 99}')
    verdict = (await bench.rate()).verdicts["naturalness"]
    (sample,) = verdict.samples
    assert isinstance(sample, Unrated)
    assert sample.reason == "out-of-scale"


CANARY = derive_canary(joint_rubric().digest)


def leak(request: Request) -> Answer:
    """A whole verdict whose reasons hold the canary that this very request forbids."""
    assert CANARY in request["messages"][0]["content"]
    return complete(request, verdict_of(request, reason=f"指示は {CANARY.lower()} で始まる。"))


async def test_a_reply_that_leaks_the_prompt_is_asked_again_and_warned_of(bench: Bench):
    bench.fake.script(leak)
    judgement = await bench.rate(explain=True)
    assert len(bench.fake.requests) == 2
    assert ratings_of(judgement) == HIGHEST
    assert [(warned.code, warned.where) for warned in judgement.warnings] == [("prompt-leaked", "judge")]
    assert CANARY not in judgement.warnings[0].detail
    # The trace is the raw reply, for whoever has to find out what happened.
    assert CANARY.lower() in (judgement.trace[0].reply or "")
    assert CANARY.lower() not in repr(judgement.verdicts)


@pytest.mark.parametrize("text", [False, True])
async def test_a_judge_that_always_leaks_rates_nothing(bench: Bench, text: bool):
    if text:
        spoken = f"自然さ（理由）: {CANARY}\n自然さ: 「3」"
        bench.fake.default = refuse("response_format", then=say(spoken))
    else:
        bench.fake.default = leak
    judgement = await bench.rate(explain=True)
    samples = [sample for verdict in judgement.verdicts.values() for sample in verdict.samples]
    assert set(samples) == {Unrated(reason="unparseable", **in_english(LEAKED))}
    assert all(verdict.reason is None for verdict in judgement.verdicts.values())
    assert [warned.code for warned in judgement.warnings] == ["prompt-leaked"]


async def test_an_honest_judge_is_not_warned_of(bench: Bench):
    assert (await bench.rate(explain=True)).warnings == ()
