"""The structured reply: one JSON object with a member per aspect."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.domain.plain_text import clean
from app.domain.rubric import Aspect
from app.domain.strict_json import StrictJSONError, read_strict_json
from app.domain.verdict_parts import INTEGER, SCREEN, Malformed, Part

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
"""The tokens of a text that is known to be JSON."""


class Number(str):
    """An integer as it is spelled, so that it is never confused with a JSON string."""

    __slots__ = ()


def read_json_verdict(
    reply: str, aspects: tuple[Aspect, ...], *, explain: bool, screen: bool = False
) -> tuple[dict[str, Part], bool]:
    """The parts of a reply that follows `build_schema`, less what it leaves out, and whether it says that a text
    addresses its evaluator, which with `screen` it must answer. Raises Malformed.

    The text must be one JSON object and nothing else but JSON's white space around it. Repeated or unknown members,
    fractions, exponents, strings, booleans, null, NaN where an integer belongs: no verdict.
    """
    members = parse_object(reply)
    addressed = members.pop(SCREEN, None) if screen else False
    if not isinstance(addressed, bool):
        raise Malformed(f"it does not say with true or false what {SCREEN} asks")
    known = {aspect.id for aspect in aspects}
    if set(members) - known:
        raise Malformed("it holds a member that was not asked for")
    read: Callable[[Any], tuple[str | None, str | None]] = read_reasoned if explain else read_bare
    found = {aspect_id: read(value) for aspect_id, value in members.items()}
    spans = locate_numbers(reply)
    parts = {
        aspect_id: Part(number, spans.get((aspect_id, "rating") if explain else (aspect_id,), (0, 0)), reason)
        for aspect_id, (number, reason) in found.items()
    }
    return parts, addressed


def parse_object(reply: str) -> dict[str, Any]:
    """The reply's members, integers kept as they are spelled. Raises Malformed."""
    # `-0` equals 0, but no scale has a level that is written so: numbers stay as they are spelled.
    try:
        members = read_strict_json(reply, parse_int=Number)
    except StrictJSONError as fault:
        raise Malformed(str(fault)) from None
    if not isinstance(members, dict):
        raise Malformed("it is not a JSON object")
    return members


def read_bare(value: Any) -> tuple[str, None]:
    """An aspect's number, with no reason."""
    return require_number(value), None


def read_reasoned(value: Any) -> tuple[str | None, str]:
    """`{"reason": text, "rating": integer}`; the rating may be left out, the reason may not."""
    if not isinstance(value, dict) or not {"reason"} <= set(value) <= {"reason", "rating"}:
        raise Malformed("an aspect is not an object of reason and rating")
    reason = value["reason"]
    if not isinstance(reason, str) or isinstance(reason, Number):
        raise Malformed("a reason is not a text")
    return require_number(value["rating"]) if "rating" in value else None, clean(reason)


def require_number(value: Any) -> str:
    """The digits of an integer. Raises Malformed for anything else."""
    if not isinstance(value, Number):
        raise Malformed("a value is not an integer")
    return str(value)


def locate_numbers(reply: str) -> Mapping[tuple[str, ...], tuple[int, int]]:
    """Where each integer stands in a text known to be an object of JSON, by its path of member names."""
    spans: dict[tuple[str, ...], tuple[int, int]] = {}
    path: list[str] = []
    name = ""
    for token in TOKEN.finditer(reply):
        text = token[0]
        if text == "{":
            path.append("")
        elif text == "}":
            path.pop()
        elif text == ":":
            path[-1] = name
        elif text[0] == '"':
            name = text[1:-1]
        elif INTEGER.fullmatch(text):
            spans[tuple(path)] = token.span()
    return spans
