"""Where attacks are scored: in this process, or by a running service. Both give the record back as it was stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from app.cli import places
from app.cli.meta_calls import ATTEMPTS, PAUSE_SECONDS, PROJECT, ask, calling, understand, wished_pause
from app.cli.scoring import read_answer
from app.container import Container, open_container
from app.domain.errors import NotFound, SaitenError
from app.domain.evaluation import CallTrace, Evaluation, EvaluationRequest
from app.domain.model import Value
from app.domain.rubric import Rubric
from app.domain.validation import InvalidDocument, validate
from app.pipeline import evaluate
from app.settings import Settings

REFUSED = 422
LIMITED = 429
JSON = {"Content-Type": "application/json"}


class Answered(SaitenError):
    """What a service said in place of an evaluation, by its code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Refused(Answered):
    """The request was not taken: 422."""


class StoredRecord(Value):
    """An evaluation with its judge calls, as it was read back."""

    evaluation: Evaluation
    trace: tuple[CallTrace, ...]


class Target(Protocol):
    """What rates. `judge` says which it is, for a reader."""

    @property
    def judge(self) -> str: ...

    async def rubric(self, rubric_id: str) -> Rubric: ...

    async def score(self, body: dict[str, Any]) -> StoredRecord:
        """Scores a body of POST /v1/evaluations. Raises Refused where it is not valid, else other SaitenErrors."""
        ...


@dataclass(frozen=True)
class Here:
    """This process, with its own settings."""

    service: Container

    @property
    def judge(self) -> str:
        settings = self.service.settings
        if settings.judge_kind == "lexical":
            return "lexical"
        # Without what may stand before the host: a URL can carry a key.
        base = httpx.URL(settings.openai_base_url) if settings.openai_base_url else None
        return f"openai at {base.netloc.decode()}" if base else "openai"

    async def rubric(self, rubric_id: str) -> Rubric:
        return self.service.scoring.instruments.rubrics.get(rubric_id)

    async def score(self, body: dict[str, Any]) -> StoredRecord:
        try:
            request = validate(EvaluationRequest, body, self.service.settings.limits)
        except InvalidDocument as error:
            raise Refused(error.code, error.detail) from None
        record = await evaluate(request, self.service.scoring.instruments)
        await self.service.scoring.evaluations.save(PROJECT, record)
        kept = await self.service.scoring.evaluations.find(PROJECT, record.evaluation.id)
        if kept is None:
            raise NotFound("the evaluation was not stored")
        return StoredRecord(evaluation=kept.evaluation, trace=kept.trace)


@dataclass(frozen=True)
class There:
    """A running service."""

    client: httpx.AsyncClient
    judge: str

    async def rubric(self, rubric_id: str) -> Rubric:
        return await places.There(self.client).rubric(rubric_id)

    async def score(self, body: dict[str, Any]) -> StoredRecord:
        evaluation = understand(Evaluation, (await self._post(json.dumps(body))).content)
        found = await ask(self.client, "GET", f"/v1/evaluations/{quote(evaluation.id)}", params={"include": "trace"})
        kept = read_answer(found)
        trace = kept.pop("trace", [])
        return understand(StoredRecord, json.dumps({"evaluation": kept, "trace": trace}).encode())

    async def _post(self, body: str) -> httpx.Response:
        """The evaluation. Where the key has made its requests of a minute, after the pause that the service asks for.

        Whatever else goes wrong is not tried again: the service has tried the judge itself.
        """
        for _ in range(ATTEMPTS):
            try:
                response = await self.client.post("/v1/evaluations", content=body, headers=JSON)
            except httpx.HTTPError as error:
                raise Answered("service-unavailable", f"the service gave no answer ({type(error).__name__})") from None
            if response.is_success:
                return response
            if response.status_code != LIMITED:
                break
            await asyncio.sleep(max(PAUSE_SECONDS, wished_pause(response)))
        answer = read_answer(response)
        code, detail = answer.get("code"), str(answer.get("detail", ""))
        code = code if isinstance(code, str) else f"http-{response.status_code}"
        raise (Refused if response.status_code == REFUSED else Answered)(code, detail)


@asynccontextmanager
async def open_target(url: str | None, settings: Settings) -> AsyncIterator[Target]:
    """A service, or this process."""
    if url is None:
        async with open_container(settings) as service:
            yield Here(service)
        return
    async with calling(url) as client:
        told = read_answer(await ask(client, "GET", "/v1/info")).get("judge")
        kind = told.get("kind", "judge") if isinstance(told, dict) else "judge"
        yield There(client, f"{kind} of {str(client.base_url.copy_with(userinfo=b'')).rstrip('/')}")
