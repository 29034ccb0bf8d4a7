"""OpenAI's Batch API against a fake of it: what goes over the wire, what may come back, and what each error becomes."""

import io
import json
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from saiten_server.core.errors import (
    JudgeQuotaExhausted,
    JudgeRefusedRequest,
    JudgeUnauthorized,
    JudgeUnavailable,
    SettingsInvalid,
)
from saiten_server.providers.openai.batches import OpenAIProviderBatches, list_sent, read_answer_line, split_lines
from saiten_server.providers.openai.reply import Reply
from saiten_server.providers.ports import DeferredCall, ProviderAnswer, ProviderPart
from tests.support.fake_openai import complete, hang, status, valid
from tests.support.fake_provider_batch import FakeProviderBatch, StoredFile
from tests.support.judges import KEY, make_judge, make_task

PART = ProviderPart(
    "b1",
    0,
    "ended",
    after=-1,
    last=9,
    requests=3,
    parameters={"temperature": 0, "top_logprobs": 20, "max_tokens": 2048, "response_format": "json_schema"},
)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
async def fake() -> AsyncIterator[FakeProviderBatch]:
    async with FakeProviderBatch() as opened:
        yield opened


@pytest.fixture
async def provider(fake: FakeProviderBatch) -> AsyncIterator[OpenAIProviderBatches]:
    opened = OpenAIProviderBatches(api_key=KEY, base_url=fake.base_url + "/", timeout_seconds=5)
    yield opened
    await opened.close()


@pytest.fixture
async def calls(fake: FakeProviderBatch) -> list[DeferredCall]:
    judge = make_judge(fake.base_url)
    found = [call for number in range(3) for call in judge.defer(make_task(model=f"gpt-6-luna-{number}"))]
    await judge.close()
    return found


async def send(provider: OpenAIProviderBatches, calls: list[DeferredCall], name: str = "n.jsonl") -> str:
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(map(provider.line, calls)))
        file.seek(0)
        return await provider.upload(file, name)


async def read_all(provider: OpenAIProviderBatches, file_id: str, part: ProviderPart = PART) -> list[ProviderAnswer]:
    return [answer async for answer in provider.answers(file_id, part)]


def answered(body: Any, key: str = "k", http: Any = 200, fault: Any = None) -> bytes:
    response = {"status_code": http, "request_id": "r", "body": body}
    return json.dumps({"id": "x", "custom_id": key, "response": response, "error": fault}).encode()


CHAT = {"model": "gpt-6-luna", "messages": [{"role": "user", "content": "雨"}]}


async def test_a_file_holds_a_chat_request_a_line(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    file_id = await send(provider, calls, "named.jsonl")
    stored = fake.files[file_id]
    assert stored.name == "named.jsonl"
    lines = [json.loads(line) for line in stored.content.splitlines()]
    assert [line["custom_id"] for line in lines] == [call.key for call in calls]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert [line["body"] for line in lines] == [call.body for call in calls]
    assert stored.content.endswith(b"\n")


async def test_deferred_calls_are_those_that_the_judge_would_make(fake: FakeProviderBatch) -> None:
    judge = make_judge(fake.base_url)
    task = make_task(samples=2, expected=True)
    deferred = judge.defer(task)
    await judge.judge(task)
    await judge.close()
    assert [dict(call.body) for call in deferred] == fake.live
    assert len({call.key for call in deferred}) == 2


async def test_a_batch_is_made_of_a_file_and_found_by_its_tags(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    file_id = await send(provider, calls)
    tags = {"saiten": "b1", "part": "0", "round": "0"}
    made = await provider.create(file_id, tags)
    assert fake.batches[made]["endpoint"] == "/v1/chat/completions"
    assert fake.batches[made]["completion_window"] == "24h"
    found = await provider.find(tags, LONG_AGO)
    assert found is not None
    assert (found.id, found.file_id, found.ended, found.failure) == (made, file_id, False, None)
    assert await provider.find(tags | {"round": "1"}, LONG_AGO) is None


async def test_batches_are_looked_through_page_by_page_and_no_further_than_needed(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    file_id = await send(provider, calls)
    first = await provider.create(file_id, {"saiten": "first"})
    for number in range(150):
        await provider.create(file_id, {"saiten": f"other{number}"})
    found = await provider.find({"saiten": "first"}, LONG_AGO)
    assert found is not None
    assert found.id == first
    assert fake.asked.count("list") == 2
    assert await provider.find({"saiten": "first"}, datetime.now(UTC) + timedelta(hours=1)) is None
    assert fake.asked.count("list") == 3


async def test_a_batch_of_somebody_else_without_metadata_is_no_obstacle(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    made = await provider.create(await send(provider, calls), {})
    fake.batches[made]["metadata"] = None
    assert await provider.find({"saiten": "b1"}, LONG_AGO) is None


@pytest.mark.parametrize("ending", ["completed", "expired", "cancelled"])
async def test_answers_come_from_both_files_whatever_their_order(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall], ending: str
) -> None:
    fake.line = lambda number, request: None if number == 1 else valid(request)
    made = await provider.create(await send(provider, calls), {})
    fake.end(made, ending)
    found = await provider.retrieve(made)
    assert found is not None
    assert found.ended
    good = await read_all(provider, str(found.output_file_id))
    assert [answer.key for answer in good] == [calls[2].key, calls[0].key]
    replies = [Reply.model_validate_json(answer.entry or b"") for answer in good]
    assert [reply.key for reply in replies] == [calls[2].key, calls[0].key]
    assert all(reply.prompt_tokens > 0 and reply.model for reply in replies)
    assert await read_all(provider, str(found.error_file_id)) == [ProviderAnswer(calls[1].key, None)]


@pytest.mark.parametrize("state", ["validating", "in_progress", "finalizing", "cancelling"])
async def test_a_batch_under_way_has_not_ended(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall], state: str
) -> None:
    made = await provider.create(await send(provider, calls), {})
    fake.batches[made]["status"] = state
    found = await provider.retrieve(made)
    assert found is not None
    assert (found.ended, found.failure) == (False, None)


async def test_a_batch_that_failed_says_why_without_the_key(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    made = await provider.create(await send(provider, calls), {})
    fake.fail(made, "invalid_json_line", f"line 1 is no JSON {KEY} {'x' * 500}")
    found = await provider.retrieve(made)
    assert found is not None
    assert found.failure is not None
    assert found.failure.startswith("line 1 is no JSON [key]")
    assert len(found.failure) <= 200
    assert not found.over_limit
    fake.fail(made, "token_limit_exceeded", "too much is enqueued")
    found = await provider.retrieve(made)
    assert found is not None
    assert found.over_limit
    fake.batches[made]["errors"] = None
    found = await provider.retrieve(made)
    assert found is not None
    assert found.failure == "it gave no reason"


async def test_what_is_gone_is_gone(fake: FakeProviderBatch, provider: OpenAIProviderBatches) -> None:
    assert await provider.retrieve("batch_9") is None
    await provider.delete_file("file-9")
    assert await read_all(provider, "file-9") == []


async def test_uploads_are_found_by_name_and_deleted(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    first = await send(provider, calls, "a.jsonl")
    await send(provider, calls, "b.jsonl")
    assert await provider.find_uploads("a.jsonl") == [first]
    await provider.delete_file(first)
    assert await provider.find_uploads("a.jsonl") == []


async def test_cancelling_what_has_ended_is_no_error(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches, calls: list[DeferredCall]
) -> None:
    made = await provider.create(await send(provider, calls), {})
    await provider.cancel(made)
    assert fake.batches[made]["status"] == "cancelling"
    fake.end(made, "cancelled")
    await provider.cancel(made)


@pytest.mark.parametrize(
    ("http", "code", "becomes"),
    [
        (401, None, JudgeUnauthorized),
        (403, None, JudgeUnauthorized),
        (429, None, JudgeUnavailable),
        (429, "insufficient_quota", JudgeQuotaExhausted),
        (400, None, JudgeRefusedRequest),
        (500, None, JudgeUnavailable),
        (302, None, JudgeRefusedRequest),
    ],
)
@pytest.mark.parametrize("endpoint", ["upload", "create", "list", "list_files", "retrieve", "content", "delete"])
async def test_each_error_becomes_one_of_ours(
    fake: FakeProviderBatch,
    provider: OpenAIProviderBatches,
    endpoint: str,
    http: int,
    code: str | None,
    becomes: type[Exception],
) -> None:
    fake.refuse[endpoint] = status(http, f"no {KEY}", code=code)({})
    asked = {
        "upload": lambda: provider.upload(io.BytesIO(b"{}\n"), "x"),
        "create": lambda: provider.create("file-1", {}),
        "list": lambda: provider.find({}, LONG_AGO),
        "list_files": lambda: provider.find_uploads("x"),
        "retrieve": lambda: provider.retrieve("batch_1"),
        "content": lambda: read_all(provider, "file-1"),
        "delete": lambda: provider.delete_file("file-1"),
    }
    with pytest.raises(becomes) as caught:
        await asked[endpoint]()
    assert KEY not in str(caught.value)


async def test_a_provider_that_is_not_there_is_unavailable() -> None:
    async with FakeProviderBatch() as gone:
        url = gone.base_url
    provider = OpenAIProviderBatches(api_key=KEY, base_url=url, timeout_seconds=5)
    with pytest.raises(JudgeUnavailable):
        await provider.retrieve("batch_1")
    with pytest.raises(JudgeUnavailable):
        await read_all(provider, "file-1")
    await provider.close()


async def test_a_download_that_breaks_off_is_unavailable_after_what_had_arrived(
    fake: FakeProviderBatch, provider: OpenAIProviderBatches
) -> None:
    body = valid(CHAT | {"response_format": None, "messages": [{"content": ""}, {"content": ""}]}).body
    lines = [answered(body, f"k{number}") for number in range(200)]
    fake.files["file-x"] = StoredFile("file-x", "x", b"\n".join(lines) + b"\n")
    fake.break_after = 3_000
    seen: list[str] = []

    async def read() -> None:
        async for answer in provider.answers("file-x", PART):
            seen.append(answer.key)

    with pytest.raises(JudgeUnavailable):
        await read()
    assert seen == [f"k{number}" for number in range(len(seen))]
    assert len(seen) < 200


@pytest.mark.parametrize("key", ["", "키", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(SettingsInvalid):
        OpenAIProviderBatches(api_key=key, base_url=None)


# Lines


def test_a_reply_is_read_as_a_live_one() -> None:
    body = complete(CHAT, '{"a": 1}').body
    answer = read_answer_line(answered(body), PART)
    assert answer is not None
    reply = Reply.model_validate_json(answer.entry or b"")
    assert (reply.content, reply.model, reply.fingerprint) == ('{"a": 1}', "gpt-6-luna-2026-09-22", "fp_test")
    assert (reply.structured, reply.parameters, reply.dropped) == (True, dict(PART.parameters), ())


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"[1]", b'"text"', b"{", b'{"custom_id": null}', b'{"custom_id": ["k"]}', b"[" * 100_000, b"\xff"],
)
def test_a_line_that_says_nothing_is_left_out(line: bytes) -> None:
    assert read_answer_line(line, PART) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"custom_id": "k"}',
        b'{"custom_id": "k", "response": []}',
        b'{"custom_id": "k", "response": {"status_code": true}}',
        answered(None),
        answered({}),
        answered([]),
        answered({"choices": []}),
        answered({"choices": [{"index": 0}]}),
        answered({"error": {"message": "boom"}}, http=500),
        answered({"error": "boom"}, http=400),
        answered({"error": {"message": 7, "param": [], "code": {}}}, http=400),
        answered(None, http=None, fault={"code": "batch_expired", "message": "too late"}),
    ],
)
def test_a_line_without_a_reply_is_an_unanswered_call(line: bytes) -> None:
    assert read_answer_line(line, PART) == ProviderAnswer("k", None)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ({"message": "no", "param": "temperature"}, "temperature"),
        ({"message": "Unsupported value: 'temperature'"}, "temperature"),
        ({"message": "no", "param": "logprobs"}, "logprobs"),
        ({"message": "no", "param": "response_format.json_schema"}, "response_format"),
        ({"message": "no", "param": "messages"}, None),
        ({"message": "no", "param": "seed"}, None),
        ({"message": "maximum context length: lower max_tokens"}, None),
    ],
)
@pytest.mark.parametrize("http", [400, 422])
def test_a_refused_parameter_is_named(error: dict[str, Any], refused: str | None, http: int) -> None:
    assert read_answer_line(answered({"error": error}, http=http), PART) == ProviderAnswer("k", None, refused)


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_filtered_call_is_a_reply_without_a_verdict(code: str) -> None:
    answer = read_answer_line(answered({"error": {"message": "filtered", "code": code}}, http=400), PART)
    assert answer is not None
    reply = Reply.model_validate_json(answer.entry or b"")
    assert (reply.content, reply.finish_reason, reply.completion) == (None, "content_filter", True)


def test_a_text_format_was_not_spelt_out_in_the_body() -> None:
    assert list_sent({"temperature": 0, "response_format": "text"}) == {"temperature": 0}


async def pieces_of(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_lines_are_found_whatever_the_pieces(size: int) -> None:
    content = "雨\n\n空 \r\nlast".encode()
    found = [line async for line in split_lines(pieces_of(content, size), 100)]
    assert found == ["雨".encode(), b"", "空 \r".encode(), b"last"]


@pytest.mark.parametrize("size", [1, 3, 8, 1_000])
async def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_read(size: int) -> None:
    content = b"one\n" + b"x" * 500 + b"\ntwo\n" + b"123456789\n1234567890\n12345678901\nend"
    found = [line async for line in split_lines(pieces_of(content, size), 10)]
    assert found == [b"one", b"two", b"123456789", b"1234567890", b"end"]


async def test_a_too_long_end_is_passed_over() -> None:
    assert [line async for line in split_lines(pieces_of(b"ok\n" + b"x" * 50, 4), 10)] == [b"ok"]


async def test_a_hanging_provider_is_given_up() -> None:
    from tests.support.fake_openai import FakeOpenAI

    async with FakeOpenAI(hang) as silent:
        provider = OpenAIProviderBatches(api_key=KEY, base_url=silent.base_url, timeout_seconds=0.2)
        with pytest.raises(JudgeUnavailable):
            await provider.create("file-1", {})
        await provider.close()
