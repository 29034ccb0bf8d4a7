"""Reads a judge's reply, strictly: the whole message is the verdict, or there is none.

Nothing is cut out of a longer text, so what the judge quotes of a candidate can never become a rating. Nothing is
clamped, coerced or filled in: what the judge did not validly rate is `Unrated`, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from app.domain.canary import leaks
from app.domain.evaluation import Unrated, UnratedReason
from app.domain.rubric import Aspect
from app.domain.verdict_json import read_json_verdict
from app.domain.verdict_parts import Malformed, Part
from app.domain.verdict_text import read_text_verdict

Rating = int | Unrated

LEAKED = "the judge's reply holds part of its own instructions, which it is told never to write"


@dataclass(frozen=True)
class Reading:
    """What a reply says: a rating or `Unrated` for every aspect that was asked, reasons where they were given.

    `spans` holds, for each rated aspect, where its value stands in the reply: (start, end) in code points. `leaked` is
    True where the reply holds the canary of its own instructions; it then rates nothing. `addressed`: it says that a
    text addresses its evaluator.
    """

    ratings: Mapping[str, Rating]
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    spans: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    leaked: bool = False
    addressed: bool = False

    @cached_property
    def rated(self) -> int:
        """How many aspects have a rating."""
        return sum(isinstance(rating, int) for rating in self.ratings.values())

    @property
    def complete(self) -> bool:
        return self.rated == len(self.ratings)


def read_verdict(
    reply: str | None,
    *,
    aspects: tuple[Aspect, ...],
    language: str,
    structured: bool,
    explain: bool,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    canary: str | None = None,
    screen: bool = False,
) -> Reading:
    """The reply's ratings of `aspects`; every aspect is in the result.

    `finish_reason` and `refusal` are the endpoint's own words beside the message: a reply that was cut off, filtered or
    refused rates nothing, whatever its text looks like. Nor does one that holds the `canary`: whoever writes out the
    instructions has obeyed somebody else, and its numbers may be theirs as well. With `screen` a structured reply must
    say whether a text addresses its evaluator, which changes no rating.
    """
    if canary is not None and any(leaks(text, canary) for text in (reply, refusal) if text):
        return replace(rate_nothing(aspects, "unparseable", LEAKED), leaked=True)
    failing = fail(reply, finish_reason, refusal)
    if failing is not None:
        return rate_nothing(aspects, *failing)
    addressed = False
    try:
        if structured:
            parts, addressed = read_json_verdict(reply or "", aspects, explain=explain, screen=screen)
        else:
            parts = read_text_verdict(reply or "", aspects, language, explain=explain)
    except Malformed as fault:
        return rate_nothing(aspects, "unparseable", f"the judge's reply is not a verdict: {fault}")
    return replace(assess(parts, aspects), addressed=addressed)


def fail(reply: str | None, finish_reason: str | None, refusal: str | None) -> tuple[UnratedReason, str] | None:
    """Why there is no verdict to be read, and in words; None where there may be one."""
    if refusal:
        return "refused", "the judge refused to rate this dialogue"
    if finish_reason == "content_filter":
        return "content-filter", "the judge's provider filtered the reply"
    if finish_reason == "length":
        return "truncated", "the judge's reply was cut off at its length limit"
    if not reply or not reply.strip():
        return "unparseable", "the judge's reply was empty"
    return None


def rate_nothing(aspects: tuple[Aspect, ...], reason: UnratedReason, detail: str) -> Reading:
    """The reading of a reply that rates no aspect."""
    unrated = Unrated(reason=reason, detail=detail)
    return Reading(MappingProxyType({aspect.id: unrated for aspect in aspects}))


def assess(parts: Mapping[str, Part], aspects: tuple[Aspect, ...]) -> Reading:
    """Holds each part of a well-formed verdict against its aspect's scale."""
    ratings: dict[str, Rating] = {}
    reasons: dict[str, str] = {}
    spans: dict[str, tuple[int, int]] = {}
    for aspect in aspects:
        part = parts.get(aspect.id)
        ratings[aspect.id] = rating = rate(part, aspect)
        if part and isinstance(rating, int):
            spans[aspect.id] = part.span
            if part.reason is not None:
                reasons[aspect.id] = part.reason
    return Reading(MappingProxyType(ratings), MappingProxyType(reasons), MappingProxyType(spans))


def rate(part: Part | None, aspect: Aspect) -> Rating:
    """The aspect's rating, or why there is none."""
    if part is None or part.number is None:
        return Unrated(reason="missing", detail=f"the judge gave no value for {aspect.id}")
    # Compared as text: a number of a thousand digits never becomes an int.
    for value in aspect.values:
        if part.number == str(value):
            return value
    low, high = aspect.scale
    return Unrated(reason="out-of-scale", detail=f"the judge gave {part.number[:12]} on a scale of {low} to {high}")
