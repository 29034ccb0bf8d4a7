"""`Idempotency-Key`: a request with the same key and body gets the stored answer, and the work is done once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import Request, Response

from saiten.core.messages import Message
from saiten_server.core.errors import IdempotencyKeyInUse, IdempotencyKeyReused, StoreError
from saiten_server.platform.tasks import cancel_for_good
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.scoring.store import KEY_SECONDS, EvaluationStore, StoredAnswer

MOST_KEY_CHARACTERS = 255


async def once(request: Request, store: EvaluationStore, make: Callable[[], Awaitable[Response]]) -> Response:
    """The response of `make()`, or the stored response to an earlier request with this key.

    Only successes are stored: after an error the key can be used again. Raises IdempotencyKeyReused (another body) and
    IdempotencyKeyInUse (still running).
    """
    key = read_key(request)
    if key is None:
        return await make()
    async with claimed(request, store, key, digest_request(request, request.state.body)) as replayed:
        if replayed is not None:
            return replayed
        response = await make()
        await store.answer_key(request.state.project, key, response.status_code, bytes(response.body))
        return response


def digest_request(request: Request, body: bytes) -> str:
    """The digest of the path, the query and the body; of a body too large for memory, pass its digest."""
    query: bytes = request.scope["query_string"]
    asked = request.scope["path"].encode() + (b"?" + query if query else b"")
    return hashlib.sha256(asked + b"\0" + body).hexdigest()


def read_key(request: Request) -> str | None:
    """The request's Idempotency-Key, or None. Raises RequestRefused (400) unless it is short, printable ASCII."""
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= MOST_KEY_CHARACTERS and key.isascii() and key.isprintable()):
        detail = Message("idempotency-key-form", maximum=MOST_KEY_CHARACTERS)
        raise RequestRefused(400, "invalid-idempotency-key", detail)
    return key


@asynccontextmanager
async def claimed(
    request: Request, store: EvaluationStore, key: str | None, body_digest: str
) -> AsyncIterator[Response | None]:
    """Claims the key while the block does the work; an error in the block releases it.

    Yields None if the work is to be done (always without a key), otherwise the answer of the request that did it.
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
        alive = asyncio.create_task(show_life(store, project, key))
        try:
            yield None
        finally:
            await cancel_for_good([alive])  # from now on the claim may belong to another request
    except BaseException:
        # However it ended, this request will not answer under the key. If the store cannot release the key, the claim
        # expires; the caller gets the first error.
        with suppress(StoreError):
            await store.release_key(project, key)
        raise


async def show_life(
    store: EvaluationStore, project: str, key: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Renews the claim until cancelled. If the process dies, the claim expires and a retry is served soon."""
    while True:
        await sleep(KEY_SECONDS / 4)
        with suppress(StoreError):
            await store.renew_key(project, key)


def replay(held: StoredAnswer, body_digest: str) -> Response:
    """The stored answer, marked as replayed."""
    if held.body_digest != body_digest:
        raise IdempotencyKeyReused(Message("idempotency-key-used"))
    if held.status is None or held.body is None:
        raise IdempotencyKeyInUse(Message("idempotency-key-running"))
    return Response(held.body, held.status, {"Idempotent-Replayed": "true"}, "application/json")
