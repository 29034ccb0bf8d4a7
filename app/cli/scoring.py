"""Scores requests by a service, several at a time and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

from pydantic import ValidationError

import saiten
from app.domain.evaluation import CallTrace, EvaluationRequest
from app.domain.rubric import split_name
from app.pipeline import quote_unused

Scorer = Callable[[EvaluationRequest], Awaitable[dict[str, Any]]]

WINDOW = 4
"""Items begun and not yet printed, as a multiple of those in flight: so many may wait for a slow one before them."""

UNUSED = "_unused"
"""In a result of a scorer: the beginning of a reply that did not rate everything. It is not part of the result."""

SHAPE = {"status": str, "rubric": dict, "aspects": dict, "composites": dict, "warnings": list, "metadata": dict}
"""What every evaluation has."""


def scorer_of(client: saiten.AsyncClient) -> Scorer:
    """A scorer that asks the service."""

    async def score(request: EvaluationRequest) -> dict[str, Any]:
        try:
            result = await client.evaluate(request.model_dump(mode="json"))
        except saiten.ServiceRefused as error:
            said = isinstance(error.answer.get("detail"), str)
            why = error.detail if said else f"{client.url} answered {error.status} without saying why"
            return failed(request, error.code, why)
        except saiten.SaitenError as error:
            return failed(request, error.code, error.detail)
        if not all(isinstance(result.get(name), kind) for name, kind in SHAPE.items()):
            detail = f"{client.url} answered 200 without an evaluation; is it a Saiten service?"
            return failed(request, "service-reply-invalid", detail)
        if result["status"] == "partial":
            result[UNUSED] = await fetch_unused(client, result.get("id"))
        return result

    return score


async def fetch_unused(client: saiten.AsyncClient, evaluation_id: object) -> str | None:
    """How the reply began that left an aspect unrated; None where that is not to be had."""
    try:
        calls = (await client.evaluation(str(evaluation_id), trace=True)).get("trace")
        return quote_unused([CallTrace.model_validate(call) for call in calls]) if isinstance(calls, list) else None
    except (saiten.SaitenError, ValidationError):
        return None


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
