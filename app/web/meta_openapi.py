"""What the OpenAPI document says of ratings, analyses, comparisons and gates."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from app.domain.analysis_request import (
    REQUESTS,
    AnalysisRequest,
    ComparisonRequest,
    GateRequest,
)
from app.domain.human_rating import Exclusion, HumanRating, StoredRating
from app.domain.judge_check import JudgeCheckRequest
from app.web.batch_openapi import write_lines
from app.web.body import JSON, NDJSON
from app.web.openapi import IDEMPOTENCY_KEY, TEMPLATE

META_DOCUMENTED: tuple[type[BaseModel], ...] = (
    *REQUESTS.values(),
    AnalysisRequest,
    ComparisonRequest,
    GateRequest,
    JudgeCheckRequest,
    HumanRating,
    StoredRating,
    Exclusion,
)
"""Models of bodies that are read strictly, or as lines."""

RECORDS = [
    {"system": "bot-a", "item": "sea-1", "rater": "r1", "ratings": {"naturalness": 3, "overall": 4}},
    {"system": "bot-a", "item": "sea-1", "rater": "r2", "ratings": {"naturalness": 2, "overall": 4}},
]
HUMAN = [{"item": "sea-1", "batch": "ba_…", "rater": "r1", "ratings": {"overall": 4}, "comment": "少し硬い"}]


def reads(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """`openapi_extra` of a route whose body `app.web.body` reads."""
    content = {JSON: {"schema": {"$ref": TEMPLATE.format(model=model.__name__)}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


COMPARES = reads(ComparisonRequest, {"baseline": "ba_…", "candidate": "ba_…", "alpha": 0.05, "test": "auto"})
GATES = reads(
    GateRequest,
    {"candidate": "ba_…", "baseline": "ba_…", "rules": [{"aspect": "overall", "max_drop": 0.1}], "min_coverage": 0.98},
)
CHECKS_JUDGE = reads(JudgeCheckRequest, {"rubric": "ja-dialogue"})

ANALYSES = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {"anyOf": [{"$ref": TEMPLATE.format(model=model.__name__)} for model in REQUESTS.values()]},
                "example": {"data": RECORDS},
            },
            NDJSON: {
                "schema": {"type": "string", "description": "one record a line; options stand in the query"},
                "example": write_lines(*RECORDS),
            },
            "text/csv": {
                "schema": {
                    "type": "string",
                    "description": "columns `system`, `item`, `rater`, one an aspect, `score:NAME` and `similarity`",
                },
                "example": "system,item,rater,naturalness,overall\nbot-a,sea-1,r1,3,4\n",
            },
        },
    }
}

KEEPS_RATINGS = {
    "requestBody": {
        "required": True,
        "content": {
            NDJSON: {
                "schema": {"type": "string", "description": "one `HumanRating` a line"},
                "example": write_lines(*HUMAN),
            },
            JSON: {"schema": {"$ref": TEMPLATE.format(model="HumanRating")}, "example": HUMAN[0]},
        },
    },
    "parameters": [IDEMPOTENCY_KEY],
}

KEPT = {
    "description": "`added` and `replaced` of what was sent",
    "content": {JSON: {"schema": {"type": "object", "additionalProperties": {"type": "integer"}}}},
}
EXCLUDES = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"$ref": TEMPLATE.format(model=Exclusion.__name__)}, "example": {"rater": "R3"}}},
    },
    "parameters": [IDEMPOTENCY_KEY],
}
EXCLUDED = {
    "description": "`added`: 1, or 0 where it was excluded already",
    "content": {JSON: {"schema": {"type": "object", "additionalProperties": {"type": "integer"}}}},
}
RATINGS = {
    "description": "one `StoredRating` a line",
    "headers": {
        "X-Next-Cursor": {
            "description": "`cursor` of the next page; none on the last",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
    },
    "content": {NDJSON: {"schema": {"type": "string"}}},
}
