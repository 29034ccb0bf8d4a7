"""The expected rating: the mean over an aspect's legal values, weighted by the probability of their tokens.

G-Eval (Liu et al. 2023) weights scores by token probability. Here the mass on anything but a legal value is excluded
from the mean and reported separately.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated

from pydantic import ConfigDict, Field

from saiten_server.core.model import Value, listed

PADDING = " \t\r\n\u3000\"',:{}[]「」"
"""Characters that a tokenizer may merge with a value: white space and the punctuation of both reply formats."""

CERTAIN = 0.999

VERDICT_WORDS = frozenset({"R", "K", "M", "T", "tie"})
"""The words of verdicts on two, which `pair_prompt` says."""


class Token(Value):
    """A token of the reply as bytes, in JSON in hexadecimal: it may hold part of a character. `choices` are the
    alternative tokens, including this one, each with its natural log probability."""

    model_config = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")

    text: bytes
    choices: Annotated[tuple[Annotated[tuple[bytes, float], Field(strict=False)], ...], listed()]


@dataclass(frozen=True)
class Expectation:
    """`mean` lies on the aspect's scale; `off_scale_mass` in [0, 1] is the probability outside its legal values."""

    mean: float
    off_scale_mass: float


def expect(
    tokens: Sequence[Token], content: str, span: tuple[int, int], values: Sequence[int] | Mapping[str, int]
) -> Expectation | None:
    """The expectation of the value at `span` (code points) of `content`; `values` are the legal ones, as they are
    written where they are words. None if the tokens do not spell the content, if the value is not one token (or a minus
    and one token), or if a token of one value could begin another (1 and 10). It is never a guess or the plain
    rating."""
    legal = values if isinstance(values, Mapping) else {str(value): value for value in values}
    if any(one != other and other.startswith(one) for one in legal for other in legal):
        return None
    places = tokens_at(tokens, content, span)
    if len(places) == 1:
        mass = masses_of_token(tokens[places[0]], legal)
    elif len(places) == 2 and strip(tokens[places[0]].text) == "-":
        mass = masses_of_pair(tokens[places[0]], tokens[places[1]], legal)
    else:
        return None
    return expect_value(mass) if mass is not None else None


def expect_value(mass: Mapping[int, float]) -> Expectation | None:
    """Σ value · mass ÷ Σ mass, and 1 − Σ mass."""
    total = math.fsum(mass.values())
    if total <= 0:
        return None
    mean = math.fsum(value * share for value, share in mass.items()) / total
    return Expectation(mean, min(1.0, max(0.0, 1.0 - total)))


def tokens_at(tokens: Sequence[Token], content: str, span: tuple[int, int]) -> list[int]:
    """The indices of the tokens that overlap the span; empty if the tokens do not spell the content up to there."""
    start, end = (len(content[:place].encode()) for place in span)
    ends = list(accumulate(len(token.text) for token in tokens))
    starts = [0, *ends[:-1]]
    places = [place for place in range(len(tokens)) if starts[place] < end and ends[place] > start]
    if not places or b"".join(token.text for token in tokens[: places[-1] + 1]) != content.encode()[: ends[places[-1]]]:
        return []
    return places


def masses_of_token(token: Token, legal: Mapping[str, int]) -> dict[int, float] | None:
    """The probability of each legal value if one token holds the whole value. A bare minus counts for the negative
    value if there is only one; with several the result is None."""
    choices = probabilities(token)
    if choices is None:
        return None
    negatives = [value for text, value in legal.items() if text.startswith("-")]
    mass = dict.fromkeys(legal.values(), 0.0)
    for text, share in choices.items():
        written = strip(text)
        if written in legal:
            mass[legal[written]] += share
        elif written == "-" and len(negatives) == 1:
            mass[negatives[0]] += share
        elif written == "-" and negatives:
            return None
    return mass


def masses_of_pair(sign: Token, digits: Token, legal: Mapping[str, int]) -> dict[int, float] | None:
    """The probability of each legal value if the minus is a token of its own: P(minus) · P(digits | minus)."""
    signs, numbers = probabilities(sign), probabilities(digits)
    if signs is None or numbers is None:
        return None
    mass = dict.fromkeys(legal.values(), 0.0)
    minus = 0.0
    for text, share in signs.items():
        written = strip(text)
        if written == "-":
            minus += share
        elif written in legal:
            mass[legal[written]] += share
    for text, share in numbers.items():
        written = "-" + strip(text)
        if written in legal:
            mass[legal[written]] += minus * share
    return mass


def probabilities(token: Token) -> dict[bytes, float] | None:
    """The probability of each distinct alternative; None if the chosen token has none to be weighed against."""
    found = {text: math.exp(min(0.0, logprob)) for text, logprob in token.choices}
    if len(found) < 2 and sum(found.values()) < CERTAIN:
        return None
    return found


def strip(text: bytes) -> str:
    """The token's text without merged punctuation, full-width digits narrowed."""
    return unicodedata.normalize("NFKC", text.decode("utf-8", "replace").strip(PADDING))


def may_rate(text: bytes) -> bool:
    """Whether a token may be part of a value: only of such a token are the alternatives ever looked at."""
    written = strip(text)
    return written in VERDICT_WORDS or any(character.isdigit() or character == "-" for character in written)
