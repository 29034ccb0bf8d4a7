"""A batch's results as files: NDJSON with everything, CSV and Parquet with what fits a table.

All take pages of results and hold no more than a page. Of NDJSON and CSV each gives a piece of the file; Parquet, whose
columns are written together, is made in temporary files.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import pickle
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from saiten.core.messages import DEFAULT_LANGUAGE
from saiten.core.spreadsheet import (
    BATCH_METADATA,
    TEXT_COLUMNS,
    Cell,
    name_findings,
    name_kinds,
    write_rows,
    write_text,
)
from saiten_server.core.batch import BatchOptions
from saiten_server.core.evaluation import AspectResult, Evaluation
from saiten_server.core.model import COMPACT
from saiten_server.core.redaction import texts_asked
from saiten_server.core.rubric import Rubric
from saiten_server.core.sentences import LANGUAGE, translate
from saiten_server.runs.result import Result
from saiten_server.scoring.subject import blended_aspects

if TYPE_CHECKING:
    from saiten.core.formats.parquet import Kind


async def stream_ndjson(
    pages: AsyncIterable[Sequence[Result]],
    metadata: Mapping[str, str] = MappingProxyType({}),
    language: str = DEFAULT_LANGUAGE,
) -> AsyncIterator[bytes]:
    """One line a result: `Result.line` as UTF-8 JSON, its sentences in the language, and the batch's `metadata` where
    it has some."""
    shared = {BATCH_METADATA: metadata} if metadata else {}
    async for page in pages:
        lines = (write_result_line(result, shared, language) for result in page)
        # Stored in English, which needs no second look.
        said = lines if language == DEFAULT_LANGUAGE else (translate_line(line, language) for line in lines)
        yield "".join(said).encode()


def translate_line(line: str, language: str) -> str:
    """The line in the language."""
    return COMPACT.encode(translate(json.loads(line), language)) + "\n"


def write_result_line(result: Result, shared: Mapping[str, Any], language: str) -> str:
    """The result's line with its line break, its badge in the language; `shared` is what all lines have."""
    if result.evaluation is None:
        return COMPACT.encode({**result.line(), **shared}) + "\n"
    # Spliced: written by pydantic itself an evaluation takes half the time.
    # `dialogue` is the evaluation's too, and stands once.
    place = result.entry.model_dump_json(exclude={"dialogue"})
    evaluation = result.evaluation.model_dump_json(context={LANGUAGE: language})
    more = {**texts_asked(result.asked), **shared}
    added = COMPACT.encode(more) if more else "{}"
    return f"{place[:-1]},{evaluation[1:-1]}{',' if len(added) > 2 else ''}{added[1:]}\n"


async def stream_csv(
    pages: AsyncIterable[Sequence[Result]], rubric: Rubric, options: BatchOptions, *, texts: bool = False
) -> AsyncIterator[bytes]:
    """The header, then one row a result, in UTF-8 as RFC 4180 has it. Text is quoted, and defused by `defuse`."""
    columns = list_table_columns(rubric, options, texts=texts)
    yield write_rows([[column.name for column in columns]])
    async for page in pages:
        yield write_rows(
            [[tell_truth(cell) if isinstance(cell, bool) else cell for cell in row] for row in cut_rows(page, columns)]
        )


async def stream_for_excel(
    pages: AsyncIterable[Sequence[Result]], rubric: Rubric, options: BatchOptions, *, texts: bool = False
) -> AsyncIterator[bytes]:
    """The same after the mark by which Excel knows UTF-8."""
    yield codecs.BOM_UTF8
    async for piece in stream_csv(pages, rubric, options, texts=texts):
        yield piece


async def stream_parquet(
    pages: AsyncIterable[Sequence[Result]], rubric: Rubric, options: BatchOptions, *, texts: bool = False
) -> AsyncIterator[bytes]:
    """The same table as a Parquet file, whose columns have their types whatever the batch holds."""
    columns = list_table_columns(rubric, options, texts=texts)
    with tempfile.TemporaryFile(prefix="saiten-") as rows, tempfile.TemporaryFile(prefix="saiten-") as table:
        row_bytes = 1
        async for page in pages:
            row_bytes = max(row_bytes, await asyncio.to_thread(keep_page, page, columns, rows) // max(len(page), 1))
        await asyncio.to_thread(write_parquet, columns, rows, table, max(1, GROUP_BYTES // row_bytes))
        while piece := await asyncio.to_thread(table.read, EXPORT_PIECE_BYTES):
            yield piece


def keep_page(page: Sequence[Result], columns: Sequence[TableColumn], rows: IO[bytes]) -> int:
    """Appends the rows of the results to the file; returns their bytes."""
    return rows.write(pickle.dumps(cut_rows(page, columns)))


def write_parquet(columns: Sequence[TableColumn], rows: IO[bytes], table: IO[bytes], group_rows: int) -> None:
    """Writes the table of these pages of rows, so many of them in a group, and goes to its start."""
    from saiten.core.formats.parquet import write_table

    def load_pages() -> Iterator[list[list[Cell]]]:
        rows.seek(0)
        with suppress(EOFError):
            while True:
                yield pickle.load(rows)  # noqa: S301 - we have just written it

    write_table({column.name: column.kind for column in columns}, load_pages(), table, group_rows)
    table.seek(0)


EXPORT_PIECE_BYTES = 1 << 18
GROUP_BYTES = 1 << 24
"""What the writer of Parquet may hold of rows."""

USAGE: dict[str, Kind] = {"judge_calls": int, "prompt_tokens": int, "completion_tokens": int, "cost_usd": float}
CellReader = Callable[[Evaluation], Cell]


class TableColumn(NamedTuple):
    """What a table has of each result: `read` gives a value of that kind, or None."""

    name: str
    kind: Kind
    read: Callable[[Result], Cell]


def cut_rows(page: Sequence[Result], columns: Sequence[TableColumn]) -> list[list[Cell]]:
    """The rows of the results."""
    return [[column.read(result) for column in columns] for result in page]


def read_kinds(evaluation: Evaluation) -> Cell:
    """The kinds of faults by turn."""
    return name_kinds(evaluation.findings or ())


def list_table_columns(rubric: Rubric, options: BatchOptions, *, texts: bool = False) -> list[TableColumn]:
    """The columns that a batch's results have as a table, with their names: the same for each, whatever became of it.
    `NAME` is an aspect's rating; with both paths it is the source path's, and `NAME.english` the other's."""
    readers: list[tuple[str, Kind, CellReader]] = [
        *(column for aspect in rubric.aspects for column in read_aspect(aspect.id, rubric, options)),
        *((one.id, float, partial(read_composite, one.id)) for one in rubric.composites),
        ("findings", str, lambda one: name_findings(one.findings or ()))
        if rubric.unit == "conversation"
        else ("relevance.score", float, lambda one: one.relevance.score if one.relevance else None),
        *([("kinds", str, read_kinds)] if rubric.kinds else []),
        *([("translation_sensitive", bool, read_sensitivity)] if options.path == "both" else []),
        ("warnings", str, lambda one: " ".join(dict.fromkeys(warned.code for warned in one.warnings)) or None),
        ("cached", bool, lambda one: one.cached),
        *((name, kind, attrgetter(f"usage.{name}")) for name, kind in USAGE.items()),
        ("evaluation", str, lambda one: one.id),
        ("signature", str, lambda one: one.signature),
    ]
    shared = COMPACT.encode(options.metadata) if options.metadata else None
    spoken = ("turns", "persona", "goal") if rubric.unit == "conversation" else ("context", "response")
    return [
        TableColumn("item", str, lambda result: result.entry.item),
        *(TableColumn(TEXT_COLUMNS[name], str, partial(read_candidate_text, name)) for name in spoken if texts),
        TableColumn("position", int, lambda result: result.entry.position),
        TableColumn("candidate", int, lambda result: result.entry.candidate),
        TableColumn("status", str, lambda result: result.status),
        *(TableColumn(name, kind, of_evaluation(read)) for name, kind, read in readers),
        TableColumn("failure.code", str, lambda result: result.failure.code if result.failure else None),
        TableColumn("failure.detail", str, lambda result: result.failure.detail if result.failure else None),
        TableColumn("metadata", str, of_evaluation(lambda one: COMPACT.encode(one.metadata) if one.metadata else None)),
        TableColumn(
            "reliability", str, of_evaluation(lambda one: str(one.reliability.detail) if one.reliability else None)
        ),
        TableColumn("dialogue", str, lambda result: result.entry.dialogue),
        TableColumn("cluster", str, lambda result: result.entry.cluster),
        TableColumn(BATCH_METADATA, str, lambda _: shared),
    ]


def read_candidate_text(name: str, result: Result) -> Cell:
    """One of the candidate's texts."""
    return write_text(texts_asked(result.asked).get(name))


def of_evaluation(read: CellReader) -> Callable[[Result], Cell]:
    """The cell of a result's evaluation; empty for a failure."""
    return lambda result: read(result.evaluation) if result.evaluation else None


def read_sensitivity(evaluation: Evaluation) -> Cell:
    """Whether the two paths disagree."""
    return evaluation.paths.translation_sensitive if evaluation.paths else None


def read_composite(name: str, evaluation: Evaluation) -> Cell:
    """The composite's value."""
    return evaluation.composites.get(name)


def read_aspect(name: str, rubric: Rubric, options: BatchOptions) -> Iterator[tuple[str, Kind, CellReader]]:
    """The columns of one aspect."""

    def of_aspect(read: Callable[[AspectResult], Cell]) -> CellReader:
        return lambda one: read(one.aspects[name]) if name in one.aspects else None

    def read_english(evaluation: Evaluation) -> Cell:
        found = evaluation.paths.english.aspects.get(name) if evaluation.paths else None
        return found.rating if found else None

    yield name, int, of_aspect(lambda found: found.rating)
    if options.judge.samples > 1:
        yield f"{name}.mean", float, of_aspect(lambda found: found.mean)
    if options.judge.expected:
        yield f"{name}.expected", float, of_aspect(lambda found: found.expected)
    if name in blended_aspects(rubric, options.relevance):
        yield f"{name}.blended", float, of_aspect(lambda found: found.blended)
    if options.path == "both":
        yield f"{name}.english", int, read_english
    yield f"{name}.unrated", str, of_aspect(lambda found: found.unrated.reason if found.unrated else None)


def tell_truth(value: bool) -> str:
    """A truth value as JSON spells it."""
    return "true" if value else "false"
