"""Bodies of comparisons and gates, whose runs may be results in place of ids: JSON in one piece, or NDJSON as a stream.

In NDJSON the first line holds the options, and every further line a result with `run`, the name of its run."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from fastapi import Request

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_line
from saiten_server.comparison.given_runs import ROLES, RUN, GivenLine, GivenResult, GivenResults, GivenRun
from saiten_server.comparison.links.values import RunRole
from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.core.dialogue import Limits
from saiten_server.core.validation import InvalidDocument, name_line, validate
from saiten_server.platform.line_cutter import LineCutter, LineTooLong
from saiten_server.platform.web.body import (
    JSON,
    MOST_BODY_BYTES,
    NDJSON,
    SMALL_BYTES,
    Upload,
    decode,
    invalid_json,
    receive,
    require_media_type,
)
from saiten_server.platform.web.openapi import form, lines, reads, refer_to

RunsRequest = TypeVar("RunsRequest", ComparisonRequest, GateRequest)
Given = Mapping[RunRole, GivenResults]

PARSED_PIECE_BYTES = 64 * 1024
"""What is read in a thread at a time, so that other requests have a turn."""

RESULT_EXAMPLE = {
    "item": "sea-1",
    "candidate": None,
    "status": "scored",
    "rubric": {"id": "ja-dialogue", "version": 2},
    "aspects": {"overall": {"mean": 4.0}},
    "composites": {},
    "signature": "…",
}


def read_runs(model: type[RunsRequest], example: Mapping[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route whose body `receive_runs` reads; the example has ids for runs."""
    refer_to(GivenResult)
    options = {name: value for name, value in example.items() if name != "candidate"}
    described = lines(
        GivenLine,
        f"the first line holds the options (`{model.__name__}`, without the runs that follow as results), every "
        "further line a result with `run`, the run that it is of; up to as many results a run as a batch may have",
        options,
        {RUN: "candidate", **RESULT_EXAMPLE},
    )
    return reads({JSON: form(model, example), NDJSON: described}, repeatable=repeatable)


async def receive_runs(request: Request, model: type[RunsRequest]) -> tuple[RunsRequest, Given]:
    """What is asked, and the results of the runs that are given as such. `request.state.body` becomes the body, or the
    digest of a stream. Raises RequestRefused, InvalidDocument and Overloaded."""
    limits: Limits = request.app.state.limits
    if require_media_type(request.headers, JSON, NDJSON) == NDJSON:
        return await receive_lines(request, RunLines(model, limits))
    body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
    request.state.body = body
    if len(body) <= SMALL_BYTES:
        return read_document(model, body, limits)
    return await asyncio.to_thread(read_document, model, body, limits)


def read_document(model: type[RunsRequest], body: bytes, limits: Limits) -> tuple[RunsRequest, Given]:
    """The same of one JSON document."""
    value = decode(body)
    results: dict[RunRole, Any] = {}
    for role in ROLES:
        run = value.get(role) if isinstance(value, dict) else None
        if isinstance(run, dict) and isinstance(run.get("results"), list):
            # Apart from the rest, because each result is read and counted by itself.
            results[role] = run["results"]
            value = {**value, role: {name: part for name, part in run.items() if name != "results"}}
    asked = validate(model, value, limits)
    return asked, read_all(asked, results, limits)


def read_all(asked: ComparisonRequest | GateRequest, results: Mapping[RunRole, Iterable[Any]], limits: Limits) -> Given:
    """The results of the runs that are given as such."""
    given = {role: GivenResults(role, limits) for role in ROLES if isinstance(getattr(asked, role), GivenRun)}
    for role, run in given.items():
        for value in results.get(role, ()):
            run.add(value)
        run.finish()
    return given


async def receive_lines(request: Request, reading: RunLines[RunsRequest]) -> tuple[RunsRequest, Given]:
    """The same of a stream of NDJSON."""
    digest = hashlib.sha256()
    try:
        most = min(reading.limits.batch_bytes, MOST_BODY_BYTES)
        async for chunk in Upload(request, NDJSON, maximum=most, keeps=True):
            for start in range(0, len(chunk), PARSED_PIECE_BYTES):
                piece = chunk[start : start + PARSED_PIECE_BYTES]
                digest.update(piece)
                await asyncio.to_thread(reading.feed, piece)
        found = await asyncio.to_thread(reading.close)
    except StrictJSONError as error:
        raise invalid_json(error.message) from None
    request.state.body = digest.hexdigest().encode()
    return found


class RunLines(Generic[RunsRequest]):
    """Reads NDJSON piece by piece. Raises StrictJSONError and InvalidDocument."""

    def __init__(self, model: type[RunsRequest], limits: Limits) -> None:
        self._model: type[RunsRequest] = model
        self.limits = limits
        self._lines = LineCutter(limits.body_bytes)
        self._options: Any = None
        self._given: dict[RunRole, GivenResults] = {}

    def feed(self, data: bytes, *, last: bool = False) -> None:
        try:
            for line in self._lines.feed(data, last=last):
                self._take(line, self._lines.number)
        except LineTooLong:
            what = Message("batch-member-bytes-most", maximum=self.limits.body_bytes)
            raise InvalidDocument([("", name_line(what, self._lines.number + 1))]) from None

    def close(self) -> tuple[RunsRequest, Given]:
        """What is asked, and the results."""
        self.feed(b"", last=True)
        if self._options is None:
            raise StrictJSONError(Message("run-empty"))
        options = self._options
        if isinstance(options, dict):
            options = {**options, **{role: options.get(role, {}) for role in self._given}}
        asked = validate(self._model, options, self.limits)
        for role in ROLES:
            run = getattr(asked, role)
            if isinstance(run, GivenRun):
                if run.results:
                    raise InvalidDocument([(f"/{role}/results", Message("run-lines-apart"))])
                self._given.setdefault(role, GivenResults(role, self.limits)).finish()
            elif role in self._given:
                raise InvalidDocument([(f"/{role}", Message("run-is-batch"))])
        return asked, self._given

    def _take(self, line: bytes, number: int) -> None:
        value = parse_line(line, number)
        if self._options is None:
            if isinstance(value, dict) and RUN in value:
                raise InvalidDocument([("", name_line(Message("run-options-missing"), number))])
            self._options = value
            return
        role = value.pop(RUN, None) if isinstance(value, dict) else None
        if role not in ROLES:
            raise InvalidDocument([(f"/{RUN}", name_line(Message("role-unknown"), number))])
        if role not in self._given:
            self._given[role] = GivenResults(role, self.limits)
        self._given[role].add(value, number)
