"""Scores requests, in this process or through a running service, several at a time and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from app.bootstrap import open_service
from app.concurrency import run_together
from app.domain.errors import SaitenError, SettingsInvalid
from app.domain.evaluation import EvaluationRequest
from app.pipeline import evaluate
from app.settings import Settings

Scorer = Callable[[EvaluationRequest], Awaitable[dict[str, Any]]]

READ_SECONDS = 300.0


@asynccontextmanager
async def score_here(settings: Settings) -> AsyncIterator[Scorer]:
    """A scorer in this process; its results are stored as the service's are."""
    async with open_service(settings) as service:

        async def score(request: EvaluationRequest) -> dict[str, Any]:
            try:
                record = await evaluate(request, service.instruments)
                await service.store.save("default", record)
            except SaitenError as error:
                return failed(request, error.code, error.detail)
            return record.evaluation.model_dump(mode="json")

        yield score


@asynccontextmanager
async def score_there(url: str, key: str | None) -> AsyncIterator[Scorer]:
    """A scorer that asks the service at `url`. Raises SettingsInvalid where nobody answers there."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx.Timeout(10.0, read=READ_SECONDS)
    try:
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, trust_env=False)
    except (httpx.InvalidURL, ValueError):
        raise SettingsInvalid(f"--url {url} is not a URL; write it like http://127.0.0.1:8000") from None
    async with client:
        await greet(client, url)

        async def score(request: EvaluationRequest) -> dict[str, Any]:
            try:
                response = await client.post("/v1/evaluations", json=request.model_dump(mode="json"))
            except httpx.HTTPError as error:
                return failed(request, "service-unavailable", f"{url} gave no answer ({type(error).__name__})")
            answer = read_answer(response)
            if response.is_success and "status" in answer:
                return answer
            return failed(request, answer.get("code", f"http-{response.status_code}"), answer.get("detail", ""))

        yield score


async def greet(client: httpx.AsyncClient, url: str) -> None:
    """Raises SettingsInvalid where no Saiten that takes the key answers at `url`."""
    try:
        response = await client.get("/v1/info")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SettingsInvalid(
            f"nobody answers at {url} ({type(error).__name__}); start it with `saiten serve`"
        ) from None
    if response.status_code in {401, 403}:
        raise SettingsInvalid(f"{url} refused the key; set SAITEN_API_KEY to one that `saiten keys create` made")
    if not response.is_success:
        raise SettingsInvalid(f"{url} is no Saiten service (/v1/info answered {response.status_code})")


def read_answer(response: httpx.Response) -> dict[str, Any]:
    """The answer's JSON object; empty where it is none, as a proxy's error page."""
    try:
        answer = response.json()
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def failed(request: EvaluationRequest, code: str, detail: str) -> dict[str, Any]:
    """What stands in place of a result that could not be had."""
    return {
        "status": "failed",
        "rubric": {"id": request.rubric},
        "error": {"code": code, "detail": detail},
        "metadata": request.metadata,
    }


async def score_all(
    requests: list[EvaluationRequest], scorer: Scorer, *, concurrency: int, done: Callable[[], None]
) -> list[dict[str, Any]]:
    """One result a request, in order, at most `concurrency` in flight."""
    gate = asyncio.Semaphore(concurrency)

    async def one(request: EvaluationRequest) -> dict[str, Any]:
        async with gate:
            result = await scorer(request)
        done()
        return result

    return await run_together(*map(one, requests))
