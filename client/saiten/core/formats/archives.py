"""ZIP archives, where it is installed also those compressed with Zstandard: logs of inspect_ai are; and gzip."""

from __future__ import annotations

import errno
import gzip
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from saiten.core.formats.errors import UnreadableInput
from saiten.core.language import tell

if not TYPE_CHECKING:
    with suppress(ImportError):
        from backports.zstd import zipfile  # Python reads Zstandard itself from 3.14 on

__all__ = ["FULL", "choose_entry", "open_gzip", "refuse_large", "zipfile"]

FULL = {errno.ENOSPC, errno.EDQUOT}
"""Of a disk on which there is no room for what is unpacked: the archive is not the one to blame."""

MOST_UNPACKED = 512 * 1024 * 1024
"""Bytes that a workbook or an archive may hold, unpacked."""

MOST_TIMES = 200
"""How many times its size an archive above a megabyte may hold: texts reach 20."""

MOST_NAMED = 10
CHUNK_BYTES = 1 << 20
DATA_ENDINGS = (
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".xlsx",
    ".parquet",
    ".arrow",
    ".yaml",
    ".yml",
    ".eval",
)
"""How files with data end."""

OF_CHATGPT = "conversations.json"
"""What counts in the archive that ChatGPT exports, among others."""


def refuse_large(unpacked: int, packed: int, name: str) -> None:
    """Raises UnreadableInput where an archive of `packed` bytes holds too many."""
    if unpacked > MOST_UNPACKED or unpacked > max(1 << 20, MOST_TIMES * packed):
        raise UnreadableInput(
            tell(
                "{name}: unpacks to {unpacked:,} bytes, more than is read; save it as CSV or NDJSON",
                name=name,
                unpacked=unpacked,
            )
        )


def choose_entry(names: Sequence[str], name: str) -> str:
    """The only file with data in an archive; raises UnreadableInput where there is none, or several."""
    if OF_CHATGPT in names:
        return OF_CHATGPT
    parts = {entry: entry.split("/") for entry in names if entry.lower().endswith(DATA_ENDINGS)}
    data = [entry for entry, path in parts.items() if path[0] != "__MACOSX" and not path[-1].startswith(".")]
    if len(data) == 1:
        return data[0]
    if not data:
        raise UnreadableInput(tell("{name}: is an archive without a table, NDJSON or JSON in it", name=name))
    shown = ", ".join(data[:MOST_NAMED]) + (" …" if len(data) > MOST_NAMED else "")
    raise UnreadableInput(
        tell("{name}: holds several files ({names}); unpack it and give one of them", name=name, names=shown)
    )


@contextmanager
def open_gzip(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The unpacked file; raises UnreadableInput for one that is damaged, or holds too much, and OSError where the disk
    is full."""
    packed = file.seek(0, 2)
    file.seek(0)
    with tempfile.TemporaryFile() as copy:
        try:
            with gzip.GzipFile(fileobj=file) as source:
                while chunk := source.read(CHUNK_BYTES):
                    copy.write(chunk)
                    refuse_large(copy.tell(), packed, name)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            raise UnreadableInput(tell("{name}: is damaged: {error}", name=name, error=error)) from None
        copy.seek(0)
        yield copy
