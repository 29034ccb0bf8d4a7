"""The index of texts: which candidates of a batch have a pair of characters. Words of any length are found in it, in
languages without spaces as in others, and on every database alike.

A gram is a number: that of two neighbouring characters, or a negative one for an entry of the metadata.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.batch import Candidate, Entry
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import can_store, equals
from saiten_server.runs.store.rows import RECEIVING, STATEMENT_ROWS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from saiten_server.runs.frame import Places

SEPARATOR = "\x1e"
"""Between the texts of a candidate. No text may hold it, so no search matches across two."""

BLOCK = 4096
"""Most candidates of a row of the index."""

SORTED_CHARACTERS = 1 << 16
"""Characters whose pairs are sorted together."""

WIDTH = 21
"""Bits of a character."""

MOST_GRAMS = 8
"""Pairs that are looked up of a search; what they leave is looked through."""

MOST_SEARCHED_PLACES = 2000
"""Places that are looked through by name; of more, the batch is."""

row, text, batch = t.text_grams.c, t.batch_texts.c, t.batches.c


def fold_text(given: str) -> str:
    """The text as it is searched: without differences of case and width (NFKC)."""
    if not given.isascii():
        if any(map(unicodedata.combining, set(given))):
            given = cut_mark_runs(given)
        given = unicodedata.normalize("NFKC", given)
    return given.casefold()


def searchable(entry: Entry, candidate: Candidate) -> str:
    """The text in which a search finds the candidate."""
    texts = (entry.item, *(utterance.text for utterance in candidate.context), candidate.response)
    # One by one: all of it at once would hold the interpreter for long.
    return SEPARATOR.join(map(fold_text, texts))


def name_entry(key: str, value: str) -> int:
    """The gram of an entry of the metadata."""
    return -(int.from_bytes(hashlib.sha256(f"{key}{SEPARATOR}{value}".encode()).digest()[:8]) >> 1) - 1


def list_grams(
    texts: Sequence[tuple[int, str]], metadata: Sequence[tuple[int, Mapping[str, str]]] = ()
) -> Iterator[tuple[int, int, bytes]]:
    """The grams of texts and metadata, both with their positions in ascending order: gram, first position and places,
    as `text_grams` holds them."""
    for start in range(0, len(texts), BLOCK):
        yield from list_block(texts[start : start + BLOCK], dict(metadata[start : start + BLOCK]))


def list_block(
    texts: Sequence[tuple[int, str]], metadata: Mapping[int, Mapping[str, str]]
) -> Iterator[tuple[int, int, bytes]]:
    """Those of at most `BLOCK` candidates, whose positions are less than 65,536 apart."""
    # numpy is loaded at the first batch, so that the service starts quickly.
    import numpy as np

    from saiten_server.stats.observations import list_distinct

    first = texts[0][0]
    # Sorted by gram, then by place, each pair once.
    pairs = list_distinct(np.concatenate([pair_characters(group, first) for group in cut_texts(texts)]))
    grams = pairs >> 16
    starts = np.flatnonzero(np.diff(grams, prepend=-1))
    held = (pairs & 0xFFFF).astype("<u2")
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(pairs)], strict=True):
        yield int(grams[start]), first, held[start:end].tobytes()
    named: dict[int, list[int]] = {}
    for position, entries in metadata.items():
        for key, value in entries.items():
            named.setdefault(name_entry(key, value), []).append(position - first)
    for gram, found in named.items():
        yield gram, first, np.array(found, dtype="<u2").tobytes()


def cut_texts(texts: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The texts with their separators, in groups of about `SORTED_CHARACTERS` characters: at once, long ones would hold
    the interpreter for long. A longer text is cut; each part begins with the last character of the one before."""
    group: list[tuple[int, str]] = []
    size = 0
    for position, one in texts:
        ended = one + SEPARATOR
        for start in range(0, max(1, len(one)), SORTED_CHARACTERS):
            part = ended[start : start + SORTED_CHARACTERS + 1]
            # Another part never follows one that has no separator, which is as long as a group may be.
            if group and size + len(part) > SORTED_CHARACTERS:
                yield group
                group, size = [], 0
            group.append((position, part))
            size += len(part)
    yield group


def pair_characters(group: Sequence[tuple[int, str]], first: int) -> NDArray[np.int64]:
    """Each pair of characters in the texts with the place of its text after `first`: sorted, each once."""
    import numpy as np

    from saiten_server.stats.observations import list_distinct

    joined = "".join(part for _, part in group)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    places = np.repeat([position - first for position, _ in group], [len(part) for _, part in group])
    within = codes[:-1] != ord(SEPARATOR)
    return list_distinct(((codes[:-1] << WIDTH | codes[1:]) << 16 | places[:-1])[within])


def describe_texts(
    batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of `batch_texts` and of `text_grams` for candidates in the order of their positions. It takes a few
    milliseconds for a hundred of them: not for an event loop."""
    if not candidates:
        return [], []
    texts = [(entry.position, searchable(entry, candidate)) for entry, candidate in candidates]
    metadata = [(entry.position, candidate.metadata) for entry, candidate in candidates]
    return (
        [{"batch_id": batch_id, "position": position, "text": one} for position, one in texts],
        [
            {"batch_id": batch_id, "gram": gram, "first": first, "places": places}
            for gram, first, places in list_grams(texts, metadata)
        ],
    )


async def remove_places(connection: AsyncConnection, batch_id: str, positions: Collection[int]) -> None:
    """Takes these candidates out of the batch's index, and removes what was made of its results."""
    import numpy as np

    await connection.execute(delete(t.run_frames).where(t.run_frames.c.batch_id == batch_id))
    gone, mine = np.array(sorted(positions), dtype=np.int64), row.batch_id == batch_id
    firsts = (await connection.execute(select(row.first).where(mine).distinct())).scalars().all()
    for first in firsts:
        if not ((gone >= first) & (gone < first + (1 << 16))).any():
            continue
        this = mine & (row.first == first)
        for found in (await connection.execute(select(row.gram, row.places).where(this))).all():
            held = np.frombuffer(found.places, dtype="<u2")
            left = held[~np.isin(held + np.int64(first), gone)]
            where = this & (row.gram == found.gram)
            if not len(left):
                await connection.execute(delete(t.text_grams).where(where))
            elif len(left) < len(held):
                await connection.execute(update(t.text_grams).where(where).values(places=left.tobytes()))


async def remove_index(connection: AsyncConnection, batch_id: str) -> None:
    """Removes the batch's index, and what was made of its results."""
    for table in (t.text_grams, t.run_frames):
        await connection.execute(delete(table).where(table.c.batch_id == batch_id))


class TextSearch:
    """Finds candidates by their texts and metadata. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(self, project: str, batch_id: str, wanted: str) -> Places:
        """The positions of the candidates whose item id, context or response holds the text; in order, shape (n,)."""
        import numpy as np

        folded, nothing = fold_text(wanted), np.empty(0, dtype=np.int32)
        if not folded or SEPARATOR in folded or not can_store(folded, batch_id, project):
            return nothing
        mine = (row.batch_id == batch_id) & is_of(project)
        found: Places | None = None
        for condition in index_conditions(folded):
            rows = await db.fetch(self._engine, select(row.first, row.places).where(mine, condition))
            places = join_places(rows)
            found = places if found is None else found[np.isin(found, places)]
            if not len(found):
                return nothing
        if found is None or len(folded) <= 2:
            return nothing if found is None else found
        # Pairs may stand apart from each other.
        holding = await self._look_through(batch_id, folded, found)
        return holding[np.isin(holding, found)]

    async def _look_through(self, batch_id: str, folded: str, found: Places) -> Places:
        """The positions of the texts that hold this one; of those found or of all."""
        import numpy as np

        look = func.strpos if db.file_of(self._engine) is None else func.instr
        query = select(text.position).where(text.batch_id == batch_id, look(text.text, folded) > 0)
        if len(found) > MOST_SEARCHED_PLACES:
            return np.array(await db.fetch_column(self._engine, query.order_by(text.position)), dtype=np.int32)
        holding: list[int] = []
        for some in db.cut_pieces(found.tolist(), STATEMENT_ROWS):
            holding += await db.fetch_column(self._engine, query.where(text.position.in_(some)))
        return np.array(sorted(holding), dtype=np.int32)

    async def find_entry(self, project: str, batch_id: str, key: str, value: str) -> Places:
        """The positions of the candidates whose metadata have the entry."""
        mine = (row.batch_id == batch_id) & is_of(project) & (row.gram == name_entry(key, value))
        if not can_store(batch_id, project):
            return join_places([])
        return join_places(await db.fetch(self._engine, select(row.first, row.places).where(mine)))

    async def list_batches(self, project: str, wanted: str, *, limit: int) -> Sequence[str]:
        """The batches that may hold the text, the newest first."""
        folded = fold_text(wanted)
        if not folded or not can_store(folded, project):
            return []
        here = exists().where(row.batch_id == batch.id)
        query = select(batch.id).where(
            batch.project == project,
            batch.status != RECEIVING,
            *(here.where(condition) for condition in index_conditions(folded)),
        )
        return await db.fetch_column(self._engine, query.order_by(batch.created_at.desc(), batch.id).limit(limit))


def is_of(project: str) -> ColumnElement[bool]:
    """The condition that a row of the index belongs to a batch of the project."""
    return exists().where(batch.id == row.batch_id, equals(batch.project, project), batch.status != RECEIVING)


def index_conditions(folded: str) -> list[ColumnElement[bool]]:
    """What the index says of candidates that hold the text: of a long one, of pairs spread over all of it."""
    if len(folded) == 1:
        # Every character begins a pair: the last of a text with the separator.
        return [row.gram.between(ord(folded) << WIDTH, (ord(folded) + 1 << WIDTH) - 1)]
    pairs = [*dict.fromkeys(pairwise(folded))]
    step = max(1, -(-len(pairs) // MOST_GRAMS))
    return [row.gram == (ord(one) << WIDTH | ord(other)) for one, other in pairs[::step]]


def join_places(rows: Iterable[Any]) -> Places:
    """The positions in rows of the index, each once and in order."""
    import numpy as np

    from saiten_server.stats.observations import list_distinct

    found = [np.frombuffer(each.places, dtype="<u2").astype(np.int32) + each.first for each in rows]
    return list_distinct(np.concatenate(found)) if found else np.empty(0, dtype=np.int32)
