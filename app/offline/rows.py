"""Rows of an Arrow table as the items that batches hold, each with the key that its result is stored under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.batch import (
    BatchConversation,
    BatchItem,
    Candidate,
    Entry,
    Failure,
    describe_failure,
    list_candidates,
)
from saiten_server.core.dialogue import Limits, digest_context
from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.core.model import canonical_json
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import validate
from saiten_server.runs.clusters import name_dialogue
from saiten_server.runs.estimates import digest_texts
from saiten_server.runs.summary import BUILD, SYSTEM

if TYPE_CHECKING:
    import pyarrow as pa

IN_METADATA = (SYSTEM, BUILD)
"""Columns that become entries of the metadata, where these have none."""

ITEM = tuple(BatchItem.model_fields)
CONVERSATION = tuple(BatchConversation.model_fields)
NESTED = frozenset({"context", "turns", "responses", "reference", "persona", "metadata"})
"""Columns that may hold JSON in a text, as tables without nested types do."""

TABLE_ROWS = 256
"""Rows of a table that are held as Python values at once."""

MOST_DIGESTED = 100_000
"""Characters of an unusable row that its key depends on."""

NUMBER_DIGITS = 16
"""Hexadecimal digits of the digest that names an item without an id."""


class Row(NamedTuple):
    """One response or conversation of a table. `number` counts the table's results from 0, and `failure` says why there
    is no candidate."""

    number: int
    key: str
    entry: Entry
    candidate: Candidate | None
    failure: Failure | None = None


def find_columns(names: list[str], unit: str, where: str) -> tuple[str, ...]:
    """The columns that are read of a table with these. Raises InvalidRequest, which names `where`, if some that an item
    needs are not there, or one is there twice."""
    if unit == "conversation":
        wanted, needed = CONVERSATION, "turns"
        usable = "turns" in names
    else:
        wanted, needed = ITEM, "context, response"
        usable = "context" in names and not {"response", "responses"}.isdisjoint(names)
    if not usable:
        shown = ", ".join(name[:64] for name in names[:20])
        raise InvalidRequest(Message("offline-columns", where=where, needed=needed, columns=shown))
    found = tuple(name for name in (*wanted, *IN_METADATA) if name in names)
    if twice := next((name for name in found if names.count(name) > 1), None):
        raise InvalidRequest(Message("offline-column-twice", where=where, column=twice))
    return found


class RowReading:
    """Reads rows by this rubric. `settings` is the digest of what they are scored with, and numbers count on over all
    that is read."""

    def __init__(self, rubric: Rubric, settings: str, limits: Limits) -> None:
        self.rubric = rubric
        self._settings = settings
        self._limits = limits
        self._number = 0
        self._model: type[BatchItem | BatchConversation] = BatchItem
        self._names = frozenset((*ITEM, *IN_METADATA))
        if rubric.unit == "conversation":
            self._model, self._names = BatchConversation, frozenset((*CONVERSATION, *IN_METADATA))

    def read(self, cells: Mapping[str, Any], where: str) -> list[Row]:
        """The candidates of one row, or a single failure that says `where` the row is no item."""
        try:
            value = {name: open_text(name, cell) for name, cell in cells.items() if name in self._names}
            item = validate(self._model, add_metadata(drop_nulls(value)), self._limits)
        except SaitenError as error:
            return [self.refuse(cells, where, error)]
        first, named = self._number, item.id is not None
        placed = [place_candidate(entry, one, named, self._settings) for entry, one in list_candidates(item, 0, first)]
        self._number += len(placed)
        return placed

    def refuse(self, cells: Mapping[str, Any], where: str, error: SaitenError) -> Row:
        """The failure that stands for a row that is no item."""
        given = cells.get("id")
        shown = repr(sorted(cells.items(), key=lambda cell: cell[0]))[:MOST_DIGESTED] if cells else where
        key = digest_texts(part.encode(errors="replace") for part in (self._settings, shown)).hex()
        named = given if isinstance(given, str) and 0 < len(given) <= self._limits.item_id_characters else None
        item = named or key[:NUMBER_DIGITS]
        entry = Entry(position=self._number, item=item, candidate=None, ids_given=named is not None)
        self._number += 1
        fault = Message("fault-at", where=where, fault=error.message)
        return Row(entry.position, key, entry, None, describe_failure(InvalidRequest(fault)))


def read_rows(table: pa.Table, reading: RowReading, where: str) -> Iterator[Row]:
    """The rows of a table in order: of an item with several responses one for each. Raises InvalidRequest, which
    names `where`, if the table lacks columns."""
    names = find_columns(table.column_names, reading.rubric.unit, where)
    place = 0
    for batch in table.select(list(names)).to_batches(TABLE_ROWS):
        for cells in batch.to_pylist(maps_as_pydicts="lossy"):
            yield from reading.read(cells, f"{where}, row {place}")
            place += 1


def place_candidate(entry: Entry, candidate: Candidate, named: bool, settings: str) -> Row:
    """The candidate with its key and its place. An item without an id is named by its context or its turns, so that its
    name does not depend on where it stands."""
    context = digest_context(candidate.context) if candidate.roles is None else None
    key = digest_row(settings, entry.item if named else "", entry.candidate, candidate)
    placed = entry.model_copy(
        update={
            "item": entry.item if named else context or key[:NUMBER_DIGITS],
            "cluster": None if entry.dialogue is None else name_dialogue(entry.dialogue),
            "ids_given": named,
            "context_digest": context,
        }
    )
    return Row(entry.position, key, placed, candidate)


def digest_row(settings: str, item: str, number: int | None, candidate: Candidate) -> str:
    """The key of a row, 32 hexadecimal digits: of everything that the judge is shown, of what it is a result of (the
    item's id, the number of the response, the dialogue, system and build), and of what it is scored with."""
    metadata = candidate.metadata
    whose = [settings, item, "" if number is None else str(number), candidate.dialogue or ""]
    whose += [metadata.get(name, "") for name in IN_METADATA]
    said = [part for one in candidate.context for part in (one.speaker, one.text)]
    rest = [candidate.response, candidate.speaker or "", ",".join(candidate.roles or ()), candidate.goal or ""]
    rest += ["" if candidate.persona is None else canonical_json(candidate.persona), *(candidate.reference or ())]
    return digest_texts(part.encode() for part in (*whose, str(len(said)), *said, *rest)).hex()


def open_text(name: str, cell: Any) -> Any:
    """The cell; of a text in a nested column the JSON in it. Raises InvalidRequest for one that is none."""
    if name not in NESTED or not isinstance(cell, str) or not cell.lstrip().startswith(("[", "{")):
        return cell
    try:
        return parse_strict_json(cell.encode())
    except (StrictJSONError, UnicodeEncodeError):
        raise InvalidRequest(Message("offline-cell-json", column=name)) from None


def drop_nulls(value: Any) -> Any:
    """The value without members that are null: a struct has all fields in every row. A list keeps its elements."""
    if isinstance(value, dict):
        return {key: drop_nulls(part) for key, part in value.items() if part is not None}
    return [drop_nulls(part) for part in value] if isinstance(value, list) else value


def add_metadata(value: dict[str, Any]) -> dict[str, Any]:
    """The item with columns of `IN_METADATA` among its metadata."""
    own = {name: value.pop(name) for name in IN_METADATA if name in value}
    return {**value, "metadata": {**own, **value.get("metadata", {})}} if own else value
