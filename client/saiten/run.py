"""A scored batch: its summary, its results, and these as a table."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Callable, Container, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from saiten.answers import AspectResult, Batch, ResultRow, Summary
from saiten.connection import Connection
from saiten.core.errors import ServiceUnreachable
from saiten.core.spreadsheet import BATCH_METADATA, TEXT_COLUMNS, name_findings, name_kinds, write_text
from saiten.reading import read_line

if TYPE_CHECKING:
    from saiten.core.formats.parquet import Kind

Progress = Callable[[Batch], None]
Table = dict[str, list[Any]]

LOST = 3
"""How often in a row results may break off without a single one, until it is an error."""


@runtime_checkable
class HasId(Protocol):
    """A batch, a run, or whatever else is named by an id."""

    @property
    def id(self) -> str: ...


def id_of(named: str | HasId) -> str:
    """The id itself, or that of the run or batch."""
    return named if isinstance(named, str) else named.id


class AsyncRun:
    """A batch that is completed, with its `summary`; the results are fetched when they are asked for."""

    def __init__(self, connection: Connection, batch: Batch, summary: Summary) -> None:
        self._connection = connection
        self.batch = batch
        self.summary = summary

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} ({self.batch.counts.total} candidates)>"

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()

    @property
    def id(self) -> str:
        """The batch's id."""
        return self.batch.id

    async def results(self, *, texts: bool = False) -> AsyncGenerator[ResultRow, None]:
        """The results in the order of the items, as they come in; with `texts` each has its texts, as far as the
        service still has them."""
        async with aclosing(stream_results(self._connection, self.id, texts=texts)) as rows:
            async for row in rows:
                yield row

    async def to_table(self, *, texts: bool = False) -> Table:
        """The results as columns, named as in the CSV file: `NAME` is an aspect's rating, `NAME.mean` the mean of its
        samples; `texts` as for `results`."""
        aspects, composites = list(self.summary.aspects), list(self.summary.composites)
        cells = [list(row_cells(row, aspects, composites)) async for row in self.results(texts=texts)]
        names = dict.fromkeys(name for row in cells for name, _ in row)
        rows = [dict(row) for row in cells]
        return {name: [row.get(name) for row in rows] for name in names}

    async def to_pandas(self, *, texts: bool = False) -> Any:
        """The results as a `pandas.DataFrame`. Raises ModuleNotFoundError where pandas is not installed."""
        return need("pandas").DataFrame(await self.to_table(texts=texts))

    async def to_polars(self, *, texts: bool = False) -> Any:
        """The results as a `polars.DataFrame`. Raises ModuleNotFoundError where polars is not installed."""
        # All rows, to find the types: the first hundred may hold nothing in a column.
        return need("polars").DataFrame(await self.to_table(texts=texts), strict=False, infer_schema_length=None)


def need(package: str) -> Any:
    """The package. Raises ModuleNotFoundError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(f"{package} is not installed; run: pip install {package}", name=package) from None


async def stream_results(
    connection: Connection, batch_id: str, *, after: int = -1, limit: int | None = None, texts: bool = False
) -> AsyncGenerator[ResultRow, None]:
    """The results behind position `after`, at most `limit`. A stream that breaks off is taken up where it ended."""
    lost = 0
    while True:
        query = {"after": str(after)} if limit is None else {"after": str(after), "limit": str(limit)}
        query |= {"texts": "true"} if texts else {}
        try:
            async with aclosing(connection.results(batch_id, **query)) as lines:
                async for line in lines:
                    row = read_line(ResultRow, line)
                    after, lost = after if row.position is None else row.position, 0
                    limit = None if limit is None else limit - 1
                    yield row
        except ServiceUnreachable:
            lost += 1
            if lost > LOST:
                raise
            await connection.batch(batch_id)  # which waits for a service that is starting again
            if limit == 0:
                return
        else:
            return


def row_cells(row: ResultRow, aspects: list[str], composites: list[str]) -> Iterator[tuple[str, Any]]:
    """One result's (column, value)."""
    yield "item", row.item
    for name, column in TEXT_COLUMNS.items():
        if (text := getattr(row, name)) is not None:
            yield column, write_text(text)
    yield from (("position", row.position), ("candidate", row.candidate), ("status", row.status))
    for name in aspects:
        yield from aspect_cells(name, row.aspects.get(name))
    for name in composites:
        yield name, row.composites.get(name)
    if row.findings is not None:
        yield "findings", name_findings(row.findings)
        yield "kinds", name_kinds(row.findings)
    yield "relevance.score", row.relevance.score if row.relevance else None
    yield "warnings", " ".join(dict.fromkeys(warned.code for warned in row.warnings)) or None
    yield "cost_usd", row.usage.cost_usd if row.usage else None
    yield "evaluation", row.id
    yield "signature", row.signature
    yield "failure.code", row.error.code if row.error else None
    yield "failure.detail", row.error.detail if row.error else None
    yield "dialogue", row.dialogue
    yield "cluster", row.cluster
    for key, value in row.metadata.items():
        yield f"metadata.{key}", value
    for key, value in (row.batch_metadata or {}).items():
        yield f"{BATCH_METADATA}.{key}", value


def aspect_cells(name: str, result: AspectResult | None) -> Iterator[tuple[str, Any]]:
    """One aspect's (column, value)."""
    yield name, result.rating if result else None
    yield f"{name}.mean", result.mean if result else None
    yield f"{name}.expected", result.expected if result else None
    yield f"{name}.blended", result.blended if result else None
    yield f"{name}.unrated", result.unrated.reason if result and result.unrated else None


def kind_of(column: str, aspects: Container[str], composites: Container[str]) -> Kind:
    """Of what kind the values of a column of `row_cells` are."""
    if column in {"position", "candidate"} or column in aspects:
        return int
    if column in composites or column in {"relevance.score", "cost_usd"}:
        return float
    name, dot, part = column.rpartition(".")
    return float if dot and name in aspects and part in {"mean", "blended"} else str


@contextmanager
def open_progress(progress: bool | Progress) -> Iterator[Progress]:
    """What is told each state of a batch: a bar on standard error for True, nothing for False."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("scoring", total=None)

        def show(batch: Batch) -> None:
            bar.update(
                task,
                description=f"{batch.name or batch.id}: {batch.status}",
                total=batch.counts.total,
                completed=batch.counts.done,
            )

        yield show
