"""`saiten adopt`: makes a run of the service of results that `saiten offline` wrote."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx

from saiten.answers import Batch
from saiten.commands.files import InvalidItems
from saiten.commands.gate_files import SUFFIX, holds_results
from saiten.commands.gate_settings import read_metadata
from saiten.commands.output import console, open_progress, print_line
from saiten.commands.service import NO_JUDGE, URL, open_service
from saiten.connection import JSON
from saiten.core.errors import ServiceRefused
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.items import write_json
from saiten.reading import read
from saiten.waiting import read_object

ADOPT_PATH = "/v1/runs/adopt"
PARQUET = "application/vnd.apache.parquet"
PIECE_BYTES = 1 << 20
CREATED = 201
SIGNATURE = "signature="
UNSENT_COLUMNS = frozenset({"context", "response", "turns", "persona", "goal", "findings", "reason"})
"""What columns of texts are called, or begin with before a point: they are not sent."""

SENT_ROWS = 10_000


@click.command("adopt")
@click.argument("source", metavar="FOLDER")
@click.option("--name", metavar="NAME", help="The run's name, by which trends and baselines know it.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the run; may be repeated.")
@click.option("--rubric", metavar="ID@VERSION", help="The rubric, where the files name none.")
@click.option("--in-place", is_flag=True, help="The service reads FOLDER itself, at this path; URLs always.")
@click.option("--json", "as_json", is_flag=True, help="Print the batch as JSON.")
@URL
def command(
    source: str,
    name: str | None,
    metadata: tuple[str, ...],
    rubric: str | None,
    in_place: bool,
    as_json: bool,
    url: str | None,
) -> None:
    """Make a run of the service of the results in FOLDER, which `saiten offline` wrote, without any call of a judge.

    FOLDER is a folder of Parquet files or one of them, which are sent without texts, or a URL (s3://…), which the
    service reads itself, below an address that its operator allows. Where it reads them itself, its pages show the
    texts that the files hold. The same results under the same name are one run.

    Exit 0: adopted, or adopted before; 2: bad usage or input; 3: could not run; 130: interrupted.

    \b
    Examples:
      saiten adopt scores/signature=0f2c61d09a44 --name nightly --metadata system=bot-a
      saiten adopt s3://scores/team/signature=0f2c61d09a44 --name nightly
    """
    given = {"name": name, "rubric": rubric, "metadata": read_metadata(metadata) if metadata else None}
    asked = {key: value for key, value in given.items() if value is not None}
    is_url = "://" in source
    if in_place and not is_url:
        source = f"file://{Path(source).absolute()}"
    answer, new = asyncio.run(adopt(source, asked, url, in_place=in_place or is_url))
    if as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
        return
    print_adopted(read(Batch, answer), new=new)


async def adopt(source: str, asked: dict[str, Any], url: str | None, *, in_place: bool) -> tuple[dict[str, Any], bool]:
    """The batch, and whether it is new. Raises InvalidItems for what cannot be adopted, and SaitenError."""
    if in_place:
        what: dict[str, Any] = {"content": write_json({"url": source, **asked}), "headers": {"Content-Type": JSON}}
        return await post_adoption(url, what)
    with put_together(source) as path, open_progress() as bar:
        size = path.stat().st_size
        line = bar.add_task(tell("sending"), total=size)
        query = {key: value for key, value in asked.items() if key != "metadata"}
        query |= {f"metadata.{key}": value for key, value in asked.get("metadata", {}).items()}
        headers = {"Content-Type": PARQUET, "Content-Length": str(size)}
        sent = SentFile(path, lambda count: bar.update(line, completed=count))
        return await post_adoption(url, {"content": sent, "headers": headers, "params": query})


async def post_adoption(url: str | None, what: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The service's answer, and whether the run is new."""
    async with open_service(url, NO_JUDGE) as service:
        try:
            answer: httpx.Response = await service.request("POST", ADOPT_PATH, **what)
        except ServiceRefused as error:
            if error.status == 422:
                raise InvalidItems(error.detail) from None
            raise
    return read_object(answer), answer.status_code == CREATED


@dataclass
class SentFile:
    """A file as a request's body, a piece at a time, which may be sent again. `advance` is told how much was sent."""

    path: Path
    advance: Callable[[int], None]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sent = 0
        with self.path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
                sent += len(piece)
                self.advance(sent)


@contextmanager
def put_together(source: str) -> Iterator[Path]:
    """One Parquet file with the results, without their texts. Raises InvalidItems, which names the file."""
    path = Path(source)
    try:
        names = list_files(path)
        if not names:
            raise InvalidItems(tell("{name}: there are no Parquet files of results", name=printable(source)))
        with tempfile.TemporaryDirectory(prefix="saiten-") as folder:
            made = Path(folder, "results.parquet")
            write_together(names, path, made)
            yield made
    except OSError as error:
        raise InvalidItems(f"{printable(str(error.filename or source))}: {tell(error.strerror or '')}") from None


def list_files(path: Path) -> list[Path]:
    """The files of results, in the order of their names. Raises InvalidItems for results of several signatures, and
    OSError."""
    if not path.is_dir():
        path.stat()
        return [path] if path.suffix.lower() == SUFFIX and holds_results(path) else []
    found = sorted(one for one in path.rglob(f"*{SUFFIX}") if one.is_file() and not is_hidden(one.relative_to(path)))
    signatures = sorted({part for one in found for part in one.relative_to(path).parts if part.startswith(SIGNATURE)})
    if len(signatures) > 1:
        names = ", ".join(map(printable, signatures))
        raise InvalidItems(tell("{name} holds several runs; name one: {names}", name=printable(str(path)), names=names))
    return found


def is_hidden(path: Path) -> bool:
    """Whether a name on the path says that it is not for readers."""
    return any(part.startswith((".", "_")) for part in path.parts)


def write_together(names: list[Path], base: Path, made: Path) -> None:
    """Writes the results of all files into one. Raises InvalidItems, which names the file that cannot be read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InvalidItems(
            tell("files of results are read with pyarrow: pip install 'saiten-server[offline]'")
        ) from None

    def reading(name: Path, error: Exception) -> InvalidItems:
        shown = printable(str(name if name == base else name.relative_to(base)))
        why = printable((str(error) or type(error).__name__).splitlines()[0][:200])
        return InvalidItems(tell("{name}: it cannot be read: {why}", name=shown, why=why))

    schemas = []
    for name in names:
        try:
            schemas.append(pq.read_schema(name, memory_map=False))
        except (pa.ArrowException, ValueError) as error:
            raise reading(name, error) from None
    try:
        whole = pa.unify_schemas(schemas)
    except (pa.ArrowException, ValueError) as error:
        raise reading(base, error) from None
    kept = pa.schema(
        [one for one in whole if one.name.partition(".")[0] not in UNSENT_COLUMNS], metadata=schemas[0].metadata
    )
    with pq.ParquetWriter(made, kept, compression="zstd") as writer:
        for name, schema in zip(names, schemas, strict=True):
            own = [one for one in kept.names if one in schema.names]
            try:
                with pq.ParquetFile(name) as file:
                    for batch in file.iter_batches(SENT_ROWS, columns=own):
                        writer.write_table(cast_table(pa.Table.from_batches([batch]), kept))
            except (pa.ArrowException, ValueError) as error:
                raise reading(name, error) from None


def cast_table(table: Any, schema: Any) -> Any:
    """The table with the schema's columns: null where it has none."""
    import pyarrow as pa

    columns = [
        table.column(one.name).cast(one.type) if one.name in table.column_names else pa.nulls(len(table), one.type)
        for one in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def print_adopted(batch: Batch, *, new: bool) -> None:
    """What was adopted."""
    counts = batch.counts
    words = tell("adopted as {id}", id=batch.id) if new else tell("adopted before, as {id}", id=batch.id)
    results = tell("{n:,} results, {failed:,} of them failed", n=counts.total, failed=counts.failed)
    print_line(f"{words}: {results}", console())
