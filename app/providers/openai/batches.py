"""OpenAI's Batch API: files of calls are uploaded, answered within a day, and downloaded line by line.

The SDK takes most of a second to import, so it is loaded at the first use.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Literal

from saiten.core.messages import Message
from saiten_server.core.errors import SettingsInvalid
from saiten_server.providers.openai.judge import FirstUse, find_address, is_printable
from saiten_server.providers.openai.parameters import MOST_REPLY_BYTES, concede, find_refused, name_dropped
from saiten_server.providers.openai.reply import FILTER_CODES, Reply, filtered, member, read_completion, text_member
from saiten_server.providers.ports import DeferredCall, ProviderAnswer, ProviderBatch, ProviderPart

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

logger = logging.getLogger("saiten.judge")

CHAT_PATH: Literal["/v1/chat/completions"] = "/v1/chat/completions"
ENDED_JOBS = frozenset({"completed", "expired", "cancelled"})
# After this time the provider deletes an uploaded file itself, in case no process is left to do so. The file holds
# texts, and is needed for a day at most.
INPUT_KEPT_SECONDS = 3 * 24 * 3600
LARGEST_PAGE_BYTES = 8 * 2**20  # Limit for every answer except a file of answers, which is read line by line


def read_answer_line(line: bytes, part: ProviderPart) -> ProviderAnswer | None:
    """One line of a file of answers; None if it cannot be read or does not name its call."""
    try:
        answered = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = text_member(answered, "custom_id")
    if key is None:
        return None
    response = member(answered, "response", dict)
    status, body = member(response, "status_code", int), member(response, "body", dict)
    if status == HTTPStatus.OK:
        # In the form in which a live answer arrives, so that one reader bounds and cleans both.
        answer = read_completion(json.dumps(body).encode())
        return ProviderAnswer(key, write_entry(key, part, answer) if answer["completion"] else None)
    return read_error(key, part, status, member(body, "error", dict))


def read_error(key: str, part: ProviderPart, status: int | None, error: dict[str, Any] | None) -> ProviderAnswer:
    """The answer for a call that failed. A call that a content filter stopped counts as a reply, as in a live call."""
    code = text_member(error, "code")
    if code in FILTER_CODES:
        return ProviderAnswer(key, write_entry(key, part, filtered(text_member(error, "message") or "")))
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return ProviderAnswer(key, None)
    message, param = text_member(error, "message") or "", text_member(error, "param")
    return ProviderAnswer(key, None, find_refused(list_sent(part.parameters), message, param, code))


def write_entry(key: str, part: ProviderPart, answer: Mapping[str, Any]) -> bytes:
    """The reply as the call cache keeps it."""
    reply = Reply(
        key=key,
        structured="response_format" not in part.conceded,
        parameters=dict(part.parameters),
        dropped=name_dropped(part.conceded),
        **answer,
    )
    return reply.model_dump_json().encode()


def list_sent(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the body held them: `logprobs` goes with `top_logprobs`, and the format `text` is left out."""
    sent = dict(parameters)
    if "top_logprobs" in sent:
        sent["logprobs"] = True
    if sent.get("response_format") == "text":
        del sent["response_format"]
    return sent


async def split_lines(pieces: AsyncIterator[bytes], longest_bytes: int) -> AsyncGenerator[bytes]:
    """The lines of a stream. A line that is longer than allowed is skipped, and never held whole in memory."""
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
    """Implements `BatchProvider`. `base_url` None is OpenAI's own. `timeout_seconds` limits the silence during a
    transfer, not the transfer. Lines of answers that are longer than any reply may be are skipped."""

    def __init__(self, *, api_key: str, base_url: str | None, timeout_seconds: float = 60.0) -> None:
        if not (api_key and is_printable(api_key)):
            raise SettingsInvalid(Message("batch-mode-key"))
        url = find_address(base_url).url

        def make() -> AsyncOpenAI:
            from openai import AsyncOpenAI

            from saiten_server.providers.openai.endpoint import BoundedClient

            http_client = BoundedClient(largest_reply_bytes=LARGEST_PAGE_BYTES, timeout=timeout_seconds)
            return AsyncOpenAI(
                api_key=api_key, base_url=url, max_retries=0, timeout=timeout_seconds, http_client=http_client
            )

        self._api_key = api_key
        self._client = FirstUse(make)

    async def upload(self, content: IO[bytes], name: str) -> str:
        async with self._calling() as client:
            made = await client.files.create(
                file=(name, content),
                purpose="batch",
                expires_after={"anchor": "created_at", "seconds": INPUT_KEPT_SECONDS},
            )
        return made.id

    async def find_uploads(self, name: str) -> list[str]:
        async with self._calling() as client:
            files = client.files.list(purpose="batch", order="desc")
            return [file.id async for file in files if file.filename == name]

    async def create(self, file_id: str, tags: Mapping[str, str]) -> str:
        async with self._calling() as client:
            made = await client.batches.create(
                input_file_id=file_id, endpoint=CHAT_PATH, completion_window="24h", metadata=dict(tags)
            )
        return made.id

    async def find(self, tags: Mapping[str, str], since: datetime) -> ProviderBatch | None:
        async with self._calling() as client:
            async for batch in client.batches.list(limit=100):
                if batch.created_at < since.timestamp():
                    break
                if tags.items() <= (batch.metadata or {}).items():
                    return self._read(batch)
        return None

    async def retrieve(self, provider_batch_id: str) -> ProviderBatch | None:
        batch: Batch | None = None
        async with self._calling(HTTPStatus.NOT_FOUND) as client:
            batch = await client.batches.retrieve(provider_batch_id)
        return None if batch is None else self._read(batch)

    async def cancel(self, provider_batch_id: str) -> None:
        # These statuses mean that the batch has ended in the meantime.
        async with self._calling(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.BAD_REQUEST) as client:
            await client.batches.cancel(provider_batch_id)

    async def delete_file(self, file_id: str) -> None:
        async with self._calling(HTTPStatus.NOT_FOUND) as client:
            await client.files.delete(file_id)

    def line(self, call: DeferredCall) -> bytes:
        line = {"custom_id": call.key, "method": "POST", "url": CHAT_PATH, "body": call.body}
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def answers(self, file_id: str, part: ProviderPart) -> AsyncGenerator[ProviderAnswer]:
        gone = True
        async with (
            self._calling(HTTPStatus.NOT_FOUND) as client,
            client.files.with_streaming_response.content(file_id) as response,
            aclosing(split_lines(response.iter_bytes(), MOST_REPLY_BYTES)) as lines,
        ):
            async for line in lines:
                if (answer := read_answer_line(line, part)) is not None:
                    yield answer
            gone = False
        if gone:
            logger.warning("a file of answers is gone from the provider", extra={"batch_id": part.batch})

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]:
        return concede(conceded, refused)

    async def close(self) -> None:
        await self._client.close()

    def _read(self, batch: Batch) -> ProviderBatch:
        from saiten_server.providers.openai.errors import quote_words

        faults = (batch.errors.data if batch.errors else None) or []
        failed = batch.status == "failed"
        message = "; ".join(fault.message or fault.code or "" for fault in faults[:3]) or "it gave no reason"
        return ProviderBatch(
            id=batch.id,
            ended=batch.status in ENDED_JOBS,
            file_id=batch.input_file_id,
            output_file_id=batch.output_file_id,
            error_file_id=batch.error_file_id,
            failure=quote_words(message, self._api_key) if failed else None,
            over_limit=failed and any(fault.code == "token_limit_exceeded" for fault in faults),
        )

    @asynccontextmanager
    async def _calling(self, *ignored: int) -> AsyncIterator[AsyncOpenAI]:
        """Yields the client, and turns the SDK's errors into `Judge…` errors. A response with an `ignored` HTTP status
        ends the block."""
        client = await self._client.get()  # which imports the following in a thread
        import aiohttp
        import httpx2
        import openai

        from saiten_server.providers.openai.errors import translate_error

        try:
            yield client
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, TimeoutError) as error:
            if isinstance(error, openai.APIStatusError) and error.status_code in ignored:
                return
            shown = error if isinstance(error, openai.OpenAIError | TimeoutError) else TimeoutError(str(error))
            raise translate_error(shown, api_key=self._api_key) from error
