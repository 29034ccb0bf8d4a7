"""OpenAI's Batch API behind its port, and the lines of its files. The SDK is loaded at the first use."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Literal

from app.domain.errors import SettingsInvalid
from app.providers.openai.judge import FirstUse, find_address, is_printable
from app.providers.openai.parameters import bound_reply, concede, find_refused, name_dropped
from app.providers.openai.reply import FILTER_CODES, Reply, member, read_completion, text_member
from app.providers.ports import DeferredCall, ProviderAnswer, ProviderBatch

if TYPE_CHECKING:
    from app.providers.openai.batch_client import ProviderClient

from app.domain.provider_batch import ProviderPart

CHAT_PATH: Literal["/v1/chat/completions"] = "/v1/chat/completions"
FILTERED = {"content": None, "finish_reason": "content_filter"}


def write_line(call: DeferredCall) -> bytes:
    """One call as a line of a file."""
    line = {"custom_id": call.key, "method": "POST", "url": CHAT_PATH, "body": call.body}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_line(line: bytes, part: ProviderPart) -> ProviderAnswer | None:
    """One line of a file of answers; None where it cannot be read or does not say which call it answers."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = text_member(told, "custom_id")
    if key is None:
        return None
    response = member(told, "response", dict)
    status, body = member(response, "status_code", int), member(response, "body", dict)
    if status == HTTPStatus.OK:
        # As it would have come over the wire, so that one reader bounds and cleans both.
        answer = read_completion(json.dumps(body).encode())
        return ProviderAnswer(key, write_entry(key, part, answer) if answer["completion"] else None)
    return read_error(key, part, status, member(body, "error", dict))


def read_error(key: str, part: ProviderPart, status: int | None, error: dict[str, Any] | None) -> ProviderAnswer:
    """A call that failed. One that a content filter stopped is a reply, as it is in a live call."""
    code = text_member(error, "code")
    if code in FILTER_CODES:
        return ProviderAnswer(key, write_entry(key, part, FILTERED))
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return ProviderAnswer(key, None)
    message, param = text_member(error, "message") or "", text_member(error, "param")
    return ProviderAnswer(key, None, find_refused(list_sent(part.parameters), message, param, code))


def write_entry(key: str, part: ProviderPart, answer: Mapping[str, Any]) -> bytes:
    """The reply as the call cache would keep it."""
    reply = Reply(
        key=key,
        structured="response_format" not in part.conceded,
        parameters=dict(part.parameters),
        dropped=name_dropped(part.conceded),
        **answer,
    )
    return reply.model_dump_json().encode()


def list_sent(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they stood in the body: `logprobs` goes with `top_logprobs`, and `text` is not spelt out."""
    sent = dict(parameters)
    if "top_logprobs" in sent:
        sent["logprobs"] = True
    if sent.get("response_format") == "text":
        del sent["response_format"]
    return sent


async def split_lines(pieces: AsyncIterator[bytes], longest_bytes: int) -> AsyncGenerator[bytes]:
    """The lines of a stream. One that is longer than allowed is passed over, and never held whole."""
    held, passing = bytearray(), False
    async for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            if not passing and len(held) + len(end) <= longest_bytes:
                yield bytes(held + end)
            held.clear()
            passing = False
        passing = passing or len(held) + len(rest) > longest_bytes
        if passing:
            held.clear()
        else:
            held += rest
    if held:
        yield bytes(held)


class OpenAIProviderBatches:
    """Fills the port `BatchProvider`. `base_url` None is OpenAI's own.

    `timeout_seconds` bounds the silence during a transfer, not the transfer. `max_output_tokens` is the judge's: from
    it follows how long an answer's line may be.
    """

    def __init__(
        self, *, api_key: str, base_url: str | None, timeout_seconds: float = 60.0, max_output_tokens: int = 2048
    ) -> None:
        if not (api_key and is_printable(api_key)):
            raise SettingsInvalid("the provider's batch mode needs a key that a header can carry; set OPENAI_API_KEY")
        url, longest_line_bytes = find_address(base_url).url, bound_reply(max_output_tokens)

        def make() -> ProviderClient:
            from app.providers.openai.batch_client import ProviderClient

            return ProviderClient(
                api_key=api_key, url=url, timeout_seconds=timeout_seconds, longest_line_bytes=longest_line_bytes
            )

        self._client = FirstUse(make)

    async def upload(self, content: IO[bytes], name: str) -> str:
        return await (await self._client.get()).upload(content, name)

    async def find_uploads(self, name: str) -> list[str]:
        return await (await self._client.get()).find_uploads(name)

    async def create(self, file_id: str, tags: Mapping[str, str]) -> str:
        return await (await self._client.get()).create(file_id, tags)

    async def find(self, tags: Mapping[str, str], since: datetime) -> ProviderBatch | None:
        return await (await self._client.get()).find(tags, since)

    async def retrieve(self, provider_batch_id: str) -> ProviderBatch | None:
        return await (await self._client.get()).retrieve(provider_batch_id)

    async def cancel(self, provider_batch_id: str) -> None:
        await (await self._client.get()).cancel(provider_batch_id)

    async def delete_file(self, file_id: str) -> None:
        await (await self._client.get()).delete_file(file_id)

    def line(self, call: DeferredCall) -> bytes:
        return write_line(call)

    async def answers(self, file_id: str, part: ProviderPart) -> AsyncIterator[ProviderAnswer]:
        async with aclosing((await self._client.get()).answers(file_id, part)) as answers:
            async for answer in answers:
                yield answer

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]:
        return concede(conceded, refused)

    async def close(self) -> None:
        await self._client.close()
