"""A batch's results as files: NDJSON with everything, CSV with what fits a table.

Both take pages of results and give one piece of the file a page, so no more than a page is held.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from app.domain.batch import BatchOptions, ItemResult
from app.domain.evaluation import AspectResult, Evaluation
from app.domain.rubric import Rubric
from app.scoring.case import blended_aspects
from saiten.spreadsheet import Cell, name_findings, name_kinds, write_rows

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


async def stream_ndjson(pages: AsyncIterable[Sequence[ItemResult]]) -> AsyncIterator[bytes]:
    """One line a result: `ItemResult.line` as UTF-8 JSON."""
    async for page in pages:
        yield "".join(map(write_line, page)).encode()


def write_line(result: ItemResult) -> str:
    """The result's line with its line break."""
    if result.evaluation is None:
        return COMPACT.encode(result.line()) + "\n"
    # Spliced from two texts: written by pydantic itself an evaluation takes half the time.
    # `dialogue` is the evaluation's too, and stands once.
    return f"{result.entry.model_dump_json(exclude={'dialogue'})[:-1]},{result.evaluation.model_dump_json()[1:]}\n"


async def stream_csv(
    pages: AsyncIterable[Sequence[ItemResult]], rubric: Rubric, options: BatchOptions
) -> AsyncIterator[bytes]:
    """The header, then one row a result, in UTF-8 as RFC 4180 has it. Text is quoted, and defused by `defuse`."""
    columns = list_columns(rubric, options)
    yield write_rows([[name for name, _ in columns]])
    async for page in pages:
        yield write_rows([[read(result) for _, read in columns] for result in page])


USAGE = ("judge_calls", "prompt_tokens", "completion_tokens", "cost_usd")
Column = tuple[str, Callable[[ItemResult], Cell]]
Reader = Callable[[Evaluation], Cell]


def read_kinds(evaluation: Evaluation) -> Cell:
    """The kinds of faults by turn."""
    return name_kinds(evaluation.findings or ())


def list_columns(rubric: Rubric, options: BatchOptions) -> list[Column]:
    """The columns that a batch's results have as a table, with their names: the same for each, whatever became of it.
    `NAME` is an aspect's rating; with both paths it is the source path's, and `NAME.english` the other's."""
    readers: list[tuple[str, Reader]] = [
        *(column for aspect in rubric.aspects for column in read_aspect(aspect.id, rubric, options)),
        *((one.id, partial(read_composite, one.id)) for one in rubric.composites),
        ("findings", lambda one: name_findings(one.findings or ()))
        if rubric.unit == "conversation"
        else ("relevance.score", lambda one: one.relevance.score if one.relevance else None),
        *([("kinds", read_kinds)] if rubric.kinds else []),
        *([("translation_sensitive", read_sensitivity)] if options.path == "both" else []),
        ("warnings", lambda one: " ".join(dict.fromkeys(warned.code for warned in one.warnings)) or None),
        ("cached", lambda one: tell(one.cached)),
        *((name, attrgetter(f"usage.{name}")) for name in USAGE),
        ("evaluation", lambda one: one.id),
        ("signature", lambda one: one.signature),
    ]
    return [
        ("item", lambda result: result.entry.item),
        ("position", lambda result: result.entry.position),
        ("candidate", lambda result: result.entry.candidate),
        ("status", lambda result: result.evaluation.status if result.evaluation else "failed"),
        *((name, of_evaluation(read)) for name, read in readers),
        ("failure.code", lambda result: result.failure.code if result.failure else None),
        ("failure.detail", lambda result: result.failure.detail if result.failure else None),
        ("metadata", of_evaluation(lambda one: COMPACT.encode(one.metadata) if one.metadata else None)),
        ("reliability", of_evaluation(lambda one: one.reliability.detail if one.reliability else None)),
        ("dialogue", lambda result: result.entry.dialogue),
        ("cluster", lambda result: result.entry.cluster),
    ]


def of_evaluation(read: Reader) -> Callable[[ItemResult], Cell]:
    """The cell of a result's evaluation; empty for a failure."""
    return lambda result: read(result.evaluation) if result.evaluation else None


def read_sensitivity(evaluation: Evaluation) -> Cell:
    """Whether the two paths disagree."""
    return tell(evaluation.paths.translation_sensitive) if evaluation.paths else None


def read_composite(name: str, evaluation: Evaluation) -> Cell:
    """The composite's value."""
    return evaluation.composites.get(name)


def read_aspect(name: str, rubric: Rubric, options: BatchOptions) -> Iterator[tuple[str, Reader]]:
    """The columns of one aspect."""

    def of_aspect(read: Callable[[AspectResult], Cell]) -> Reader:
        return lambda one: read(one.aspects[name]) if name in one.aspects else None

    def read_english(evaluation: Evaluation) -> Cell:
        found = evaluation.paths.english.aspects.get(name) if evaluation.paths else None
        return found.rating if found else None

    yield name, of_aspect(lambda found: found.rating)
    if options.judge.samples > 1:
        yield f"{name}.mean", of_aspect(lambda found: found.mean)
    if options.judge.expected:
        yield f"{name}.expected", of_aspect(lambda found: found.expected)
    if name in blended_aspects(rubric, options.relevance):
        yield f"{name}.blended", of_aspect(lambda found: found.blended)
    if options.path == "both":
        yield f"{name}.english", read_english
    yield f"{name}.unrated", of_aspect(lambda found: found.unrated.reason if found.unrated else None)


def tell(value: bool) -> str:
    """A truth value as JSON spells it."""
    return "true" if value else "false"
