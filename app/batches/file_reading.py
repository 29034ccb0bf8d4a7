"""Reads an uploaded file in a process of its own, which may use so much memory and time and no more.

The file is hostile until it is read: parsing it takes long, and as much memory as it says. Besides, the messages of the
package that reads it are in the language of its process. `read_file` is what the service calls; `main` is the child.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from app.domain.batch import BatchConversation, BatchItem, GivenItem, count_candidates
from app.domain.dataset import MIXED, FileQuestion, FileReport
from app.domain.dialogue import Limits
from app.domain.evaluation import texts_of
from app.domain.plain_text import is_korean
from app.domain.validation import InvalidDocument, validate

logger = logging.getLogger("saiten.datasets")

SECONDS = 120
"""A file that takes longer is refused."""

MEMORY_BYTES = 2 << 30
MOST_WRITTEN = 512 << 20
"""Bytes of items: a small file may hold dialogues each of whose turns repeats all before it."""

SAMPLE = 5
SAMPLE_CHARACTERS = 20_000
MOST_COLUMNS = 200
MOST_SHOWN = 100
MOST_CHARACTERS = 300

SOURCE, ITEMS, QUESTION, REPORT = "source", "items.ndjson", "question.json", "report.json"
CHILD = "import sys; sys.path[:] = sys.argv[2:]; from app.batches.file_reading import main; main(sys.argv[1])"

OPTIONS = {"--map": "columns", "--input-encoding": "encoding"}
"""Messages that advise these options of the command are for a command line: pages say it in their own words."""


async def read_file(folder: Path, name: str, asked: FileQuestion, limits: Limits, *, keep: bool) -> FileReport:
    """What the file `SOURCE` in the folder holds; with `keep` its items are written to `ITEMS` there."""
    question = {"name": name, "asked": asdict(asked), "limits": limits.model_dump(), "keep": keep}
    await asyncio.to_thread((folder / QUESTION).write_text, json.dumps(question), encoding="utf-8")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", CHILD, str(folder), *sys.path),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            status = await child.wait()
    except TimeoutError:
        return FileReport(trouble="slow")
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    answer = folder / REPORT
    if status != 0 or not answer.exists():
        # Without the words of the error, which may hold the file's texts.
        logger.warning("the process that reads an uploaded file ended with status %s", status)
        return FileReport(trouble="damaged")
    return FileReport(**json.loads(await asyncio.to_thread(answer.read_text, encoding="utf-8")))


def main(folder: str) -> None:
    """Reads the file of the folder, and writes report and items beside it."""
    limit_process()
    place = Path(folder)
    question = json.loads((place / QUESTION).read_text(encoding="utf-8"))
    asked = FileQuestion(**{**question["asked"], "mapping": tuple(map(tuple, question["asked"]["mapping"]))})
    reading = FileReading(question["name"], asked, Limits.model_validate(question["limits"]))
    written = place / ITEMS if question["keep"] else None
    report = reading.run(place / SOURCE, written)
    (place / REPORT).write_text(json.dumps(report), encoding="utf-8")


def limit_process() -> None:
    """Bounds the process's memory and time, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class NamedFile(io.BufferedReader):
    """A file under another name: by its ending some formats are known, and messages begin with it."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(io.FileIO(str(path)))
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

    def run(self, path: Path, written: Path | None) -> dict[str, Any]:
        """The fields of a FileReport."""
        from saiten.formats import Report, UnreadableInput, read_items
        from saiten.language import use_language

        use_language(self._asked.language)
        mapping: dict[str, list[str]] = {}
        for target, column in self._asked.mapping:
            mapping.setdefault(target, []).append(column)
        columns: list[str] = []
        trouble, report = None, Report()
        try:
            reader = read_items(
                NamedFile(path, self._name),
                input_encoding=self._asked.encoding or None,
                mapping=mapping,
                source=self._asked.source or None,
            )
            report, lines = reader.report, self._take(reader)
            if written is None:
                trouble = self._count(lines)
            else:
                with written.open("wb") as out:
                    trouble = self._count(lines, out)
        except UnreadableInput as error:
            trouble = next((why for option, why in OPTIONS.items() if option in error.detail), error.detail)
        with suppress(UnreadableInput):
            columns = list_columns(path, self._name, self._asked.encoding or None, mapping)
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
                self._leave([(found.place(where), what) for where, what in error.faults])
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
            self._unusable.append((cut(where), cut(what)))

    def _count(self, lines: Iterator[bytes], out: io.BufferedWriter | None = None) -> str | None:
        """Writes the lines where they are to be kept; what is wrong where they are too many."""
        size = 0
        for line in lines:
            size += len(line)
            if size > min(MOST_WRITTEN, self._limits.batch_bytes):
                return "too-much"
            if self._candidates > self._limits.batch_items:
                return "too-many"
            if out is not None:
                out.write(line)
        return None

    def _tell(self, report: Any) -> dict[str, Any]:
        """What became of the file's fields and rows."""
        from saiten.language import tell

        return {
            "reads": cut(report.reads),
            "source": report.source,
            "rows": report.rows,
            "items": self._items,
            "kept": [cut(name) for name in report.kept[:MOST_SHOWN]],
            "renamed": [(cut(name), targets) for name, targets in islice(report.renamed.items(), MOST_SHOWN)],
            "left_out": [(cut(name), tell(why), n) for (name, why), n in islice(report.left_out.items(), MOST_SHOWN)],
            "skips": report.skips,
            "skipped": [(cut(where), cut(why)) for where, why in report.skipped[:MOST_SHOWN]],
            "misfits": self._misfits,
            "unusable": self._unusable,
            "sample": self._sample,
            "unit": self._unit or "item",
            "korean": self._korean,
        }


def cut(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def list_columns(path: Path, name: str, encoding: str | None, mapping: dict[str, list[str]]) -> list[str]:
    """The columns of the file's first row; raises UnreadableInput."""
    from saiten.formats.reading import read_records
    from saiten.formats.report import Report
    from saiten.formats.tools import open_table

    records = read_records(NamedFile(path, name), name, input_encoding=encoding, mapping=mapping, report=Report())
    start = list(islice(records, 2))
    first = next(open_table(start[0]), start[0]) if len(start) == 1 else start[0] if start else None
    return [] if first is None else [key for key in first.value if len(key) <= MOST_CHARACTERS][:MOST_COLUMNS]
