"""The document of a batch, read as it arrives: options and items, each validated at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from saiten.core.messages import Message
from saiten.core.plain_text import is_korean
from saiten.core.strict_json import StrictJSONError, parse_line
from saiten_server.core.batch import BatchConversation, BatchItem, BatchOptions, GivenItem, count_candidates
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import MOST_FAULTS, RubricRequired
from saiten_server.core.evaluation import texts_of
from saiten_server.core.model import pointer
from saiten_server.core.validation import InvalidDocument, clip, fields_of, name_line, suggest, validate
from saiten_server.runs.streamed_json import (
    Element,
    IsAList,
    LineCutter,
    LineTooLong,
    Member,
    ReceivedText,
    ValueTooLarge,
    read_object,
)

ITEMS = "items"

ITEM_ONLY = frozenset({"context", "response", "responses", "turns"})
"""Fields of an item that no options have."""

ITEM_RUBRICS = ("ja-dialogue", "ko-dialogue", "ko-comment")
CONVERSATION_RUBRICS = ("ja-conversation", "ko-conversation", None)
"""The default rubric, one for Korean, and one for comments on Korean texts."""

OPTIONS_FIRST = Message("batch-options-first")


class BatchReader:
    """Reads a batch piece by piece: `feed` returns the items that are complete, `close` those left at the end.

    Raises StrictJSONError for invalid JSON, and InvalidDocument with up to `MOST_FAULTS` faults: at once where there
    are as many or where a limit is passed, else from `close`. After a fault no more items are returned. Memory: the
    largest item, of at most `limits.body_bytes` bytes, and what is fed at a time.
    """

    def __init__(self, limits: Limits, *, ndjson: bool) -> None:
        self._draft = Draft(limits)
        self._syntax = DocumentLines(self._draft, limits) if ndjson else Document(self._draft, limits)
        self._maximum = limits.batch_bytes
        self._bytes = 0

    @property
    def options(self) -> BatchOptions:
        """The options. There after `close`, and in NDJSON from the first line on; LookupError before."""
        if self._draft.options is None:
            raise LookupError("the options are not read yet")
        return self._draft.options

    def feed(self, data: bytes) -> list[GivenItem]:
        self._bytes += len(data)
        if self._bytes > self._maximum:
            self._draft.stop("", Message("batch-bytes-most", maximum=self._maximum))
        self._syntax.feed(data)
        return self._draft.collect()

    def close(self) -> list[GivenItem]:
        self._syntax.feed(b"", last=True)
        self._draft.finish()
        return self._draft.collect()


class Draft:
    """What is known of a batch so far: its options, items that are not collected yet, faults."""

    def __init__(self, limits: Limits) -> None:
        self.options: BatchOptions | None = None
        self.items = 0
        self._limits = limits
        self._candidates = 0
        self._ready: list[GivenItem] = []
        self._korean: list[int] = []
        self._conversations = False
        self._faults: list[tuple[str, Message]] = []

    def set_options(self, value: Any) -> None:
        """Validates the options."""
        try:
            self.options = validate(BatchOptions, value, self._limits)
        except InvalidDocument as error:
            self.refuse(error.faults)

    def add(self, value: Any, line: int = 0) -> None:
        """Validates the next item; its `line` from 1 is named in what is wrong with it."""
        number = self.items
        self.items += 1
        whole = isinstance(value, dict) and "turns" in value
        model: type[GivenItem] = BatchConversation if whole else BatchItem
        try:
            item = validate(model, value, self._limits)
        except InvalidDocument as error:
            self.refuse([(f"/{ITEMS}/{number}{where}", name_line(what, line)) for where, what in error.faults])
            return
        self._candidates += count_candidates(item)
        if self._candidates > self._limits.batch_items:
            self.stop(f"/{ITEMS}", Message("batch-candidates-most", maximum=self._limits.batch_items))
        # Whether an item needs a rubric to be named shows once the options are read, which may come last.
        named = self.options is not None and "rubric" in self.options.model_fields_set
        if isinstance(item, BatchConversation):
            self._conversations = self._conversations or number == 0  # the first one says what the batch holds
            texts = iter([turn.text for turn in item.turns])
        else:
            texts = texts_of(item.context, item.responses or (item.response or "",))
        if not named and len(self._korean) < MOST_FAULTS and is_korean(texts):
            self._korean.append(number)
        if not self._faults:
            self._ready.append(item)

    def stop(self, where: str, what: Message) -> NoReturn:
        """Raises InvalidDocument with this fault and those until now."""
        raise InvalidDocument([*self._faults, (where, what)])

    def refuse(self, faults: Sequence[tuple[str, Message]]) -> None:
        """Notes faults; raises InvalidDocument where they are many."""
        self._faults += faults
        self._ready.clear()
        if len(self._faults) >= MOST_FAULTS:
            raise InvalidDocument(self._faults[:MOST_FAULTS])

    def finish(self) -> None:
        """Raises InvalidDocument where anything is wrong, RubricRequired where the options must name a rubric."""
        if self._faults:
            raise InvalidDocument(self._faults)
        if self.options is None or "rubric" in self.options.model_fields_set:
            return
        default, other, comments = CONVERSATION_RUBRICS if self._conversations else ITEM_RUBRICS
        if self._korean:
            places = [f"/{ITEMS}/{number}" for number in self._korean]
            raise RubricRequired(places, default=default, other=other, comments=comments)
        self.options = self.options.model_copy(update={"rubric": default})

    def collect(self) -> list[GivenItem]:
        """The items that came in since the last call."""
        ready, self._ready = self._ready, []
        return ready


class Document:
    """One JSON object; `items` may stand anywhere among its members."""

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._maximum = limits.body_bytes
        self._window = ReceivedText(self._maximum)
        self._events: Iterator[Member | Element | None] = read_object(self._window, ITEMS)
        self._options: dict[str, Any] = {}
        self._items: Any = None
        self._has_items = False

    def feed(self, data: bytes, *, last: bool = False) -> None:
        self._window.add(data, last=last)
        try:
            self._read()
        except ValueTooLarge as error:
            self._draft.stop(pointer(error.where), Message("batch-member-bytes-most", maximum=self._maximum))
        except IsAList:
            self._draft.stop("", Message("must-be-object-with", name=ITEMS))
        if last:
            self._close()

    def _read(self) -> None:
        for event in self._events:
            if event is None:
                return
            if isinstance(event, Element):
                self._draft.add(event.value)
            elif event.key == ITEMS:
                self._has_items, self._items = True, event.value
            elif event.key in BatchOptions.model_fields:
                self._options[event.key] = event.value
            else:
                # At once, so that an unknown member's value is not kept.
                where = pointer([clip(event.key)])
                names = (ITEMS, *fields_of(BatchOptions))
                self._draft.refuse([(where, suggest(where, Message("unknown-field"), names))])

    def _close(self) -> None:
        self._draft.set_options(self._options)
        if not self._has_items:
            self._draft.refuse([(f"/{ITEMS}", Message("is-missing"))])
        elif not isinstance(self._items, list):
            self._draft.refuse([(f"/{ITEMS}", Message("must-be-list"))])
        elif self._draft.items == 0:
            self._draft.refuse([(f"/{ITEMS}", Message("must-hold-one"))])


class DocumentLines:
    """NDJSON: the options, then an item a line."""

    def __init__(self, draft: Draft, limits: Limits) -> None:
        self._draft = draft
        self._maximum = limits.body_bytes
        self._lines = LineCutter(limits.body_bytes)
        self._begun = False

    def feed(self, data: bytes, *, last: bool = False) -> None:
        try:
            for line in self._lines.feed(data, last=last):
                self._take(line, self._lines.number)
        except LineTooLong:
            where = f"/{ITEMS}/{self._draft.items}" if self._begun else ""
            what = Message("batch-member-bytes-most", maximum=self._maximum)
            self._draft.stop(where, name_line(what, self._lines.number + 1))
        if last:
            self._close()

    def _take(self, line: bytes, number: int) -> None:
        value = parse_line(line, number)
        if self._begun:
            self._draft.add(value, number)
        elif isinstance(value, dict) and not ITEM_ONLY.isdisjoint(value):
            self._draft.stop("", name_line(OPTIONS_FIRST, number))
        else:
            self._begun = True
            self._draft.set_options(value)

    def _close(self) -> None:
        if not self._begun:
            raise StrictJSONError(Message("batch-empty"))
        if self._draft.items == 0:
            self._draft.refuse([(f"/{ITEMS}", Message("must-hold-one"))])
