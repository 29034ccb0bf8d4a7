"""A batch, as it answers a request."""

from __future__ import annotations

from fastapi import Response

from saiten_server.core.batch import Batch, KeyedAnswer
from saiten_server.platform.web.body import JSON

ACCEPTED = 202


def answer_batch(batch: Batch, status: int = 200) -> Response:
    """The batch as JSON."""
    return Response(batch.model_dump_json(), status, media_type=JSON)


def keep_under(key: str, batch: Batch) -> KeyedAnswer:
    """What a replay of the acceptance answers."""
    return KeyedAnswer(key, ACCEPTED, bytes(answer_batch(batch, ACCEPTED).body))
