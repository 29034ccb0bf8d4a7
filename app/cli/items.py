"""Files of items: a JSON array or NDJSON, distinguished by the first character."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from app.domain.batch import BatchOptions, ItemId
from app.domain.clusters import ALONE, Trace, find_clusters, hash_beginnings, name_dialogue, name_found
from app.domain.dialogue import Limits
from app.domain.errors import RubricRequired
from app.domain.evaluation import EvaluationRequest, require_rubric
from app.domain.model import pointer
from app.domain.redaction import is_covered
from app.domain.validation import InvalidDocument, validate
from saiten.commands.files import InvalidItems, read_bytes, shorten_faults, split

TEXTS = ("context", "question", "response", "reference")
"""The fields of an item whose texts a policy may hash or drop."""

COVERED = "was dropped, hashed or erased: its project does not keep texts"


class Item(EvaluationRequest):
    """An evaluation with the caller's name for it, as a batch's items have one.

    `id` is only for the result. It is excluded from dumps, so it never reaches the service.
    """

    id: ItemId | None = Field(default=None, exclude=True)


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
