"""`Idempotency-Key`: the same key and body replay the stored answer; the work is done once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import Request, Response

from app.domain.errors import IdempotencyKeyInUse, IdempotencyKeyReused, StoreError
from app.runtime.tasks import cancel_for_good
from app.storage.sql.evaluations import KEY_SECONDS, EvaluationStore, StoredAnswer
from app.web.problems import RequestRefused

LONGEST = 255


async def once(request: Request, store: EvaluationStore, make: Callable[[], Awaitable[Response]]) -> Response:
    """`make()`'s response, or the stored one of an earlier request with this key.

    Only success is kept: after an error the key is free again, so that a retry with it can succeed. Raises
    IdempotencyKeyReused (other body) and IdempotencyKeyInUse (still running).
    """
    key = key_of(request)
    if key is None:
        return await make()
    async with claimed(request, store, key, digest_of(request, request.state.body)) as replayed:
        if replayed is not None:
            return replayed
        response = await make()
        await store.answer_key(request.state.project, key, response.status_code, bytes(response.body))
        return response


def digest_of(request: Request, body: bytes) -> str:
    """What a key stands for: the path and the body, or the body's digest where it was too large to be held."""
    return hashlib.sha256(request.scope["path"].encode() + b"\0" + body).hexdigest()


def key_of(request: Request) -> str | None:
    """The request's Idempotency-Key, where it has one; raises Refused (400) where it is not valid."""
    key = request.headers.get("idempotency-key")
    if key is not None:
        check_key(key)
    return key


@asynccontextmanager
async def claimed(
    request: Request, store: EvaluationStore, key: str | None, body_digest: str
) -> AsyncIterator[Response | None]:
    """Holds the key while the block does the work and keeps its answer; an error in the block lets it go.

    Gives None where the work is to be done, as it is without a key; else the answer of the request that did it.
    Raises IdempotencyKeyReused and IdempotencyKeyInUse.
    """
    if key is None:
        yield None
        return
    project: str = request.state.project
    held = await store.claim_key(project, key, body_digest)
    if held is not None:
        yield replay(held, body_digest)
        return
    try:
        async with renewed(store, project, key):
            yield None
    except BaseException:
        # Whatever ended it, a cancelled connection included, nobody will answer under this key any more. Where the
        # store cannot even release it, the claim ends by growing old; what the caller hears is the first error.
        with suppress(StoreError):
            await store.release_key(project, key)
        raise


@asynccontextmanager
async def renewed(store: EvaluationStore, project: str, key: str) -> AsyncIterator[None]:
    """Renews the claim as long as the block lasts, and not a moment longer: then it may be another's."""
    alive = asyncio.create_task(show_life(store, project, key))
    try:
        yield
    finally:
        await cancel_for_good([alive])


async def show_life(
    store: EvaluationStore, project: str, key: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renews the claim until cancelled. A process that dies stops renewing: who sends the key again is soon served."""
    while True:
        await sleep(KEY_SECONDS / 4)
        with suppress(StoreError):
            await store.renew_key(project, key)


def check_key(key: str) -> None:
    """Raises Refused (400) for a key that is empty, too long or not printable ASCII."""
    if not 1 <= len(key) <= LONGEST or not (key.isascii() and key.isprintable()):
        detail = f"Idempotency-Key is 1 to {LONGEST} printable ASCII characters"
        raise RequestRefused(400, "invalid-idempotency-key", "The Idempotency-Key is not valid", detail)


def replay(held: StoredAnswer, body_digest: str) -> Response:
    """The stored answer, marked as such."""
    if held.body_digest != body_digest:
        raise IdempotencyKeyReused("this Idempotency-Key belongs to another request; use a new one")
    if held.status is None or held.body is None:
        raise IdempotencyKeyInUse("a request with this Idempotency-Key is running; try again later")
    return Response(held.body, held.status, {"Idempotent-Replayed": "true"}, "application/json")
