"""Results as a file: CSV, Parquet, NDJSON or JSON by the file's name, written whole or not at all."""

from __future__ import annotations

import codecs
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import click

from saiten.answers import ResultRow
from saiten.commands.files import InvalidItems, require_place
from saiten.core.formats.parquet import write_table
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls
from saiten.core.spreadsheet import write_rows
from saiten.reading import read
from saiten.run import kind_of, row_cells

FORMS = {".csv": "csv", ".parquet": "parquet", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "json"}
"""What a file is, by the end of its name."""


@contextmanager
def write_whole(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once everything is written, and never where an error ends the writing;
    standard output for `-`.

    Raises InvalidItems where it cannot be written.
    """
    if path == "-":
        yield sys.stdout.buffer
        return
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or a pipe, whose place nothing takes
        with target.open("wb") as file:
            yield file
        return
    with replace_file(target) as file:
        yield file


@contextmanager
def replace_file(target: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `target`, or of what that links to, once everything is written. Raises
    InvalidItems."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    except OSError as error:
        raise InvalidItems(f"{target}: {tell(error.strerror or '')}") from None
    try:
        with open(descriptor, "wb") as file:
            os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~read_umask())
            yield file
        os.replace(name, target.resolve())
    except OSError as error:
        raise InvalidItems(f"{target}: {tell(error.strerror or '')}") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def read_umask() -> int:
    """The rights that new files of this process lack."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def require_output_file(path: str | None, *, excel: bool) -> None:
    """Raises UsageError or InvalidItems for mistakes that would otherwise show only after everything is scored."""
    if path is None:
        if excel:
            raise click.UsageError(tell("--excel goes with --output FILE.csv"))
        return
    form = FORMS.get(Path(path).suffix.lower())
    if form is None:
        raise click.UsageError(
            tell("--output {path}: its name should end with .csv, .parquet, .ndjson or .json", path=path)
        )
    if excel and form != "csv":
        raise click.UsageError(tell("--excel goes with --output FILE.csv"))
    if form == "parquet" and find_spec("arro3") is None:
        raise InvalidItems(tell("{name}: Parquet needs the extra packages: pip install 'saiten[formats]'", name=path))
    require_place(path)


def write_results(path: str, results: Sequence[Mapping[str, Any]], *, excel: bool) -> None:
    """Writes the results in the form that the file's name asks for. Raises InvalidItems where that cannot be."""
    form = FORMS[Path(path).suffix.lower()]
    with write_whole(path) as file:
        if form == "csv":
            file.write((codecs.BOM_UTF8 if excel else b"") + write_rows(list_rows(results)))
            return
        if form == "parquet":
            heads, *rows = list_rows(results)
            aspects, composites = name_measures(results)
            write_table({head: kind_of(head, aspects, composites) for head in heads}, [rows], file)
            return
        start, between, end = ("[", ",\n", "]\n") if form == "json" else ("", "\n", "\n" if results else "")
        for number, result in enumerate(results):
            line = escape_controls(json.dumps(result, ensure_ascii=False))
            file.write(((between if number else start) + line).encode())
        file.write((end if results or form != "json" else "[]\n").encode())


def list_rows(results: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The heads, then a row a result, as `to_table` of the client names its columns."""
    aspects, composites = name_measures(results)
    rows = [dict(row_cells(read(ResultRow, result), aspects, composites)) for result in results]
    heads = [
        head for head in dict.fromkeys(head for row in rows for head in row) if head not in ("position", "candidate")
    ]
    return [heads, *([row.get(head) for head in heads] for row in rows)]


def name_measures(results: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The aspects and the composites that the results have."""
    aspects, composites = (
        list(dict.fromkeys(name for result in results for name in result.get(kind, {})))
        for kind in ("aspects", "composites")
    )
    return aspects, composites
