"""Where a gate's batches are scored, kept and compared: a running service, or this process."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from pydantic import ConfigDict

from app.batch_ports import BatchFilter
from app.batches.spool import Spool
from app.cli.actor import cli_actor
from app.cli.items import InvalidItems
from app.cli.meta_calls import PROJECT, ServiceRefused, ask, calling, post, refusal, understand
from app.container import Container, open_container, working
from app.domain.analysis_request import GateRequest
from app.domain.batch import Batch
from app.domain.comparison import GateReport
from app.domain.errors import SettingsInvalid
from app.domain.judge_check import JudgeCheck, JudgeCheckRequest
from app.domain.model import Value
from app.domain.rubric import Rubric, split_name
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.domain.validation import InvalidDocument
from app.governance.acting import acting_as
from app.settings import read_settings


class Place(Protocol):
    """Where batches are scored, kept and gated: a service, or this process.

    Methods raise NotFound or ServiceRefused for what is not there, and other SaitenErrors.
    """

    async def submit(self, body: bytes) -> Batch:
        """Takes a batch as NDJSON. Raises InvalidDocument that names what does not fit."""
        ...

    async def look(self, batch_id: str) -> Batch: ...

    async def cancel(self, batch_id: str) -> None: ...

    async def latest(self, name: str) -> Batch | None:
        """The newest completed batch of that name."""
        ...

    async def rubric(self, name: str) -> Rubric:
        """The rubric, `id` or `id@version`; its newest version where that one is gone."""
        ...

    def results(self, batch_id: str) -> AsyncIterator[str]:
        """The results as lines of JSON."""
        ...

    async def gate(self, request: GateRequest) -> GateReport: ...

    async def check_judge(self, request: JudgeCheckRequest) -> JudgeCheck: ...

    async def judge_kind(self) -> str:
        """`openai` or `lexical`: which judge scores here."""
        ...


@dataclass
class Here:
    """This process, over the configured database. Its worker begins when a batch is seen that waits for one: what else
    lies unfinished in the database is not touched by a gate that scores nothing. `stack` ends it."""

    service: Container
    stack: AsyncExitStack
    works: bool = False

    async def submit(self, body: bytes) -> Batch:
        async def pieces() -> AsyncIterator[bytes]:
            yield body

        async with Spool() as spool:
            try:
                intake = await self.service.batches.take_in(pieces(), spool, ndjson=True)
            except StrictJSONError as error:
                raise InvalidItems(f"the items are not valid JSON: {error}") from None
            return await self.service.batches.accept(PROJECT, intake, None)

    async def look(self, batch_id: str) -> Batch:
        batch = await self.service.batches.find(PROJECT, batch_id)
        if batch.status in {"queued", "running"} and not self.works:
            self.works = True
            await self.stack.enter_async_context(working(self.service, asyncio.Event()))
        return batch

    async def cancel(self, batch_id: str) -> None:
        await self.service.batches.cancel(PROJECT, batch_id)

    async def latest(self, name: str) -> Batch | None:
        wanted = BatchFilter(name=name, status="completed")
        found = await self.service.batches.list(PROJECT, wanted, after=None, limit=1)
        return found[0] if found else None

    async def rubric(self, name: str) -> Rubric:
        return self.service.scoring.instruments.rubrics.nearest(name)

    async def results(self, batch_id: str) -> AsyncIterator[str]:
        async for page in self.service.batches.results(PROJECT, batch_id, after=-1, limit=None):
            for result in page:
                yield json.dumps(result.line(), ensure_ascii=False)

    async def gate(self, request: GateRequest) -> GateReport:
        return await self.service.comparison.gate(PROJECT, request)

    async def check_judge(self, request: JudgeCheckRequest) -> JudgeCheck:
        with acting_as(cli_actor()):
            return await self.service.comparison.check_judge(PROJECT, request)

    async def judge_kind(self) -> str:
        return self.service.scoring.instruments.judge.kind


class ListedRubric(Value):
    """A rubric as the list has it; the rest is not looked at."""

    model_config = ConfigDict(extra="ignore")

    id: str
    versions: tuple[int, ...] = ()


class ListedRubrics(Value):
    """The answer of `GET /v1/rubrics`."""

    rubrics: tuple[ListedRubric, ...]


@dataclass(frozen=True)
class There:
    """A running service."""

    client: httpx.AsyncClient

    async def submit(self, body: bytes) -> Batch:
        # With a key of its own the batch is taken once, however often it is sent.
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": secrets.token_hex(16)}
        try:
            response = await ask(self.client, "POST", "/v1/batches", content=body, headers=headers)
        except ServiceRefused as error:
            faults = read_faults(error.answer)
            raise (InvalidDocument(faults) if faults else error) from None
        return understand(Batch, response.content)

    async def look(self, batch_id: str) -> Batch:
        return understand(Batch, (await ask(self.client, "GET", f"/v1/batches/{batch_id}")).content)

    async def cancel(self, batch_id: str) -> None:
        await ask(self.client, "POST", f"/v1/batches/{batch_id}/cancel", again=False)

    async def latest(self, name: str) -> Batch | None:
        query = {"name": name, "status": "completed", "limit": "1"}
        found = self._object(await ask(self.client, "GET", "/v1/batches", params=query)).get("items")
        return understand(Batch, json.dumps(found[0]).encode()) if found else None

    async def rubric_versions(self) -> dict[str, Sequence[int]]:
        """The versions of each rubric by id; none of a service that does not tell them."""
        content = (await ask(self.client, "GET", "/v1/rubrics")).content
        return {one.id: one.versions for one in understand(ListedRubrics, content).rubrics}

    async def rubric(self, name: str) -> Rubric:
        try:
            return await self.exact_rubric(name)
        except ServiceRefused:
            rubric_id, version = split_name(name)
            if version is None:
                raise
            return await self.exact_rubric(rubric_id)

    async def exact_rubric(self, name: str) -> Rubric:
        """The rubric in that very version. Raises ServiceRefused where the service does not have it."""
        found = self._object(await ask(self.client, "GET", f"/v1/rubrics/{quote(name, safe='')}"))
        found.pop("digest", None)
        return understand(Rubric, json.dumps(found).encode())

    async def results(self, batch_id: str) -> AsyncIterator[str]:
        try:
            async with self.client.stream("GET", f"/v1/batches/{batch_id}/results") as response:
                if not response.is_success:
                    await response.aread()
                    raise refusal(response)
                async for line in response.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise SettingsInvalid(f"the results of {batch_id} broke off ({type(error).__name__})") from None

    async def gate(self, request: GateRequest) -> GateReport:
        return understand(GateReport, await post(self.client, "/v1/gates", request))

    async def check_judge(self, request: JudgeCheckRequest) -> JudgeCheck:
        return understand(JudgeCheck, await post(self.client, "/v1/judge-checks", request, again=False))

    async def judge_kind(self) -> str:
        judge = self._object(await ask(self.client, "GET", "/v1/info")).get("judge")
        return str(judge.get("kind")) if isinstance(judge, dict) else ""

    def _object(self, response: httpx.Response) -> dict[str, Any]:
        found = parse_strict_json(response.content)
        return found if isinstance(found, dict) else {}


def read_faults(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """(JSON pointer, what is wrong) of each fault that a problem document names."""
    errors = answer.get("errors")
    listed = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    return [(str(error.get("pointer", "")), str(error.get("detail", ""))) for error in listed]


@asynccontextmanager
async def open_place(url: str | None, judge: str | None = None) -> AsyncIterator[Place]:
    """A service, or this process, where `judge` comes before SAITEN_JUDGE."""
    if url is not None:
        async with calling(url) as client:
            yield There(client)
        return
    settings = read_settings()
    chosen = settings.model_copy(update={"judge": judge}) if judge else settings
    async with open_container(chosen) as service, AsyncExitStack() as stack:
        yield Here(service, stack)
