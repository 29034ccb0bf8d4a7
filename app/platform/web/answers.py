"""Answers whose sentences are in the caller's language."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fastapi import Request, Response
from pydantic import BaseModel

from saiten_server.core.model import Value
from saiten_server.core.sentences import LANGUAGE, translate
from saiten_server.platform.web.body import JSON
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.languages import DEFAULT
from saiten_server.platform.web.problems import language_of


def tell_value(
    request: Request, value: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The value as JSON, its sentences in the language that the caller prefers."""
    language = language_of(request)
    said = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    return Response(value.model_dump_json(context={LANGUAGE: language}), status, said, JSON)


def tell_stored(request: Request, text: str) -> Response:
    """JSON with the sentences of a stored result, these in the language that the caller prefers. English, in which they
    are stored, costs nothing."""
    language = language_of(request)
    if language != DEFAULT:
        text = translate_text(text, language)
    return Response(text, 200, {"Content-Language": language, "Vary": "Accept-Language"}, JSON)


def translate_text(text: str, language: str) -> str:
    """A text of JSON in the language."""
    return COMPACT.encode(translate(json.loads(text), language))


COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


async def answer_in_language(request: Request, container: Serving, value: Value) -> Response:
    """`tell_value` for a long answer, written in a thread."""
    return await container.comparison.compute(lambda: tell_value(request, value))
