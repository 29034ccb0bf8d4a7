"""OpenAI's Batch API through its SDK: files of calls up, batches made of them, files of answers down."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import datetime
from typing import IO

import aiohttp
import httpx2
import openai
from openai.types import Batch

from app.domain.provider_batch import ProviderPart
from app.providers.openai.batches import CHAT_PATH, read_line, split_lines
from app.providers.openai.endpoint import BoundedClient
from app.providers.openai.errors import quote_words, translate_error
from app.providers.ports import ProviderAnswer, ProviderBatch

logger = logging.getLogger("saiten.judge")

ENDED = frozenset({"completed", "expired", "cancelled"})
OVER_LIMIT = "token_limit_exceeded"
PAGE = 100
MOST_FAULTS = 3
INPUT_KEPT_SECONDS = 3 * 24 * 3600
"""The provider removes a file of questions by itself after this time, should no process be left to do so: it holds
texts, and is read within a day."""
LARGEST_PAGE_BYTES = 8 * 2**20
"""Of any answer but a file of answers, which is read line by line."""


class ProviderClient:
    """What the port `BatchProvider` asks of the provider at `url`, with the `Judge…` errors.

    `timeout_seconds` bounds the silence during a transfer, not the transfer. Longer lines of answers than
    `longest_line_bytes` are passed over.
    """

    def __init__(self, *, api_key: str, url: str, timeout_seconds: float, longest_line_bytes: int) -> None:
        self._api_key = api_key
        self._longest_line_bytes = longest_line_bytes
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=url,
            max_retries=0,
            timeout=timeout_seconds,
            http_client=BoundedClient(largest_reply_bytes=LARGEST_PAGE_BYTES, timeout=timeout_seconds),
        )

    async def upload(self, content: IO[bytes], name: str) -> str:
        with self._translating():
            made = await self._client.files.create(
                file=(name, content),
                purpose="batch",
                expires_after={"anchor": "created_at", "seconds": INPUT_KEPT_SECONDS},
            )
        return made.id

    async def find_uploads(self, name: str) -> list[str]:
        with self._translating():
            files = self._client.files.list(purpose="batch", order="desc")
            return [file.id async for file in files if file.filename == name]

    async def create(self, file_id: str, tags: Mapping[str, str]) -> str:
        with self._translating():
            made = await self._client.batches.create(
                input_file_id=file_id, endpoint=CHAT_PATH, completion_window="24h", metadata=dict(tags)
            )
        return made.id

    async def find(self, tags: Mapping[str, str], since: datetime) -> ProviderBatch | None:
        with self._translating():
            async for batch in self._client.batches.list(limit=PAGE):
                if batch.created_at < since.timestamp():
                    break
                if tags.items() <= (batch.metadata or {}).items():
                    return self._read(batch)
        return None

    async def retrieve(self, provider_batch_id: str) -> ProviderBatch | None:
        try:
            with self._translating(keep=openai.NotFoundError):
                return self._read(await self._client.batches.retrieve(provider_batch_id))
        except openai.NotFoundError:
            return None

    async def cancel(self, provider_batch_id: str) -> None:
        try:
            with self._translating(keep=(openai.NotFoundError, openai.ConflictError, openai.BadRequestError)):
                await self._client.batches.cancel(provider_batch_id)
        except (openai.NotFoundError, openai.ConflictError, openai.BadRequestError):
            # It has ended in the meantime.
            return

    async def delete_file(self, file_id: str) -> None:
        try:
            with self._translating(keep=openai.NotFoundError):
                await self._client.files.delete(file_id)
        except openai.NotFoundError:
            return

    async def answers(self, file_id: str, part: ProviderPart) -> AsyncGenerator[ProviderAnswer]:
        try:
            with self._translating(keep=openai.NotFoundError):
                async with (
                    self._client.files.with_streaming_response.content(file_id) as response,
                    aclosing(split_lines(response.iter_bytes(), self._longest_line_bytes)) as lines,
                ):
                    async for line in lines:
                        if (answer := read_line(line, part)) is not None:
                            yield answer
        except openai.NotFoundError:
            logger.warning("a file of answers is gone from the provider", extra={"batch_id": part.batch})

    async def close(self) -> None:
        await self._client.close()

    def _read(self, batch: Batch) -> ProviderBatch:
        faults = (batch.errors.data if batch.errors else None) or []
        failed = batch.status == "failed"
        said = "; ".join(fault.message or fault.code or "" for fault in faults[:MOST_FAULTS]) or "it gave no reason"
        return ProviderBatch(
            id=batch.id,
            ended=batch.status in ENDED,
            file_id=batch.input_file_id,
            output_file_id=batch.output_file_id,
            error_file_id=batch.error_file_id,
            failure=quote_words(said, self._api_key) if failed else None,
            over_limit=failed and any(fault.code == OVER_LIMIT for fault in faults),
        )

    @contextmanager
    def _translating(
        self, keep: type[openai.OpenAIError] | tuple[type[openai.OpenAIError], ...] = ()
    ) -> Iterator[None]:
        """Lets the vendor's errors leave as `Judge…` errors, all but those to `keep`."""
        try:
            yield
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError, TimeoutError) as error:
            if isinstance(error, keep):
                raise
            shown = error if isinstance(error, openai.OpenAIError | TimeoutError) else TimeoutError(str(error))
            raise translate_error(shown, api_key=self._api_key) from error
