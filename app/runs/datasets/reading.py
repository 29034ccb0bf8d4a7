"""Reads an uploaded file in a process of its own, which may use so much memory and time and no more.

The file is hostile until it is read: parsing it takes long, and as much memory as it says. Besides, the messages of the
package that reads it are in the language of its process. `read_file` is what the service calls; `main` is the child.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, Any

from saiten.core.plain_text import is_korean
from saiten_server.core.batch import BatchConversation, BatchItem, GivenItem, count_candidates
from saiten_server.core.dialogue import Limits
from saiten_server.core.evaluation import texts_of
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.runs.datasets.values import MIXED, FileQuestion, FileReport
from saiten_server.runs.intake import FULL, translate_errors

logger = logging.getLogger("saiten.datasets")

READING_SECONDS = 120
"""A file that takes longer is refused."""

MEMORY_BYTES = 2 << 30
MOST_WRITTEN = 512 << 20
"""Bytes of items: a small file may hold dialogues each of whose turns repeats all before it."""

MOST_TIMES = 100
LEAST_ALLOWED = 4_000_000
"""Bytes of items that any file may hold, and how many times its own size a larger one may. JSON takes up to 15 times
as much as a table of short texts, and texts are compressed to a tenth; a column that says one text a million times is
a kilobyte of Parquet."""

SAMPLE = 5
SAMPLE_CHARACTERS = 20_000
MOST_COLUMNS = 200
MOST_SHOWN = 100
MOST_COLUMN_CHARACTERS = 300

CHILD = f"import sys; sys.path[:] = sys.argv[2:]; from {__name__} import main; main(sys.argv[1])"

COMMAND_OPTIONS = {"--map": "columns", "--input-encoding": "encoding"}
"""Messages that advise these options of the command are for a command line: pages say it in their own words."""


async def read_file(
    source: IO[bytes], name: str, asked: FileQuestion, limits: Limits, items: IO[bytes] | None = None
) -> FileReport:
    """What the file holds; its items are written to `items`, if given. All are files with descriptors, and the child
    process has them from this one: files without names vanish however either ends. Raises StoreFull, StoreError."""
    question = {"name": name, "asked": asdict(asked), "limits": limits.model_dump()}
    with translate_errors():
        told: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile, prefix="saiten-")
    with told:
        with translate_errors():
            await asyncio.to_thread(write_whole, told, question)
        status = await run_child([file.fileno() for file in (told, source, items) if file is not None])
        if status is None:
            return FileReport(trouble="slow")
        if status in FULL:
            with translate_errors():
                raise OSError(status, os.strerror(status))
        if status != 0:
            # Without the words of the error, which may hold the file's texts.
            logger.warning("the process that reads an uploaded file ended with status %s", status)
            return FileReport(trouble="damaged")
        return FileReport(**await asyncio.to_thread(read_json_file, told))


async def run_child(files: Sequence[int]) -> int | None:
    """Runs `main` in a process that has these descriptors; returns its status, None where it took too long."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", CHILD, ",".join(map(str, files)), *sys.path),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=files,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(READING_SECONDS):
            return await child.wait()
    except TimeoutError:
        return None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with the process that reads Parquet for it
            await child.wait()


def main(numbers: str) -> None:
    """Reads the file, and writes its report over the question; ends with the error's number where the disk is full.
    `numbers` are the descriptors of question, file, and the place for items."""
    limit_process()
    told, source, *items = [os.fdopen(int(number), "r+b") for number in numbers.split(",")]
    question = read_json_file(told)
    asked = FileQuestion(**{**question["asked"], "mapping": tuple(map(tuple, question["asked"]["mapping"]))})
    reading = FileReading(question["name"], asked, Limits.model_validate(question["limits"]))
    try:
        report = reading.run(source.fileno(), items[0] if items else None)
        for file in items:
            file.flush()
        write_whole(told, report)
    except OSError as error:
        if error.errno in FULL:
            sys.exit(error.errno)
        raise


def write_whole(file: IO[bytes], value: Mapping[str, Any]) -> None:
    """Writes the value in the place of what the file held."""
    file.seek(0)
    file.truncate()
    file.write(json.dumps(value).encode())
    file.flush()


def read_json_file(file: IO[bytes]) -> dict[str, Any]:
    """The value in the file."""
    file.seek(0)
    value: dict[str, Any] = json.loads(file.read())
    return value


def limit_process() -> None:
    """Bounds the process's memory and time, where the system can. Where memory runs out all the same, this process is
    the one to be ended, and not the service."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (READING_SECONDS, READING_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class NamedFile(io.BufferedReader):
    """A file under another name: by its ending some formats are known, and messages begin with it."""

    def __init__(self, descriptor: int, name: str) -> None:
        super().__init__(io.FileIO(descriptor, closefd=False))
        self._name = name

    @property
    def name(self) -> str:
        return self._name


class FileReading:
    """One file being read. Items that the service does not take are told and left out."""

    def __init__(self, name: str, asked: FileQuestion, limits: Limits) -> None:
        self._name = name
        self._asked = asked
        self._limits = limits
        self._unit = ""
        self._korean = False
        self._items = 0
        self._candidates = 0
        self._sample: list[dict[str, Any]] = []
        self._misfits = 0
        self._unusable: list[tuple[str, str]] = []

    def run(self, source: int, items: IO[bytes] | None) -> dict[str, Any]:
        """The fields of a FileReport. `source` is the file's descriptor."""
        from saiten.core.formats import Report, UnreadableInput, read_items
        from saiten.core.language import use_language

        use_language(self._asked.language)
        mapping: dict[str, list[str]] = {}
        for target, column in self._asked.mapping:
            mapping.setdefault(target, []).append(column)
        columns: list[str] = []
        trouble, report = None, Report()
        # Before the items: both read the file by one descriptor, and so one after the other.
        with suppress(UnreadableInput):
            columns = list_file_columns(source, self._name, self._asked.encoding or None, mapping)
        try:
            reader = read_items(
                NamedFile(source, self._name),
                input_encoding=self._asked.encoding or None,
                mapping=mapping,
                source=self._asked.source or None,
            )
            report = reader.report
            trouble = self._count(self._take(reader), items, os.fstat(source).st_size)
        except UnreadableInput as error:
            trouble = next((why for option, why in COMMAND_OPTIONS.items() if option in error.detail), error.detail)
        return {**self._tell(report), "columns": columns, "trouble": trouble}

    def _take(self, reader: Iterable[Any]) -> Iterator[bytes]:
        """The items that the service takes, as lines of NDJSON as pydantic writes them."""
        for found in reader:
            conversation = "turns" in found.value
            model: type[GivenItem] = BatchConversation if conversation else BatchItem
            unit = "conversation" if conversation else "item"
            try:
                item = validate(model, found.value, self._limits)
            except InvalidDocument as error:
                self._leave([(found.place(where), str(what)) for where, what in error.faults])
                continue
            self._unit = self._unit or unit
            if unit != self._unit:
                self._leave([(found.where, MIXED)])
                continue
            self._note(item)
            yield item.model_dump_json(exclude_defaults=True).encode() + b"\n"

    def _note(self, item: GivenItem) -> None:
        """Counts an item, and shows it if it is one of the first."""
        self._items += 1
        self._candidates += count_candidates(item)
        if isinstance(item, BatchConversation):
            texts = iter([turn.text for turn in item.turns])
        else:
            texts = texts_of(item.context, item.responses or (item.response or "",))
        self._korean = self._korean or is_korean(texts)
        if len(self._sample) < SAMPLE:
            shown = item.model_dump(mode="json", exclude_defaults=True)
            if len(json.dumps(shown)) <= SAMPLE_CHARACTERS:
                self._sample.append(shown)

    def _leave(self, faults: list[tuple[str, str]]) -> None:
        self._misfits += 1
        for where, what in faults[: max(0, MOST_SHOWN - len(self._unusable))]:
            self._unusable.append((cut_text(where), cut_text(what)))

    def _count(self, lines: Iterator[bytes], out: IO[bytes] | None, file_bytes: int) -> str | None:
        """Writes the lines where they are to be kept; what is wrong where they are too many."""
        size, most = 0, max(LEAST_ALLOWED, MOST_TIMES * file_bytes)
        for line in lines:
            size += len(line)
            if size > min(MOST_WRITTEN, self._limits.batch_bytes):
                return "too-much"
            if size > most:
                return "expands"
            if self._candidates > self._limits.batch_items:
                return "too-many"
            if out is not None:
                out.write(line)
        return None

    def _tell(self, report: Any) -> dict[str, Any]:
        """What became of the file's fields and rows."""
        from saiten.core.language import tell

        return {
            "reads": cut_text(report.reads),
            "source": report.source,
            "rows": report.rows,
            "items": self._items,
            "kept": [cut_text(name) for name in report.kept[:MOST_SHOWN]],
            "renamed": [(cut_text(name), targets) for name, targets in islice(report.renamed.items(), MOST_SHOWN)],
            "left_out": [
                (cut_text(name), tell(why), n) for (name, why), n in islice(report.left_out.items(), MOST_SHOWN)
            ],
            "skips": report.skips,
            "skipped": [(cut_text(where), cut_text(why)) for where, why in report.skipped[:MOST_SHOWN]],
            "misfits": self._misfits,
            "unusable": self._unusable,
            "sample": self._sample,
            "unit": self._unit or "item",
            "korean": self._korean,
        }


def cut_text(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= MOST_COLUMN_CHARACTERS else f"{text[: MOST_COLUMN_CHARACTERS - 1]}…"


def list_file_columns(source: int, name: str, encoding: str | None, mapping: dict[str, list[str]]) -> list[str]:
    """The columns of the file's first row; raises UnreadableInput."""
    from saiten.core.formats.reading import read_records
    from saiten.core.formats.report import Report
    from saiten.core.formats.tools import open_table

    records = read_records(NamedFile(source, name), name, input_encoding=encoding, mapping=mapping, report=Report())
    start = list(islice(records, 2))
    first = next(open_table(start[0]), start[0]) if len(start) == 1 else start[0] if start else None
    return [] if first is None else [key for key in first.value if len(key) <= MOST_COLUMN_CHARACTERS][:MOST_COLUMNS]
