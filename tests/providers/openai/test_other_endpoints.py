"""Endpoints that only resemble OpenAI's, each as it is documented or reported to answer."""

from collections.abc import Callable
from typing import Any

import pytest

from saiten_server.core.errors import (
    InvalidRequest,
    JudgeQuotaExhausted,
    JudgeRefusedRequest,
    JudgeUnauthorized,
    JudgeUnavailable,
    SettingsInvalid,
)
from saiten_server.core.signature import describe_judge, read_signature, sign
from saiten_server.providers.openai.judge import check_address, find_address
from saiten_server.providers.openai.parameters import concede, find_refused, read_extra, width_of
from tests.support.fake_openai import Answer, Behaviour, Request, complete, refuse, say, status, valid, verdict_of
from tests.support.judges import details_of, make_task, open_bench, ratings_of, reasons_of

HIGHEST = {"naturalness": (3,), "coherence": (1,), "formality": (1,), "relevance": (3,), "overall": (5,)}
THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


def gemini(message: str, http: int = 400, **error: Any) -> Answer:
    """Google's OpenAI-compatible endpoint puts the error object into a list, with its own status words."""
    return Answer(http, [{"error": {"code": http, "message": message, "status": "INVALID_ARGUMENT", **error}}])


def unless(name: str, answer: Callable[[Request], Answer]) -> Behaviour:
    """A valid verdict once the request has no such parameter."""
    return lambda request: answer(request) if name in request else valid(request)


# Gemini


async def test_gemini_names_a_seed_in_a_list():
    said = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
    async with open_bench(unless("seed", lambda _: gemini(said))) as bench:
        judgement = await bench.rate(model="gemini-3.5-flash")
    assert ratings_of(judgement) == HIGHEST
    assert judgement.provenance.dropped == ("seed",)


async def test_geminis_reason_is_shown():
    async with open_bench(lambda _: gemini("The model is overloaded today.")) as bench:
        with pytest.raises(JudgeRefusedRequest, match="The model is overloaded today"):
            await bench.rate()


async def test_gemini_refuses_a_key_with_400():
    invalid = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    async with open_bench(lambda _: gemini("API key not valid.", details=invalid)) as bench:
        with pytest.raises(JudgeUnauthorized):
            await bench.rate()
    assert len(bench.fake.requests) == 1


async def test_gemini_says_in_the_body_how_long_to_wait():
    delay = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    async with open_bench(lambda _: gemini("Quota exceeded.", 429, details=delay), max_attempts=1) as bench:
        with pytest.raises(JudgeUnavailable) as caught:
            await bench.rate()
    assert caught.value.retry_after_seconds == 34


# Addresses


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21", "/openai/v1/"),
        ("https://gateway.example.org/v1?api-version=1", "/openai/v1/"),
        ("https://gateway.example.org/v1?key=secret", "must end before '?'"),
        ("https://gateway.example.org/v1#models", "must end before '#'"),
        ("https://gateway.example.org/v1?", "must end before '?'"),
    ],
)
def test_an_address_with_a_query_is_refused_at_start(url: str, words: str):
    with pytest.raises(SettingsInvalid, match="OPENAI_BASE_URL") as caught:
        check_address(find_address(url))
    assert words in caught.value.detail
    assert "secret" not in caught.value.detail


def test_azures_v1_address_is_taken():
    check_address(find_address("https://r.openai.azure.com/openai/v1/"))


# Errors with a successful status


@pytest.mark.parametrize(
    ("error", "becomes", "calls"),
    [
        ({"code": 402, "message": "Insufficient credits."}, JudgeQuotaExhausted, 1),
        ({"code": 401, "message": "No auth credentials."}, JudgeUnauthorized, 1),
        ({"code": "400", "message": "The prompt is not taken."}, JudgeRefusedRequest, 1),
        ({"type": "invalid_request_error", "message": "The prompt is not taken."}, JudgeRefusedRequest, 1),
        ({"code": "rate_limit_exceeded", "message": "Slow down."}, JudgeUnavailable, 4),
        ({"code": 502, "message": "Provider returned error."}, JudgeUnavailable, 4),
        ({"message": "the model failed to load"}, JudgeUnavailable, 4),
        ("model not loaded", JudgeUnavailable, 4),
        ({"code": {"odd": []}, "message": ["x"]}, JudgeUnavailable, 4),
    ],
)
async def test_an_error_with_status_200_is_that_error(error: Any, becomes: type[Exception], calls: int):
    async with open_bench(lambda _: Answer(200, {"error": error, "user_id": "u"})) as bench:
        with pytest.raises(becomes) as caught:
            await bench.rate()
    assert len(bench.fake.requests) == calls
    if becomes is JudgeRefusedRequest:
        assert "The prompt is not taken" in str(caught.value)


async def test_a_filter_with_status_200_is_a_filter():
    filtered = Answer(200, {"error": {"code": "content_filter", "message": "Filtered."}})
    async with open_bench(lambda _: filtered, malformed_retries=0) as bench:
        assert reasons_of(await bench.rate()) == {"content-filter"}
        assert len(bench.fake.requests) == 1


async def test_a_limit_with_status_200_is_waited_out():
    limited = Answer(200, {"error": {"code": 429, "message": "Rate limit exceeded."}})
    async with open_bench() as bench:
        bench.fake.script(lambda _: limited)
        assert ratings_of(await bench.rate()) == HIGHEST


# Content that is no plain text


def in_parts(*before: dict[str, Any]) -> Behaviour:
    def answer(request: Request) -> Answer:
        found = complete(request, "")
        verdict = verdict_of(request)
        texts = [{"type": "text", "text": verdict[:5]}, {"type": "text", "text": verdict[5:]}]
        found.body["choices"][0]["message"]["content"] = [*before, *texts]
        return found

    return answer


async def test_a_content_of_parts_is_their_texts():
    async with open_bench(in_parts()) as bench:
        assert ratings_of(await bench.rate()) == HIGHEST


async def test_parts_that_hold_what_the_model_thought_are_left_out():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Overall 1?"}]}
    async with open_bench(in_parts(thought)) as bench:
        assert ratings_of(await bench.rate()) == HIGHEST


async def test_a_part_that_is_neither_makes_no_verdict():
    async with open_bench(in_parts({"type": "image_url", "image_url": {"url": "http://h/x"}})) as bench:
        assert reasons_of(await bench.rate()) == {"unparseable"}


# Refusals that only the message tells


@pytest.mark.parametrize(
    "said",
    [
        "This model does not support response format `json_schema`. See supported models.",
        "This response_format type is unavailable now",
        'Either "json_schema" or "grammar" can be specified, but not both',
        "Structured outputs are not supported by this model.",
        "guided decoding is not available with this backend",
    ],
)
@pytest.mark.parametrize("http", [400, 422])
async def test_a_schema_is_given_up_for_the_text_format(said: str, http: int):
    async with open_bench(unless("response_format", status(http, said))) as bench:
        judgement = await bench.rate(model="local")
    assert ratings_of(judgement) == HIGHEST
    assert judgement.provenance.dropped == ("response_format",)
    assert judgement.provenance.parameters["response_format"] == "text"


@pytest.mark.parametrize(
    "said", ['Either "json_schema" or "grammar" can be specified, but not both', "JSON schema conversion failed: $ref"]
)
async def test_llama_cpp_says_so_with_500_and_is_not_asked_the_same_again(said: str):
    async with open_bench(unless("response_format", status(500, said, type="server_error"))) as bench:
        judgement = await bench.rate(model="local")
        assert len(bench.fake.requests) == 2
    assert judgement.provenance.dropped == ("response_format",)


async def test_another_failure_that_mentions_a_schema_is_a_failure():
    async with open_bench(status(500, "worker died while it handled a json_schema request")) as bench:
        with pytest.raises(JudgeUnavailable):
            await bench.rate()
    assert all("response_format" in request for request in bench.fake.requests)


# Token probabilities


@pytest.mark.parametrize(
    ("said", "width"),
    [
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", 5),
        ("Requested sample logprobs of 20, which is is greater than max allowed: 10", 10),
        ("Invalid 'top_logprobs': integer above maximum value. Expected a value <= 5, but got 20 instead.", 5),
        ("top_logprobs must be less than or equal to 8", 8),
        ("top_logprobs must be between 0 and 3, inclusive", 3),
        ("`top_logprobs` is out of range", 5),
    ],
)
async def test_logprobs_are_narrowed_to_what_the_endpoint_allows(said: str, width: int):
    def answer(request: Request) -> Answer:
        return status(400, said)(request) if request.get("top_logprobs", 0) > width else valid(request)

    async with open_bench(answer) as bench:
        judgement = await bench.rate(model="local", expected=True)
        assert [request["top_logprobs"] for request in bench.fake.requests] == [20, width]
    assert judgement.provenance.parameters["top_logprobs"] == width
    assert judgement.provenance.dropped == ("top_logprobs",)
    assert all(verdict.expected is not None for verdict in judgement.verdicts.values())


async def test_logprobs_that_are_not_supported_are_given_up():
    async with open_bench(refuse("logprobs", param=False)) as bench:
        judgement = await bench.rate(model="local", expected=True)
    assert judgement.provenance.dropped == ("logprobs",)
    assert {warned.code for warned in judgement.warnings} == {"expected-unavailable"}


def test_a_narrowing_that_narrows_nothing_gives_up():
    body = {"logprobs": True, "top_logprobs": 3}
    assert find_refused(body, "logprobs: at most 2", None, None) == "top_logprobs:2"
    conceded = concede(("top_logprobs:3",), "top_logprobs:2")
    assert width_of(conceded) == 2
    assert concede(conceded, "top_logprobs:2")[-1] == "logprobs"


# Local models that think


async def test_reasoning_beside_the_content_is_left_out():
    def answer(request: Request) -> Answer:
        found = valid(request)
        found.body["choices"][0]["message"]["reasoning_content"] = '{"overall": 1}'
        return found

    async with open_bench(answer) as bench:
        assert ratings_of(await bench.rate()) == HIGHEST


@pytest.mark.parametrize("opening", ["<think>\nOverall 1?\n</think>\n", "Overall 1?\n</think>\n"])
async def test_reasoning_within_the_content_is_no_verdict_and_explained(opening: str):
    async with open_bench(lambda request: complete(request, opening + verdict_of(request))) as bench:
        judgement = await bench.rate()
    assert reasons_of(judgement) == {"unparseable"}
    (detail,) = details_of(judgement)
    assert "begins with the model's reasoning" in detail
    assert "SAITEN_JUDGE_EXTRA" in detail


async def test_a_reply_that_is_cut_off_while_it_reasons_says_what_to_raise():
    def answer(request: Request) -> Answer:
        found = complete(request, None, finish_reason="length")
        found.body["choices"][0]["message"]["reasoning"] = "Let me see"
        return found

    async with open_bench(answer) as bench:
        (detail,) = details_of(await bench.rate())
    assert "raise judge.max_tokens" in detail


async def test_a_reply_that_no_schema_allows_tells_of_the_endpoint():
    async with open_bench(lambda request: complete(request, f"```json\n{verdict_of(request)}\n```")) as bench:
        (detail,) = details_of(await bench.rate())
    assert detail.endswith("the endpoint probably ignored `response_format`")


async def test_what_the_operator_sends_beside_goes_with_every_call():
    extra = read_extra('{"chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "low"}')
    async with open_bench(extra=extra) as bench:
        judgement = await bench.rate()
        plain = await bench.rate(dialogue=make_task().dialogue, model="local")
        assert all(request["chat_template_kwargs"] == {"enable_thinking": False} for request in bench.fake.requests)
    assert bench.fake.requests[0]["reasoning_effort"] == "low"
    assert judgement.provenance.parameters["chat_template_kwargs"] == {"enable_thinking": False}
    pieces = describe_judge(plain.provenance, make_task().options)
    assert 'chat_template_kwargs={"enable_thinking":false}' in pieces["parameters"]


async def test_requests_choose_only_what_the_operator_allows():
    extra = read_extra('{"chat_template_kwargs": {"allow": [{"enable_thinking": true}], "default": null}, "top_k": 1}')
    async with open_bench(extra=extra) as bench:
        await bench.rate(extra={"chat_template_kwargs": {"enable_thinking": True}, "top_k": 1})
        assert bench.fake.requests[0]["chat_template_kwargs"] == {"enable_thinking": True}
        for refused in (
            {"chat_template_kwargs": {"enable_thinking": 1}},
            {"top_k": 2},
            {"n": 1},
            {"service_tier": "x"},
        ):
            with pytest.raises(InvalidRequest) as caught:
                await bench.rate(extra=refused)
            assert caught.value.pointer == f"/judge/extra/{next(iter(refused))}"
            with pytest.raises(InvalidRequest):
                bench.judge.estimate(make_task(extra=refused))
        assert len(bench.fake.requests) == 1


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("enable_thinking=false", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ('{"a": 1, "a": 2}', "must be a JSON object"),
        ('{"messages": []}', "may not hold messages"),
        ('{"a": {"allow": 1}}', "are no list"),
    ],
)
def test_a_mistake_in_what_goes_beside_is_named(written: str, words: str):
    with pytest.raises(SettingsInvalid, match=words):
        read_extra(written)


async def test_options_reach_the_provider_and_the_signature():
    async with open_bench() as bench:
        task = make_task(temperature=0.7, max_tokens=4096, samples=2, model="local")
        judgement = await bench.judge.judge(task)
        first, second = bench.fake.requests
    assert (first["temperature"], first["max_tokens"]) == (0.7, 4096)
    assert first["seed"] != second["seed"]
    pieces = describe_judge(judgement.provenance, task.options)
    assert pieces["parameters"] == "max_tokens=4096,response_format=json_schema,seed=20240719,temperature=0.7"


@pytest.mark.parametrize("options", [{"temperature": 0.5}, {"max_tokens": 4096}, {"extra": {"top_k": 1}}])
async def test_options_are_in_the_call_caches_key(options: dict[str, Any]):
    async with open_bench(extra=read_extra('{"top_k": {"allow": [1]}}')) as bench:
        assert not (await bench.rate()).cached
        assert not (await bench.rate(**options)).cached
        assert (await bench.rate(**options)).cached
        assert (await bench.rate(temperature=0.0, extra={})).cached


async def test_options_reach_the_providers_batch():
    async with open_bench(extra=read_extra('{"top_k": {"allow": [1]}}')) as bench:
        (call,) = bench.judge.defer(make_task(temperature=1.0, max_tokens=99, extra={"top_k": 1}))
    assert (call.body["temperature"], call.body["max_completion_tokens"], call.body["top_k"]) == (1, 99, 1)
    assert call.parameters["top_k"] == 1


# Malformed replies


async def test_a_malformed_reply_is_asked_for_again_as_often_as_the_settings_say():
    async with open_bench() as bench:
        bench.fake.script(say("no"), say("no"))
        judgement = await bench.rate()
        assert ratings_of(judgement) == HIGHEST
        assert len({request["seed"] for request in bench.fake.requests}) == 3
    assert [call.attempt for call in judgement.trace] == [0, 1, 2]
    assert judgement.usage.judge_calls == 3


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_in_the_end_it_is_unrated(retries: int):
    async with open_bench(say("no"), malformed_retries=retries) as bench:
        assert reasons_of(await bench.rate()) == {"unparseable"}
        assert len(bench.fake.requests) == 1 + retries


# Models named by their files


@pytest.mark.parametrize("model", ["/models/qwen.gguf", "./qwen.gguf", "C:\\models\\qwen.gguf", "~/m/qwen.gguf"])
async def test_a_model_may_be_a_path(model: str):
    def answer(request: Request) -> Answer:
        found = valid(request)
        found.body["model"] = request["model"]
        return found

    async with open_bench(answer) as bench:
        judgement = await bench.rate(model=model)
        assert bench.fake.requests[0]["model"] == model
    assert judgement.provenance.model == model
    pieces = describe_judge(judgement.provenance, make_task(model=model).options)
    assert read_signature(sign(pieces)) == pieces
