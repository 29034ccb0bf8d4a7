"""Files of items: a JSON array or NDJSON, distinguished by the first character."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click
from pydantic import Field

from app.domain.batch import BatchOptions, ItemId
from app.domain.clusters import ALONE, Trace, find_clusters, hash_beginnings, name_dialogue, name_found
from app.domain.dialogue import Limits
from app.domain.errors import RubricRequired
from app.domain.evaluation import EvaluationRequest, require_rubric
from app.domain.model import pointer
from app.domain.plain_text import printable
from app.domain.redaction import is_covered
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.domain.validation import InvalidDocument, validate

MOST_SHOWN = 5
TEXTS = ("context", "question", "response", "reference")
"""The fields of an item whose texts a policy may hash or drop."""

COVERED = "was dropped, hashed or erased: its project does not keep texts"


class Item(EvaluationRequest):
    """An evaluation with the caller's name for it, as a batch's items have one.

    `id` is only for the result. It is excluded from dumps, so it never reaches the service.
    """

    id: ItemId | None = Field(default=None, exclude=True)


class InvalidItems(click.ClickException):
    """Input that cannot be used; the message names its place."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"saiten: {self.message}", file=file, err=file is None)


def read_items(
    path: str, defaults: dict[str, Any], limits: Limits, *, judge: Mapping[str, Any] | None = None
) -> list[Item]:
    """All items of FILE, or of standard input for `-`; raises InvalidItems that names line or item and field.

    `defaults` are for items that do not name them, `judge` the same for the options in an item's `judge`.
    All or nothing: a run without its unreadable items would have another denominator than it states.
    """
    body = read_bytes(path)
    name = "standard input" if path == "-" else path
    requests, faults = [], []
    values = split(name, body)
    refuse_options(name, values)
    for where, value in values:
        if not isinstance(value, dict):
            faults.append(f"{where}: an item is a JSON object with context and response")
            continue
        try:
            refuse_covered(value)
            asked = {**defaults, **value}
            if judge and isinstance(own := asked.get("judge", {}), dict):
                asked["judge"] = {**judge, **own}
            request = validate(Item, asked, limits)
            require_rubric(request)
            requests.append(request)
        except (InvalidDocument, RubricRequired) as error:
            faults += [f"{where}: {pointer or 'the item'}: {detail}" for pointer, detail in error.faults]
    if faults:
        raise InvalidItems(shorten_faults(faults))
    if not requests:
        raise InvalidItems(f"{name}: no items; expected a JSON array or one JSON object a line")
    return requests


def find_dialogues(items: Sequence[EvaluationRequest]) -> list[str | None]:
    """The digest of the dialogue that each item is a turn of, as a batch's intake finds it; None stands alone."""
    owner = secrets.token_hex(8)
    traces = [Trace(1, hash_beginnings(item.context) if item.dialogue is None else []) for item in items]
    found = find_clusters(lambda: traces)
    return [
        name_dialogue(item.dialogue)
        if item.dialogue is not None
        else None
        if cluster == ALONE
        else name_found(owner, cluster)
        for item, cluster in zip(items, found, strict=True)
    ]


def refuse_covered(value: Any) -> None:
    """Raises InvalidDocument where a text of the item was hashed, dropped or erased, so that it cannot be judged."""
    if not isinstance(value, dict):
        return
    texts = list_texts({name: value[name] for name in TEXTS if name in value})
    faults = [(pointer(where), COVERED) for where, text in texts if is_covered(text)]
    if faults:
        raise InvalidDocument(faults)


def list_texts(value: Any, *where: str | int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text in a JSON value, with its place."""
    if isinstance(value, str):
        yield where, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from list_texts(part, *where, name)


def holds_options(values: Sequence[tuple[str, Any]]) -> bool:
    """Whether the first value holds the options of a batch, as in the body of POST /v1/batches."""
    first = values[0][1] if len(values) > 1 else None
    return isinstance(first, dict) and bool(first) and first.keys() <= BatchOptions.model_fields.keys()


def refuse_options(name: str, values: Sequence[tuple[str, Any]]) -> None:
    """Raises InvalidItems for the file of a batch, whose options would be ignored."""
    if holds_options(values):
        place = values[0][0].removeprefix(name).lstrip(": ")
        line = f"line {place}" if place.isdecimal() else place
        raise InvalidItems(
            f"{name}: {line} holds a batch's options; post this file to /v1/batches, or give it to saiten gate"
        )


def shorten_faults(faults: Sequence[str], total: int | None = None, *, given_up: bool = False) -> str:
    """The first few faults, one per line, and how many more there are.

    `total` counts faults that are not passed too; where reading was `given_up`, there are at least that many.
    """
    more = (len(faults) if total is None else total) - MOST_SHOWN
    rest = f"… and at least {more:,} more: the rest was not read" if given_up else f"… and {more} more"
    shown = [*faults[:MOST_SHOWN], *([rest] if more > 0 else [])]
    return "\n".join(map(printable, shown))


def read_bytes(path: str) -> bytes:
    """The bytes of the file, or of standard input; raises InvalidItems where they cannot be read."""
    if path == "-" and sys.stdin is None:
        raise InvalidItems("standard input is closed; name a file, or give the items with `<`")
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        name = "standard input" if path == "-" else path
        raise InvalidItems(f"{name}: {error.strerror}") from None


def split(path: str, body: bytes) -> list[tuple[str, Any]]:
    """(where, value) of each item."""
    if body.lstrip()[:1] == b"[":
        items = parse(path, body)
        return [(f"{path}: item {position}", item) for position, item in enumerate(items, start=1)]
    lines = enumerate(body.splitlines(), start=1)
    return [(f"{path}:{number}", parse(f"{path}:{number}", line)) for number, line in lines if line.strip()]


def parse(where: str, document: bytes) -> Any:
    """One JSON document; raises InvalidItems."""
    try:
        return parse_strict_json(document)
    except StrictJSONError as error:
        raise InvalidItems(f"{where}: {error}") from None
