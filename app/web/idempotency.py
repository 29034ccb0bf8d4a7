"""`Idempotency-Key`: the same key and body replay the stored answer; the work is done once."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fastapi import Request, Response

from app.domain.errors import IdempotencyKeyInUse, IdempotencyKeyReused, StoreError
from app.ports import Store, StoredAnswer
from app.web.problems import Refused

LONGEST = 255


async def once(request: Request, store: Store, make: Callable[[], Awaitable[Response]]) -> Response:
    """`make()`'s response, or the stored one of an earlier request with this key.

    Only success is kept: after an error the key is free again, so that a retry with it can succeed. Raises
    IdempotencyKeyReused (other body) and IdempotencyKeyInUse (still running).
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return await make()
    check_key(key)
    project: str = request.state.project
    body_digest = hashlib.sha256(request.scope["path"].encode() + b"\0" + request.state.body).hexdigest()
    held = await store.claim_key(project, key, body_digest)
    if held is not None:
        return replay(held, body_digest)
    try:
        response = await make()
        await store.answer_key(project, key, response.status_code, bytes(response.body))
    except BaseException:
        # Whatever ended it, a cancelled connection included, nobody will answer under this key any more. Where the
        # store cannot even release it, the claim ends by growing old; what the caller hears is the first error.
        with suppress(StoreError):
            await store.release_key(project, key)
        raise
    return response


def check_key(key: str) -> None:
    """Raises Refused (400) for a key that is empty, too long or not printable ASCII."""
    if not 1 <= len(key) <= LONGEST or not (key.isascii() and key.isprintable()):
        detail = f"Idempotency-Key is 1 to {LONGEST} printable ASCII characters"
        raise Refused(400, "invalid-idempotency-key", "The Idempotency-Key is not valid", detail)


def replay(held: StoredAnswer, body_digest: str) -> Response:
    """The stored answer, marked as such."""
    if held.body_digest != body_digest:
        raise IdempotencyKeyReused("this Idempotency-Key belongs to another request; use a new one")
    if held.status is None or held.body is None:
        raise IdempotencyKeyInUse("a request with this Idempotency-Key is running; try again later")
    return Response(held.body, held.status, {"Idempotent-Replayed": "true"}, "application/json")
