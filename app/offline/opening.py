"""Reads the texts of single results from files, for a service, in a process of its own: see `adopting`.

    python -I -m saiten_server.offline.opening ADDRESS < KEYS

KEYS is a JSON list of the keys of results. Writes NDJSON: `{"key", "texts"}` for each that is there, and last
`{"problem": null}` or a code of `PROBLEMS`. Row groups whose statistics exclude the keys are not read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.offline.adopting import FILE_TEXTS, limit_memory, write
from saiten_server.offline.opened_files import FramePart, find_statistics, gather_files, is_text, list_parts, named

KEY_COLUMN = "key"
MOST_READ_BYTES = 128 << 20
"""Of compressed columns that one look may read."""

MOST_TEXT_BYTES = 2 << 20
"""Of one result's texts."""

MOST_TOLD_BYTES = 16 << 20
"""Of all texts that one look returns."""

TEXT_ROWS = 128
PROBLEMS = ("gone", "large", "unreadable")


class TooLarge(Exception):
    """More would have to be read or told than one look may."""


class ReadingAllowance:
    """What a look may still read."""

    def __init__(self, most_bytes: int = MOST_READ_BYTES) -> None:
        self._left_bytes = most_bytes

    def take(self, part: FramePart, group: int, names: Sequence[str]) -> None:
        """Takes what these columns of a row group need. Raises TooLarge."""
        about = part.footer.row_group(group)
        self._left_bytes -= sum(about.column(part.leaves[name]).total_compressed_size for name in names)
        if self._left_bytes < 0:
            raise TooLarge


def main(address: str) -> None:
    """Writes what the files hold of the keys on standard input."""
    limit_memory()
    problem = None
    try:
        told = 0
        for key, texts in read_written_texts(address, json.load(sys.stdin)):
            size = sum(len(text.encode(errors="replace")) for text in texts.values())
            told += size
            if size > MOST_TEXT_BYTES or told > MOST_TOLD_BYTES:
                raise TooLarge
            write({"key": key, "texts": texts})
    except TooLarge:
        problem = "large"
    except InvalidRequest as error:
        problem = "gone" if error.message.id == "frame-files-none" else "unreadable"
    except SaitenError:
        problem = "unreadable"
    write({"problem": problem})


def read_written_texts(address: str, keys: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The keys that are there, each once, with the texts by column. Raises InvalidRequest and TooLarge."""
    wanted, allowance = {*keys}, ReadingAllowance()
    for called, opens in list_parts(address, inside=True):
        if wanted and may_hold(called, wanted):
            for part in gather_files(address, [(called, opens)]).parts:
                for key, texts in read_part_texts(part, wanted, allowance):
                    wanted.discard(key)
                    yield key, texts


def may_hold(name: str, keys: set[str]) -> bool:
    """Whether a file may hold one of the keys, by the folder `prefix=…` that it is in."""
    _, found, rest = name.rpartition("prefix=")
    return not found or any(key.startswith(rest.partition("/")[0]) for key in keys)


def read_part_texts(
    part: FramePart, keys: set[str], allowance: ReadingAllowance
) -> Iterator[tuple[str, dict[str, str]]]:
    """What one file holds of the keys."""
    import pyarrow.parquet as pq

    if KEY_COLUMN not in part.leaves:
        return
    names = [
        one.name
        for one in part.schema
        if one.name.partition(".")[0] in FILE_TEXTS and one.name in part.leaves and is_text(one.type)
    ]
    with pq.ParquetFile(part.open(), metadata=part.footer, pre_buffer=False) as file:
        for group in range(part.footer.num_row_groups):
            here = select_keys(part, group, keys)
            if not here:
                continue
            with named(part.name, group):
                allowance.take(part, group, [KEY_COLUMN])
                places = find_rows(file, group, here)
                if places:
                    allowance.take(part, group, names)
                    yield from read_rows_at(file, group, places, names)


def select_keys(part: FramePart, group: int, keys: set[str]) -> set[str]:
    """The keys that a row group may hold, by its statistics."""
    found = find_statistics(part, group, KEY_COLUMN)
    if found is None or not found.has_min_max or not isinstance(found.min, str):
        return {*keys}
    return {key for key in keys if found.min <= key <= found.max}


def find_rows(file: Any, group: int, keys: set[str]) -> dict[int, str]:
    """The rows of a row group with these keys, in order: of each key the first."""
    places: dict[int, str] = {}
    left, first = {*keys}, 0
    for batch in file.iter_batches(1 << 14, row_groups=[group], columns=[KEY_COLUMN], use_threads=False):
        for place, key in enumerate(batch.column(0).to_pylist(), start=first):
            if key in left:
                left.discard(key)
                places[place] = key
        first += batch.num_rows
        if not left:
            break
    return places


def read_rows_at(
    file: Any, group: int, places: dict[int, str], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The texts of these rows; those before them are read and left out."""
    if not names:
        yield from ((key, {}) for key in places.values())
        return
    first, last = 0, max(places)
    for batch in file.iter_batches(TEXT_ROWS, row_groups=[group], columns=[*names], use_threads=False):
        for place in range(first, min(first + batch.num_rows, last + 1)):
            if place in places:
                [row] = batch.slice(place - first, 1).to_pylist()
                yield places[place], {name: text for name, text in row.items() if isinstance(text, str)}
        first += batch.num_rows
        if first > last:
            return


if __name__ == "__main__":
    main(sys.argv[1])
