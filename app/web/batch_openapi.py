"""What the OpenAPI document says of batches: bodies in two forms, and answers that are streams."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

from app.domain.batch import BatchItem, BatchOptions, ItemResult
from app.web.body import JSON, NDJSON
from app.web.openapi import EXAMPLE, IDEMPOTENCY_KEY, TEMPLATE


class BatchRequest(BatchOptions):
    """The options that all items share, and the items."""

    items: list[BatchItem] = Field(min_length=1)


DOCUMENTED: tuple[type[BaseModel], ...] = (BatchRequest, ItemResult)
"""Models that no route declares, because their bodies and answers are streams."""

OPTIONS = {
    "name": "nightly",
    "rubric": "ja-dialogue",
    "budget_usd": 2.5,
    "metadata": {"system": "bot-a", "build": "1a2b3c"},
}
CONTEXT = EXAMPLE["context"]
ITEMS = [
    {"id": "sea-1", "context": CONTEXT, "response": EXAMPLE["response"], "dialogue": "sea"},
    {"id": "sea-2", "context": CONTEXT, "responses": ["泳ぎましたか？", "そうですか。"]},
]


def write_lines(*values: dict[str, Any]) -> str:
    """The values as NDJSON."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


BATCH_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": {"$ref": TEMPLATE.format(model="BatchRequest")}, "example": {**OPTIONS, "items": ITEMS}},
        NDJSON: {
            "schema": {
                "type": "string",
                "description": "the first line holds the options (`BatchRequest` without `items`), every further line "
                "an item (`BatchItem`)",
            },
            "example": write_lines(OPTIONS, *ITEMS),
        },
    },
}

CREATES_BATCH = {"requestBody": BATCH_BODY, "parameters": [IDEMPOTENCY_KEY]}
ESTIMATES_BATCH = {"requestBody": BATCH_BODY}

LOCATION = {"description": "the batch's address", "required": True, "schema": {"type": "string"}}

LINK = {
    "description": 'the address of the next page as `<…>; rel="next"`; none after the last',
    "schema": {"type": "string"},
}

METADATA_FILTER = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "description": "`metadata.KEY=VALUE`, as often as needed: batches whose metadata hold all of them",
    "style": "form",
    "explode": True,
    "schema": {
        "type": "object",
        "patternProperties": {"^metadata\\.": {"type": "string"}},
        "additionalProperties": False,
        "example": {"metadata.system": "bot-a"},
    },
}

FILTERED = {"parameters": [METADATA_FILTER]}

BATCH_STATUS = {
    "description": "the batch's status when the answer began: without `completed` or `cancelled` more results may come",
    "required": True,
    "schema": {"type": "string", "enum": ["queued", "running", "paused", "completed", "cancelled"]},
}

DISPOSITION = {"description": "with `format=csv`: a file name to save it under", "schema": {"type": "string"}}

RESULTS = {
    "description": "Results in item order; a connection that breaks off says that it is not all of them",
    "headers": {"X-Batch-Status": BATCH_STATUS, "Content-Disposition": DISPOSITION},
    "content": {
        NDJSON: {
            "schema": {
                "type": "string",
                "description": "a line per candidate: `position`, `item`, `candidate` and `cluster`, then the fields "
                "of an `Evaluation`; where there is none, `status` is `failed` and `error` holds `code` and `detail`",
            },
            "example": write_lines(
                {
                    "position": 0,
                    "item": "sea-1",
                    "candidate": None,
                    "cluster": "9f2c4e0a7b1d3358",
                    "id": "ev_…",
                    "status": "scored",
                    "aspects": {},
                    "dialogue": "sea",
                },
                {
                    "position": 1,
                    "item": "sea-2",
                    "candidate": 0,
                    "status": "failed",
                    "error": {"code": "worker-died", "detail": "…"},
                },
            ),
        },
        "text/csv": {"schema": {"type": "string", "description": "RFC 4180 with a header; formulas are defused"}},
    },
}

LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "what an `EventSource` heard last; one that heard the end is answered with 204",
    "schema": {"type": "string"},
}
FOLLOWS = {"parameters": [LAST_EVENT]}

EVENTS = {
    "description": "`progress`, and at the end `completed`, `cancelled` or `erased`; the data are the batch as JSON",
    "content": {
        "text/event-stream": {
            # No type: a text by its media type, though some readers take each event for a value of its own.
            "schema": {"description": "server-sent events: `event`, `data` and now and then `retry` and `id`"},
            "example": 'event: progress\ndata: {"id":"ba_…","status":"running","progress":0.25}\n\n',
        }
    },
}
