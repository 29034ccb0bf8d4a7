"""Whether stored ratings stand in the judge's own replies, read anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.domain.evaluation import CallTrace, Evaluation
from app.domain.rubric import Rubric
from app.domain.verdict import read_verdict


class Stored(NamedTuple):
    """One sample of one aspect as it was stored."""

    aspect: str
    sample: int
    rating: int


def list_stored(evaluation: Evaluation) -> Iterator[Stored]:
    """Every rating of an evaluation: the samples, and the rating itself where it is none of them."""
    for name, result in evaluation.aspects.items():
        for sample, rating in enumerate(result.samples):
            if rating is not None:
                yield Stored(name, sample, rating)
        if result.rating is not None and result.rating not in result.samples:
            yield Stored(name, 0, result.rating)


def find_forged(evaluation: Evaluation, trace: tuple[CallTrace, ...], rubric: Rubric) -> list[Stored]:
    """The stored ratings that no reply of that sample gives, read as strictly as the first time.

    The trace does not say whether a reply was asked for as JSON or as lines, nor whether it was to say if a text
    addresses its evaluator. A reply is a verdict in one of these ways at most: all are read. `evaluation` is by the
    path `source` or `english`, with no reasons asked for.
    """
    language = "en" if evaluation.path == "english" else rubric.source_language
    read = {
        Stored(aspect, call.sample, rating) for call in trace for aspect, rating in read_call(call, rubric, language)
    }
    return [stored for stored in list_stored(evaluation) if stored not in read]


def read_call(call: CallTrace, rubric: Rubric, language: str) -> Iterator[tuple[str, int]]:
    """(aspect, rating) of each value that the reply gives."""
    aspects = tuple(aspect for aspect in rubric.aspects if aspect.id in call.aspects)
    for structured, screen in ((True, True), (True, False), (False, False)):
        reading = read_verdict(
            call.reply,
            aspects=aspects,
            language=language,
            structured=structured,
            explain=False,
            finish_reason=call.finish_reason,
            refusal=call.refusal,
            screen=screen,
        )
        yield from ((name, rating) for name, rating in reading.ratings.items() if isinstance(rating, int))
