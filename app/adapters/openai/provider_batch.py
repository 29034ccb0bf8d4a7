"""OpenAI's Batch API behind its port. What speaks to it is loaded by the first who does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import IO, TYPE_CHECKING

from app.adapters.openai.address import find_address, is_printable
from app.adapters.openai.first_use import FirstUse
from app.adapters.openai.parameters import bound_reply, concede
from app.adapters.openai.provider_batch_lines import write_line
from app.domain.errors import SettingsInvalid
from app.domain.provider_batch import Part
from app.provider_ports import DeferredCall, ProviderAnswer, ProviderBatch

if TYPE_CHECKING:
    from app.adapters.openai.provider_client import ProviderClient


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
            from app.adapters.openai.provider_client import ProviderClient

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

    async def answers(self, file_id: str, part: Part) -> AsyncIterator[ProviderAnswer]:
        async with aclosing((await self._client.get()).answers(file_id, part)) as answers:
            async for answer in answers:
                yield answer

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]:
        return concede(conceded, refused)

    async def close(self) -> None:
        await self._client.close()
