"""`/v1/validations`: whether requests are valid, all of them before the first is made. Nothing is stored or judged."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.comparison.requests import GatePlan
from saiten_server.comparison.runs import count_rules
from saiten_server.core.batch import ItemId
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import MOST_REFUSED, InvalidRequest, RubricRequired
from saiten_server.core.evaluation import EvaluationRequest, require_rubric
from saiten_server.core.redaction import refuse_covered
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.web.body import JSON, NDJSON, Upload, body_of, receive, require_media_type, too_large
from saiten_server.platform.web.dependencies import Serving, refuse_other_queries
from saiten_server.platform.web.openapi import EVALUATION_EXAMPLE, PROBLEMS, form, lines, reads
from saiten_server.ratings.requests import HUMAN, parse_ratings
from saiten_server.ratings.values import HumanRating, locate_fault
from saiten_server.runs.clusters import ALONE, Trace, find_clusters, hash_beginnings, name_dialogue, name_found

router = APIRouter(prefix="/v1/validations", tags=["validations"])


GATE = {
    "rules": [{"aspect": "overall", "max_drop": 0.1}],
    "candidate_rubric": "ja-dialogue",
    "baseline_rubric": "ja-dialogue",
}


class EvaluationLine(EvaluationRequest):
    """An evaluation request with the caller's name for it, as a batch's items have one."""

    id: ItemId | None = None


class ValidEvaluations(BaseModel):
    """The evaluation requests are valid."""

    clusters: list[str | None] = Field(
        description="for each request, in order, the digest of the dialogue that it is a turn of; null stands alone"
    )


class ValidRatings(BaseModel):
    """The ratings are valid."""

    ratings: int = Field(description="how many there are")


class ValidGate(BaseModel):
    """The gate can be judged."""

    rules: int = Field(description="how many rules will be judged, the default ones among them")


@router.post(
    "/evaluations",
    summary="Validate evaluation requests",
    responses={200: {"model": ValidEvaluations}, **PROBLEMS},
    openapi_extra=reads(
        {NDJSON: lines(EvaluationLine, "one `EvaluationLine` per line", {"id": "sea-1", **EVALUATION_EXAMPLE})}
    ),
)
async def validate_evaluations(request: Request) -> ValidEvaluations:
    """Validates the requests as `POST /v1/evaluations` would, each with its `id` if it has one. The pointer of a fault
    begins with the number of its request, from 0."""
    limits: Limits = request.app.state.limits
    require_media_type(request.headers, NDJSON)
    found = EvaluationLines(limits)
    async for block in read_blocks(Upload(request), limits.body_bytes):
        await asyncio.to_thread(found.add, block)
    return ValidEvaluations(clusters=await asyncio.to_thread(found.list_clusters))


@router.post(
    "/ratings",
    summary="Validate human ratings",
    responses={200: {"model": ValidRatings}, **PROBLEMS},
    openapi_extra=reads({NDJSON: lines(HumanRating, "one `HumanRating` per line", *HUMAN)}),
)
async def validate_ratings(
    request: Request,
    container: Serving,
    rubric: Annotated[
        str | None, Query(description="the rubric whose aspects and scales the ratings have to fit")
    ] = None,
) -> ValidRatings:
    """Validates the ratings as `POST /v1/ratings` would, but for what they rate. With `rubric` their aspects and values
    are validated too, as those of a batch that it scored."""
    refuse_other_queries(request, "rubric")
    limits: Limits = request.app.state.limits
    require_media_type(request.headers, NDJSON)
    body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
    ratings, numbers = await asyncio.to_thread(parse_ratings, body, NDJSON, limits)
    if rubric is not None:
        try:
            await asyncio.to_thread(container.ratings.service.check_by, rubric, ratings)
        except InvalidRequest as error:
            raise locate_fault(error, numbers) from None
    return ValidRatings(ratings=len(ratings))


@router.post(
    "/gates",
    summary="Validate a gate",
    responses={200: {"model": ValidGate}, **PROBLEMS},
    openapi_extra=reads({JSON: form(GatePlan, GATE)}),
)
async def validate_gate(container: Serving, body: Annotated[GatePlan, Depends(body_of(GatePlan))]) -> ValidGate:
    """Validates the terms of a gate, and its rules against the rubrics of the runs, before anything is scored."""
    if body.candidate_rubric is None:
        return ValidGate(rules=len(body.rules))
    find = container.scoring.context.rubrics.get
    candidate = find(body.candidate_rubric)
    baseline = None if body.baseline_rubric is None else find(body.baseline_rubric)
    return ValidGate(rules=await asyncio.to_thread(count_rules, body.rules, candidate, baseline))


async def read_blocks(upload: Upload, most_bytes: int) -> AsyncIterator[list[bytes]]:
    """The lines as they arrive, some at a time; raises RequestRefused for a line of more bytes than that."""
    rest = b""
    async for piece in upload:
        *block, rest = (rest + piece).split(b"\n")
        if any(len(line) > most_bytes for line in (*block, rest)):
            raise too_large(most_bytes)
        yield block
    yield [rest]


class EvaluationLines:
    """Evaluation requests, validated line by line. Memory: the hashes of their contexts."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._faults: list[tuple[str, Message]] = []
        self._dialogues: list[str | None] = []
        self._traces: list[Trace] = []

    def add(self, block: Sequence[bytes]) -> None:
        """Validates lines. Raises InvalidDocument where there are too many, or too many faults."""
        for line in filter(bytes.strip, block):
            number = len(self._traces)
            if number == self._limits.batch_items:
                raise InvalidDocument([("", Message("requests-most", maximum=number))])
            self._traces.append(Trace(1, ()))
            self._dialogues.append(None)
            try:
                self._keep(line, number)
            except (InvalidDocument, RubricRequired) as error:
                self._faults += [(f"/{number}{where}", what) for where, what in error.faults]
            if len(self._faults) >= MOST_REFUSED:
                raise InvalidDocument(self._faults)

    def _keep(self, line: bytes, number: int) -> None:
        try:
            value = parse_strict_json(line)
        except StrictJSONError as error:
            raise InvalidDocument([("", error.message)]) from None
        refuse_covered(value)
        item = validate(EvaluationLine, value, self._limits)
        require_rubric(item)
        self._dialogues[number] = item.dialogue
        if item.dialogue is None:
            self._traces[number] = Trace(1, hash_beginnings(item.context))

    def list_clusters(self) -> list[str | None]:
        """The digest of the dialogue that each request is a turn of. Raises InvalidDocument where there was a fault."""
        if self._faults:
            raise InvalidDocument(self._faults)
        if not self._traces:
            raise InvalidRequest(Message("requests-body-empty"))
        owner = secrets.token_hex(8)
        clusters = find_clusters(lambda: self._traces)
        found = [None if cluster == ALONE else name_found(owner, cluster) for cluster in clusters]
        named = [None if dialogue is None else name_dialogue(dialogue) for dialogue in self._dialogues]
        return [one or other for one, other in zip(named, found, strict=True)]
