"""Bytes to records: which kind of file it is, told by its content, and the records of each kind.

NDJSON, CSV and Parquet are read as streams; a JSON document and a workbook's texts are held in memory, within limits.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, cast

from saiten.core.formats.archives import FULL, choose_entry, open_gzip, refuse_large, zipfile
from saiten.core.formats.chat_exports import is_slack, read_slack
from saiten.core.formats.chat_texts import is_chat_text, read_chat_text
from saiten.core.formats.encodings import HINT, MOST_LINE, find_broken, find_encoding
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import count_known
from saiten.core.formats.parquet import ARROW, ARROW_STREAM, PARQUET
from saiten.core.formats.records import Record, parse_documents, parse_json
from saiten.core.formats.report import Report
from saiten.core.formats.tables import (
    HEADING_ROWS,
    GivenMapping,
    PlacedRow,
    place_of,
    read_delimited,
    read_table,
    refuse_twins,
)
from saiten.core.language import tell

MOST_DOCUMENT = 256 * 1024 * 1024
"""Characters of one JSON document."""

MARKUP = re.compile(r"<(!doctype|\?xml|html|head|meta|style|table)\b", re.IGNORECASE)
"""How what administrations export as `.xls` begins, which is a web page."""

MOST_MERGED = 100_000
MARKS_AND_SPACE = b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n"

Lines = Iterator[str]


@contextmanager
def open_input(source: str | Path | IO[bytes]) -> Iterator[tuple[IO[bytes], str]]:
    """The file and its name, at any position; `-` and streams that cannot be rewound are copied to a temporary file.
    Raises UnreadableInput for a file that is named and cannot be read, or that was cut meanwhile; of a stream its
    OSError."""
    if not isinstance(source, str | Path):
        with open_stream(source, str(getattr(source, "name", "the input"))) as opened:
            yield opened
        return
    is_file = str(source) != "-"
    if not is_file and sys.stdin is None:
        raise UnreadableInput(tell("standard input is closed; name a file, or give the items with `<`"))
    name = str(source) if is_file else "standard input"
    try:
        with (
            Path(source).open("rb") if is_file else nullcontext(sys.stdin.buffer) as file,
            open_stream(file, name) as opened,
        ):
            size = os.fstat(file.fileno()).st_size if is_file else 0
            yield opened
            if is_file and os.fstat(file.fileno()).st_size < size:  # what is missing would not be missed
                raise UnreadableInput(tell("{name}: became shorter while it was read; read it again", name=name))
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        if error.errno in FULL:
            raise UnreadableInput(
                tell("{name}: the disk for temporary files is full; free some space, or set TMPDIR", name=name)
            ) from None
        raise UnreadableInput(f"{name}: {tell(error.strerror or '')}") from None


@contextmanager
def open_stream(stream: IO[bytes], name: str) -> Iterator[tuple[IO[bytes], str]]:
    """The stream, or a copy of one that cannot be rewound."""
    if stream.seekable() and stream is not getattr(sys.stdin, "buffer", None):
        yield stream, name
        return
    with tempfile.TemporaryFile() as copy:
        copyfileobj(stream, copy)
        yield copy, name


def read_records(
    file: IO[bytes],
    name: str,
    *,
    input_encoding: str | None,
    mapping: GivenMapping,
    report: Report,
    packed: bool = False,
) -> Iterator[Record]:
    """The records of a file of any kind, which may have been `packed` in an archive; raises UnreadableInput."""
    file.seek(0)
    start = file.read(8)

    def unpack(unpacked: IO[bytes], name: str) -> Iterator[Record]:
        yield from read_records(
            unpacked, name, input_encoding=input_encoding, mapping=mapping, report=report, packed=True
        )

    if start.startswith(b"PK\x03\x04"):
        yield from read_archive(file, name, mapping, report, None if packed else unpack)
    elif start.startswith(b"\x1f\x8b") and not packed:
        with open_gzip(file, name) as unpacked:
            yield from unpack(unpacked, name)
    elif start.startswith((PARQUET, ARROW, ARROW_STREAM)):
        yield from read_parquet(file, name, "Parquet" if start.startswith(PARQUET) else "Arrow", report)
    elif start.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        raise UnreadableInput(f"{name}: {tell_compound(file)}")
    elif start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")):
        raise UnreadableInput(tell("{name}: is compressed; unpack it first", name=name))
    elif start.startswith(b"%PDF"):
        raise UnreadableInput(tell("{name}: is a PDF; give a table, NDJSON or JSON", name=name))
    else:
        yield from read_text(file, name, input_encoding, mapping, report)


def tell_compound(file: IO[bytes]) -> str:
    """What is wrong with a compound file of Microsoft: a workbook with a password, or one of before 2007."""
    file.seek(0)
    if "EncryptedPackage".encode("utf-16-le") in file.read(1 << 24):
        return tell("is a workbook with a password; save it without one")
    return tell("is a workbook of the old format .xls; save it as .xlsx")


def read_text(
    file: IO[bytes], name: str, input_encoding: str | None, mapping: GivenMapping, report: Report
) -> Iterator[Record]:
    """The records of NDJSON, JSON, CSV or TSV."""
    encoding = find_encoding(file, name, input_encoding)
    report.reads, report.encoding = f"{encoding}", encoding.codec
    lines = read_lines(file, name, encoding.codec)
    head: list[str] = []
    for line in lines:
        head.append(line)
        if line.strip() or len(head) > 1000:
            break
    if not head or not head[-1].strip():
        raise UnreadableInput(tell("{name}: is empty", name=name))
    first, everything = head[-1].lstrip(), chain_lines(head, lines)
    kind = name.lower().removesuffix(".gz")
    if kind.endswith((".yaml", ".yml")):
        report.reads = f"YAML, {encoding}"
        return read_yaml(everything, name)
    if MARKUP.match(first):
        raise UnreadableInput(
            tell("{name}: is a web page or XML, whatever its name says; open it and save it as .xlsx", name=name)
        )
    tabular = kind.endswith((".csv", ".tsv"))
    if not tabular and is_chat_text(first):
        report.reads = tell("text, {encoding}", encoding=encoding)
        return read_chat_text(everything, name)
    if first.startswith("{") and is_object(first):
        report.reads = f"NDJSON, {encoding}"
        return read_ndjson(everything, name)
    if first.startswith(("{", "[")) and not tabular:
        report.reads = f"JSON, {encoding}"
        return read_document(everything, name)
    report.reads = tell("text, {encoding}", encoding=encoding)
    return read_delimited(everything, name, mapping, report)


def chain_lines(head: list[str], lines: Lines) -> Lines:
    """The lines that were read already, then the others."""
    yield from head
    yield from lines


def read_lines(file: IO[bytes], name: str, codec: str) -> Lines:
    """The lines of a text with their ends; raises UnreadableInput for one that is too long or not of the codec."""
    file.seek(0)
    # A JSON document may stand in one line.
    most = MOST_DOCUMENT if file.read(64).strip(MARKS_AND_SPACE)[:1] in (b"{", b"[") else MOST_LINE
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=codec, newline="")
    number = 0
    try:
        while line := text.readline(most + 1):
            number += 1
            if len(line) > most:
                raise UnreadableInput(
                    tell(
                        "{name}: line {number}: has more than {most:,} characters", name=name, number=number, most=most
                    )
                )
            yield line
    except UnicodeError:
        place = find_broken(file, codec) or number + 1
        told = {"name": name, "place": place, "codec": codec.removesuffix("-sig"), "hint": tell(HINT)}
        if place == 1:
            raise UnreadableInput(tell("{name}: line {place}: is not {codec}; {hint}", **told)) from None
        raise UnreadableInput(
            tell("{name}: line {place}: is not {codec} as the lines before it; {hint}", **told)
        ) from None
    finally:
        if not file.closed:
            text.detach()  # its end would close the file


def is_object(line: str) -> bool:
    """Whether a line is a whole JSON object; where it is all of the file, NDJSON and JSON are the same."""
    try:
        return isinstance(json.loads(line.rstrip().removesuffix(",")), dict)
    except RecursionError:
        return True
    except ValueError:
        return line.rstrip().endswith("}") and '":' in line.replace(" ", "") and line.count("{") == line.count("}")


def read_ndjson(lines: Lines, name: str) -> Iterator[Record]:
    """A record for each line that is not blank."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{name}:{number}"
            value = parse_json(line.strip().removesuffix(","), where)
            if not isinstance(value, dict):
                raise UnreadableInput(tell("{where}: an item is a JSON object with context and response", where=where))
            yield Record(where, value)


def read_document(lines: Lines, name: str) -> Iterator[Record]:
    """The records of a JSON document; what an object holds beside them is reported by the first of them."""
    parts, size = [], 0
    for line in lines:
        size += len(line)
        if size > MOST_DOCUMENT:
            raise UnreadableInput(
                tell(
                    "{name}: a JSON document may have {most:,} characters; write it as NDJSON",
                    name=name,
                    most=MOST_DOCUMENT,
                )
            )
        parts.append(line)
    documents = parse_documents("".join(parts), name)
    parts.clear()
    if len(documents) == 1 and isinstance(documents[0], dict):
        yield Record(name, documents[0])
        return
    for number, value in enumerate(documents[0] if len(documents) == 1 else documents, start=1):
        if not isinstance(value, dict):
            raise UnreadableInput(
                tell(
                    "{name}: item {number}: an item is a JSON object with context and response",
                    name=name,
                    number=number,
                )
            )
        yield Record(tell("{name}: item {number}", name=name, number=number), value)


def read_yaml(lines: Lines, name: str) -> Iterator[Record]:
    """The records of YAML: a document's, or those of each of several."""
    if find_spec("yaml") is None:
        raise UnreadableInput(tell("{name}: YAML needs the extra packages: pip install 'saiten[formats]'", name=name))
    from saiten.core.formats.yaml_documents import parse_yaml

    for document in parse_yaml(lines, name):
        for number, value in enumerate(document if isinstance(document, list) else [document], start=1):
            where = tell("{name}: item {number}", name=name, number=number) if isinstance(document, list) else name
            if not isinstance(value, dict):
                raise UnreadableInput(tell("{where}: an item is a JSON object with context and response", where=where))
            yield Record(where, value)


def read_archive(
    file: IO[bytes],
    name: str,
    mapping: GivenMapping,
    report: Report,
    unpack: Callable[[IO[bytes], str], Iterator[Record]] | None,
) -> Iterator[Record]:
    """The records of a workbook, of a log of inspect_ai, which are both ZIP archives, or of the only file in one, which
    `unpack` reads; None where this archive stood in another."""
    try:
        archive = zipfile.ZipFile(file)
        entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, OSError) as error:
        raise UnreadableInput(tell("{name}: is damaged: {error}", name=name, error=error)) from None
    file.seek(0, io.SEEK_END)
    refuse_large(sum(entry.file_size for entry in entries), file.tell(), name)
    names = {entry.filename for entry in entries}
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnreadableInput(tell("{name}: has a password; save it without one", name=name))
    if "xl/workbook.xml" in names:
        yield from read_workbook(file, name, mapping, report)
    elif names & {"header.json", "_journal/start.json"}:
        report.reads = tell("log of inspect_ai")
        yield from read_log(archive, name, names)
    elif is_slack(names):
        report.reads = tell("export of Slack")
        yield from read_slack(names, name, lambda entry: unpack_entry(archive, entry, name))
    elif "content.xml" in names or "Index/Document.iwa" in names:
        raise UnreadableInput(tell("{name}: is a table of another program; save it as .xlsx", name=name))
    elif unpack is None:
        raise UnreadableInput(tell("{name}: is an archive in an archive; unpack it first", name=name))
    else:
        entry = choose_entry(sorted(names), name)
        for other in sorted(names - {entry}):
            report.leave(other, tell("another file is read"))
        with tempfile.TemporaryFile() as copy:
            extract(archive, entry, copy, name)
            yield from unpack(copy, f"{name}: {entry}")


def read_log(archive: zipfile.ZipFile, name: str, names: set[str]) -> Iterator[Record]:
    """The header and the samples of a log `.eval` of inspect_ai."""
    samples = sorted(entry for entry in names if entry.startswith("samples/") and entry.endswith(".json"))
    for entry in [*sorted(names & {"header.json"}), *samples]:
        where = f"{name}: {entry}"
        value = parse_json(decode(unpack_entry(archive, entry, name), where), where)
        if not isinstance(value, dict):
            raise UnreadableInput(tell("{where}: is not an object", where=where))
        if entry in samples:
            yield Record(where, value, prefix="samples[].")
        else:
            yield Record(where, {"eval": {}, **value})


def unpack_entry(archive: zipfile.ZipFile, entry: str, name: str) -> bytes:
    """An entry of an archive."""
    unpacked = io.BytesIO()
    extract(archive, entry, unpacked, f"{name}: {entry}")
    return unpacked.getvalue()


def decode(content: bytes, where: str) -> str:
    """A text in UTF-8; raises UnreadableInput."""
    try:
        return content.decode()
    except UnicodeError as error:
        raise UnreadableInput(tell("{where}: is damaged ({error})", where=where, error=type(error).__name__)) from None


def extract(archive: zipfile.ZipFile, entry: str, to: IO[bytes], where: str) -> None:
    """Unpacks an entry of an archive; raises UnreadableInput, and OSError where the disk is full."""
    try:
        with archive.open(entry) as source:
            copyfileobj(source, to)
    except NotImplementedError:
        raise UnreadableInput(
            tell("{where}: is compressed with Zstandard: pip install 'saiten[formats]'", where=where)
        ) from None
    except Exception as error:  # every compression has errors of its own
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise UnreadableInput(tell("{where}: is damaged ({error})", where=where, error=type(error).__name__)) from None


def read_workbook(file: IO[bytes], name: str, mapping: GivenMapping, report: Report) -> Iterator[Record]:
    """The records of the first sheet that has known headings in its first five rows; raises UnreadableInput."""
    try:
        import openpyxl
    except ImportError:
        raise UnreadableInput(
            tell("{name}: a workbook needs the extra packages: pip install 'saiten[formats]'", name=name)
        ) from None
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of decorations that it does not keep
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = choose_sheet(book, name, mapping)
            report.reads = tell("XLSX, sheet {title}", title=sheet.title)
            for other in book.sheetnames:
                if other != sheet.title:
                    report.leave(f"sheet {other}", tell("another sheet is read"))
            yield from read_table(read_sheet(sheet, name), name, mapping, report)
        except (UnreadableInput, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 - openpyxl raises all sorts of errors for a damaged workbook
            raise UnreadableInput(
                tell("{name}: is damaged ({error}); save it again as .xlsx", name=name, error=type(error).__name__)
            ) from None


def choose_sheet(book: Any, name: str, mapping: GivenMapping) -> Any:
    """The first sheet with known headings, else the only one with anything."""
    filled = []
    for sheet in book.worksheets:
        if sheet.sheet_state == "veryHidden":
            continue
        sheet.reset_dimensions()  # some programs state wrong ones
        known, seen, blank = 0, 0, 0
        for cells in read_sheet_rows(sheet, name):
            if all(cell is None for cell in cells):
                blank += 1
                if blank > 10_000:
                    break
                continue
            known = max(known, count_known([cell for cell in cells if isinstance(cell, str)], mapping))
            seen += 1
            if seen == HEADING_ROWS:
                break
        if known:
            return sheet
        filled += [sheet] if seen else []
    if not filled:
        raise UnreadableInput(
            tell("{name}: its sheets are empty; the first row of one should name the columns", name=name)
        )
    if len(filled) > 1:
        titles = ", ".join(sheet.title for sheet in filled)
        raise UnreadableInput(
            tell(
                "{name}: no sheet ({titles}) names its columns as context and response in its first {rows} rows; "
                "name them with --map response=COLUMN,context=COLUMN",
                name=name,
                titles=titles,
                rows=HEADING_ROWS,
            )
        )
    return filled[0]


def read_sheet(sheet: Any, name: str) -> Iterator[PlacedRow]:
    """The rows of a sheet. All cells that are merged in a column have the value, as a question beside two answers; a
    row that holds nothing else is a part of the one above."""
    merged = find_merged(sheet, name)
    under: dict[int, tuple[int, Any]] = {}
    for number, row in enumerate(read_sheet_rows(sheet, name)):
        if all(cell is None for cell in row):
            continue  # blank, as a million rows may be before one that is numbered so
        where = name_row(sheet, name, number + 1)
        cells = [unescape(cell, where) if isinstance(cell, str) else cell for cell in row]
        for column, (bottom, value) in list(under.items()):
            if number > bottom:
                del under[column]
            else:
                cells += [None] * (column + 1 - len(cells))
                cells[column] = value
        for column, bottom in merged.get(number, ()):
            if column < len(cells):
                under[column] = bottom, cells[column]
        yield where, cells


MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""Of a sheet, as Excel has them. A row or cell may state any number, and those before it are made as blank ones."""


def read_sheet_rows(sheet: Any, name: str) -> Iterator[tuple[Any, ...]]:
    """The cells of each row; raises UnreadableInput for a row, column or number that no sheet has."""
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > MOST_ROWS or len(row) > MOST_COLUMNS:
            raise UnreadableInput(
                tell(
                    "{where}: a sheet has at most {rows:,} rows and {columns:,} columns",
                    where=name_row(sheet, name, number),
                    rows=MOST_ROWS,
                    columns=MOST_COLUMNS,
                )
            )
        if any(isinstance(cell, float) and math.isinf(cell) for cell in row):
            raise UnreadableInput(tell("{where}: a number is not finite", where=name_row(sheet, name, number)))
        yield row


def name_row(sheet: Any, name: str, number: int) -> str:
    """Where a row is; it counts from 1."""
    return tell("{name}: sheet {title}, row {row}", name=name, title=sheet.title, row=number)


def unescape(text: str, where: str) -> str:
    """A text without the escapes of XLSX for control characters, such as `_x000D_`; raises UnreadableInput where one is
    half of a character."""
    if "_x" not in text:
        return text.replace("\r", "")
    plain = re.sub("_x([0-9A-F]{4})_", lambda found: chr(int(found[1], 16)), text).replace("\r", "")
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise UnreadableInput(
            tell("{where}: a string holds a lone surrogate, half of a character", where=where)
        ) from None


UNSAVED = re.compile(
    rb'<(?:\w+:)?c r="([A-Z]+\d+)"(?![^<>]*t="str")[^<>]*><(?:\w+:)?f\b[^<>]*(?:(?<=/)>|>[^<]*</(?:\w+:)?f>)'
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?</(?:\w+:)?c>"
)
"""A cell with a formula and no value, as a program leaves it that does not calculate."""


def find_merged(sheet: Any, name: str) -> dict[int, list[tuple[int, int]]]:
    """First row → (column, last row) of the ranges that are merged within a column. openpyxl tells them only with the
    whole sheet in memory. Raises UnreadableInput for a formula whose value was not saved, which would be read as blank.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    number = 0
    with sheet._get_source() as source:
        before = b""
        while (chunk := source.read(1 << 20)) and number < MOST_MERGED:
            text = before + chunk
            if unsaved := UNSAVED.search(text):
                raise UnreadableInput(
                    tell(
                        "{name}: sheet {title}, cell {cell}: the value of its formula was not saved; open the workbook "
                        "in a spreadsheet program and save it",
                        name=name,
                        title=sheet.title,
                        cell=unsaved[1].decode(),
                    )
                )
            for match in re.finditer(rb'<(?:\w+:)?mergeCell\s+ref="([A-Z]+\d+):([A-Z]+\d+)"', text):
                top, left = place_of(match[1].decode())
                bottom, right = place_of(match[2].decode())
                if match.end() > len(before) and left == right:
                    found.setdefault(top, []).append((left, bottom))
                    number += 1
            before = text[-200:]
    return found


def read_parquet(file: IO[bytes], name: str, kind: str, report: Report) -> Iterator[Record]:
    """The records of a Parquet or Arrow file, a few at a time. A process of its own reads them: what is damaged can end
    it."""
    if find_spec("arro3") is None:
        raise UnreadableInput(
            tell("{name}: {kind} needs the extra packages: pip install 'saiten[formats]'", name=name, kind=kind)
        )
    report.reads = kind
    file.seek(0)
    number = 0
    with open_descriptor(file) as readable:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, with fixed arguments
            [sys.executable, "-I", "-c", CHILD, *sys.path],
            stdin=readable,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        answers = cast("IO[bytes]", child.stdout)
        try:
            while (received := receive(answers)) is not None:
                names, columns = received
                if len({*names}) < len(names):
                    refuse_twins(names, name)
                for row in zip(*columns, strict=True):
                    number += 1
                    yield Record(tell("{name}: row {row}", name=name, row=number), dict(zip(names, row, strict=True)))
            if child.wait() != 0:
                raise UnreadableInput(
                    tell("{name}: is damaged after row {number}; write the file again", name=name, number=number)
                )
        finally:
            child.kill()
            child.wait()
            answers.close()


CHILD = "import sys; sys.path[:] = sys.argv[1:]; from saiten.core.formats.parquet import send; send()"


def receive(stream: IO[bytes]) -> tuple[list[str], list[list[Any]]] | None:
    """The next names and columns that the child process sends; None at its end."""
    try:
        found: tuple[list[str], list[list[Any]]] = pickle.load(stream)  # noqa: S301 - our own process wrote it
    except (EOFError, pickle.UnpicklingError):
        return None
    return found


@contextmanager
def open_descriptor(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The file as one with a descriptor that another process can read from the start."""
    with ExitStack() as stack:
        try:
            os.lseek(file.fileno(), 0, os.SEEK_SET)
        except OSError:  # a stream in memory
            copy = stack.enter_context(tempfile.TemporaryFile())
            copyfileobj(file, copy)
            copy.seek(0)
            file = copy
        yield file
