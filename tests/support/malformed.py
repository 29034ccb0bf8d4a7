"""Spoils a valid verdict in every way we know, and says what of it stays validly given.

The second half is known by construction, without any parser: it is the oracle for those that have one.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from saiten_server.core.rubric import Aspect

Ratings = dict[str, int]


@dataclass(frozen=True)
class Spoiled:
    """A message as a judge may send it, with the ratings that it validly gives."""

    content: str | None
    valid: Ratings
    finish_reason: str = "stop"
    refusal: str | None = None
    message: dict[str, Any] = field(default_factory=dict)


Spoil = Callable[[Ratings, tuple[Aspect, ...]], Spoiled]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def nothing(content: str | None, **more: Any) -> Spoiled:
    return Spoiled(content, {}, **more)


def last(ratings: Ratings) -> str:
    return list(ratings)[-1]


def without_last(ratings: Ratings) -> Ratings:
    return {name: value for name, value in ratings.items() if name != last(ratings)}


def with_last(ratings: Ratings, value: Any) -> str:
    return dump(ratings | {last(ratings): value})


JSON_KINDS: dict[str, Spoil] = {
    "cut-off": lambda r, _: nothing(dump(r)[: len(dump(r)) // 2], finish_reason="length"),
    "cut-off-unsaid": lambda r, _: nothing(dump(r)[: len(dump(r)) // 2]),
    "whole-but-length": lambda r, _: nothing(dump(r), finish_reason="length"),
    "empty": lambda r, _: nothing(""),
    "blank": lambda r, _: nothing(" \n\t "),
    "null-content": lambda r, _: nothing(None),
    "refusal-prose": lambda r, _: nothing("申し訳ありませんが、この対話は評価できません。"),
    "refusal-field": lambda r, _: nothing(None, refusal="I can't help with that."),
    "refusal-with-verdict": lambda r, _: nothing(dump(r), refusal="I can't help with that."),
    "filtered": lambda r, _: nothing(dump(r), finish_reason="content_filter"),
    "too-high": lambda r, _: Spoiled(with_last(r, 99), without_last(r)),
    "too-low": lambda r, _: Spoiled(with_last(r, -7), without_last(r)),
    "huge": lambda r, _: Spoiled(with_last(r, 10**40), without_last(r)),
    "missing": lambda r, _: Spoiled(dump(without_last(r)), without_last(r)),
    "none-at-all": lambda r, _: nothing("{}"),
    "extra": lambda r, _: nothing(dump(r | {"charm": 3})),
    "duplicate": lambda r, _: nothing(dump(r)[:-1] + f', "{last(r)}": {r[last(r)]}}}'),
    "duplicate-differing": lambda r, _: nothing('{"naturalness": 1, ' + dump(r)[1:]),
    "float": lambda r, _: nothing(with_last(r, float(r[last(r)]))),
    "exponent": lambda r, _: nothing(with_last(r, 0)[:-2] + "3e0}"),
    "string-number": lambda r, _: nothing(with_last(r, str(r[last(r)]))),
    "boolean": lambda r, _: nothing(with_last(r, True)),
    "null": lambda r, _: nothing(with_last(r, None)),
    "not-a-number": lambda r, _: nothing(with_last(r, float("nan"))),
    "infinity": lambda r, _: nothing(with_last(r, float("inf"))),
    "list-value": lambda r, _: nothing(with_last(r, [3])),
    "nested": lambda r, _: nothing(with_last(r, {"rating": 3})),
    "wrapped": lambda r, _: nothing(dump({"verdict": r})),
    "array": lambda r, _: nothing(dump([r])),
    "deep": lambda r, _: nothing("[" * 20_000),
    "fenced": lambda r, _: nothing(f"```json\n{dump(r)}\n```"),
    "prose-before": lambda r, _: nothing(f"評価結果です。\n{dump(r)}"),
    "prose-after": lambda r, _: nothing(f"{dump(r)}\n以上です。"),
    "two-objects": lambda r, _: nothing(dump(r) + dump(r)),
    "byte-order-mark": lambda r, _: nothing("\ufeff" + dump(r)),
    "wide-digit": lambda r, _: nothing(with_last(r, 0)[:-2] + "３}"),
    "leading-zero": lambda r, _: nothing(with_last(r, 0)[:-2] + "03}"),
    "plus-sign": lambda r, _: nothing(with_last(r, 0)[:-2] + "+3}"),
    "single-quotes": lambda r, _: nothing(str(r)),
    "trailing-comma": lambda r, _: nothing(dump(r)[:-1] + ",}"),
    "comment": lambda r, _: nothing(dump(r) + " // fair"),
    "text-format": lambda r, a: nothing(write_text(r, a)),
}


def write_text(ratings: dict[str, Any], aspects: tuple[Aspect, ...], language: str = "ja") -> str:
    names = {aspect.id: aspect.name[language] for aspect in aspects}
    return "\n".join(f"{names[aspect_id]}: 「{value}」" for aspect_id, value in ratings.items())


def text_with_last(ratings: Ratings, aspects: tuple[Aspect, ...], value: Any) -> str:
    return write_text(ratings | {last(ratings): value}, aspects)


TEXT_KINDS: dict[str, Spoil] = {
    "cut-off": lambda r, a: nothing(write_text(r, a)[:-3], finish_reason="length"),
    "cut-off-unsaid": lambda r, a: nothing(write_text(r, a)[:-1]),
    "empty": lambda r, a: nothing(""),
    "refusal-prose": lambda r, a: nothing("申し訳ありませんが、この対話は評価できません。"),
    "refusal-field": lambda r, a: nothing(None, refusal="no"),
    "filtered": lambda r, a: nothing(write_text(r, a), finish_reason="content_filter"),
    "too-high": lambda r, a: Spoiled(text_with_last(r, a, 99), without_last(r)),
    "huge": lambda r, a: Spoiled(text_with_last(r, a, "9" * 5000), without_last(r)),
    "missing": lambda r, a: Spoiled(write_text(without_last(r), a), without_last(r)),
    "empty-value": lambda r, a: Spoiled(text_with_last(r, a, ""), without_last(r)),
    "extra": lambda r, a: nothing(write_text(r, a) + "\n面白さ: 「3」"),
    "duplicate": lambda r, a: nothing(write_text(r, a) + "\n" + write_text(r, a).splitlines()[0]),
    "float": lambda r, a: nothing(text_with_last(r, a, "3.0")),
    "word": lambda r, a: nothing(text_with_last(r, a, "高い")),
    "range": lambda r, a: nothing(text_with_last(r, a, "1-3")),
    "leading-zero": lambda r, a: nothing(text_with_last(r, a, "03")),
    "kanji-number": lambda r, a: nothing(text_with_last(r, a, "三")),
    "superscript": lambda r, a: nothing(text_with_last(r, a, "³")),
    "prose-before": lambda r, a: nothing("評価結果です。\n" + write_text(r, a)),
    "prose-after": lambda r, a: nothing(write_text(r, a) + "\n以上です。"),
    "fenced": lambda r, a: nothing(f"```\n{write_text(r, a)}\n```"),
    "run-together": lambda r, a: nothing(write_text(r, a).replace("\n", "")),
    "bulleted": lambda r, a: nothing(write_text(r, a).replace("自然さ", "- 自然さ")),
    "no-brackets": lambda r, a: nothing(write_text(r, a).replace("「", "").replace("」", "")),
    "json": lambda r, a: nothing(dump(r)),
    "other-language": lambda r, a: nothing(write_text(r, a, "en")),
}
