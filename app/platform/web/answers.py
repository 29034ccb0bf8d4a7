"""Answers whose sentences are in the caller's language."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response

from saiten_server.core.model import Value
from saiten_server.core.sentences import LANGUAGE
from saiten_server.platform.web.body import JSON
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.problems import language_of


def tell_value(request: Request, value: Value, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The value as JSON, its sentences in the language that the caller prefers."""
    language = language_of(request)
    said = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    return Response(value.model_dump_json(context={LANGUAGE: language}), status, said, JSON)


async def answer_in_language(request: Request, container: Serving, value: Value) -> Response:
    """`tell_value` for a long answer, written in a thread."""
    return await container.comparison.compute(lambda: tell_value(request, value))
