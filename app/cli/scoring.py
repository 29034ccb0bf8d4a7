"""Scores requests, in this process or through a running service, several at a time and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from app.call_cache import collect_keys
from app.cli.patience import open_transport
from app.container import open_container
from app.domain.errors import SaitenError, SettingsInvalid
from app.domain.evaluation import CallTrace, EvaluationRequest
from app.domain.rubric import split_name
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.governance.integrity import settle_for
from app.pipeline import evaluate, quote_unused
from app.settings import Settings, is_http_url

Scorer = Callable[[EvaluationRequest], Awaitable[dict[str, Any]]]

READ_SECONDS = 300.0

WINDOW = 4
"""Items begun and not yet printed, as a multiple of those in flight: so many may wait for a slow one before them."""

UNUSED = "_unused"
"""In a result of a scorer: the beginning of a reply that did not rate everything. It is not part of the result."""

SHAPE = {"status": str, "rubric": dict, "aspects": dict, "composites": dict, "warnings": list, "metadata": dict}
"""What every evaluation has."""


@asynccontextmanager
async def score_here(settings: Settings) -> AsyncIterator[Scorer]:
    """A scorer in this process; its results are stored as the service's are."""
    async with open_container(settings) as service:

        async def score(request: EvaluationRequest) -> dict[str, Any]:
            try:
                asked = await settle_for("default", request, service.governance.policies)
                with collect_keys() as calls:
                    record = await evaluate(asked, service.scoring.instruments)
                await service.scoring.evaluations.save("default", record, tuple(calls))
            except SaitenError as error:
                return failed(request, error.code, error.detail)
            marked = await service.ratings.reliabilities.mark("default", record.evaluation)
            result = marked.model_dump(mode="json")
            if record.evaluation.status != "scored":
                result[UNUSED] = quote_unused(record.trace)
            return result

        yield score


@asynccontextmanager
async def score_there(url: str, key: str | None) -> AsyncIterator[Scorer]:
    """A scorer that asks the service at `url`. Raises SettingsInvalid where it is no URL or nobody answers there."""
    if not is_http_url(url):
        raise SettingsInvalid(f"--url {url!r} is not the URL of a service; write it like http://127.0.0.1:8000")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout, transport = httpx.Timeout(10.0, read=READ_SECONDS), open_transport()
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, transport=transport) as client:
        name = str(client.base_url.copy_with(userinfo=b"")).rstrip("/")
        await greet(client, name)

        async def score(request: EvaluationRequest) -> dict[str, Any]:
            try:
                response = await client.post("/v1/evaluations", json=request.model_dump(mode="json"))
            except httpx.HTTPError as error:
                return failed(request, "service-unavailable", f"{name} gave no answer ({type(error).__name__})")
            result = read_result(request, response, name)
            if result["status"] == "partial":
                result[UNUSED] = await fetch_unused(client, result.get("id"))
            return result

        yield score


async def fetch_unused(client: httpx.AsyncClient, evaluation_id: object) -> str | None:
    """How the reply began that left an aspect unrated; None where that is not to be had."""
    try:
        found = await client.get(f"/v1/evaluations/{quote(str(evaluation_id))}", params={"include": "trace"})
        calls = read_answer(found).get("trace") if found.is_success else None
        return quote_unused([CallTrace.model_validate(call) for call in calls]) if isinstance(calls, list) else None
    except (httpx.HTTPError, ValidationError):
        return None


async def greet(client: httpx.AsyncClient, url: str) -> None:
    """Raises SettingsInvalid where no Saiten that takes the key answers at `url`."""
    try:
        response = await client.get("/v1/info")
    except httpx.HTTPError as error:
        raise SettingsInvalid(
            f"nobody answers at {url} ({type(error).__name__}); start it with `saiten serve`"
        ) from None
    if response.status_code in {401, 403}:
        raise SettingsInvalid(f"{url} refused the key; set SAITEN_API_KEY to one that `saiten keys create` made")
    if not response.is_success:
        raise SettingsInvalid(f"{url} is no Saiten service (/v1/info answered {response.status_code})")


def read_result(request: EvaluationRequest, response: httpx.Response, url: str) -> dict[str, Any]:
    """The evaluation that the service at `url` answered with, or what stands in its place."""
    answer = read_answer(response)
    if response.is_success:
        if all(isinstance(answer.get(name), kind) for name, kind in SHAPE.items()):
            return answer
        detail = f"{url} answered {response.status_code} without an evaluation; is it a Saiten service?"
        return failed(request, "service-reply-invalid", detail)
    code, why = answer.get("code"), answer.get("detail")
    return failed(
        request,
        code if isinstance(code, str) else f"http-{response.status_code}",
        why if isinstance(why, str) else f"{url} answered {response.status_code} without saying why",
    )


def read_answer(response: httpx.Response) -> dict[str, Any]:
    """The answer's JSON object; empty where it is none, as a proxy's error page."""
    try:
        answer = parse_strict_json(response.content)
    except StrictJSONError:
        return {}
    return answer if isinstance(answer, dict) else {}


def failed(request: EvaluationRequest, code: str, detail: str) -> dict[str, Any]:
    """What stands in place of a result that could not be had."""
    return {
        "status": "failed",
        "rubric": {"id": split_name(request.rubric)[0]},
        "error": {"code": code, "detail": detail},
        "metadata": request.metadata,
        "dialogue": request.dialogue,
    }


async def score_in_order(
    requests: Iterable[EvaluationRequest], scorer: Scorer, *, concurrency: int, done: Callable[[], None]
) -> AsyncGenerator[dict[str, Any], None]:
    """One result a request, in order, each when it and all before it are there; `concurrency` calls at once at most.

    `done` is told of each call that ends. Close the generator (`aclosing`): what is in flight then ends with it.
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(request: EvaluationRequest) -> dict[str, Any]:
        async with gate:
            result = await scorer(request)
        done()
        return result

    remaining = iter(requests)
    begun: deque[asyncio.Task[dict[str, Any]]] = deque()
    try:
        while True:
            room = WINDOW * concurrency - len(begun)
            begun.extend(asyncio.create_task(one(request)) for request in islice(remaining, room))
            if not begun:
                return
            # It stays in the queue until it has ended, so that an interruption ends it as well.
            result = await begun[0]
            begun.popleft()
            yield result
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
