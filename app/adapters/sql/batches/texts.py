"""How values stand in columns of text, and how they are read back whatever the limits are by then."""

from __future__ import annotations

from typing import Annotated

from app.domain.batch import BatchOptions, Candidate, Entry, Failure
from app.domain.dialogue import UNBOUNDED
from app.domain.evaluation import CallTrace, Evaluation, Record
from app.domain.model import Value, listed

SEPARATOR = "\x1e"
"""Between the texts of a candidate: no text may hold it, so no search finds what spans two."""

STORED = {"limits": UNBOUNDED}
"""The validation context for what is read back: limits are for letting in."""


FIRST_VERSIONS = {"ja-dialogue": "ja-dialogue@1"}
"""What a batch asked for that names no version: the shipped rubrics have several since batches name theirs."""


class Kept(Value):
    """A record without its request, which for a candidate of a batch is in the batch's items."""

    evaluation: Evaluation
    trace: Annotated[tuple[CallTrace, ...], listed()] = ()


def write_record(record: Record) -> str:
    """The record's JSON without the request."""
    return record.model_dump_json(exclude={"request"})


def read_record(text: str) -> Kept:
    """The record in a text that `write_record` wrote."""
    return Kept.model_validate_json(text, context=STORED)


def replace_evaluation(text: str, evaluation: Evaluation) -> str:
    """A kept record with another evaluation in the place of its own."""
    return Kept.model_construct(evaluation=evaluation, trace=read_record(text).trace).model_dump_json()


def read_options(text: str) -> BatchOptions:
    """The options in a column of text. One that names no version was stored before rubrics had several."""
    options = BatchOptions.model_validate_json(text, context=STORED)
    then = FIRST_VERSIONS.get(options.rubric)
    return options if then is None else options.model_copy(update={"rubric": then})


def read_candidate(text: str) -> Candidate:
    """The candidate in a column of text."""
    return Candidate.model_validate_json(text, context=STORED)


def read_failure(text: str | None) -> Failure | None:
    """The failure in a column of text that may be null."""
    return None if text is None else Failure.model_validate_json(text)


def searchable(entry: Entry, candidate: Candidate) -> str:
    """What a search for the candidate looks through."""
    texts = (entry.item, *(utterance.text for utterance in candidate.context), candidate.response)
    return lower_ascii(SEPARATOR.join(texts))


def lower_ascii(text: str) -> str:
    """The text with ASCII letters in lower case. The case of others is not for every database to know."""
    return text.encode().lower().decode()
