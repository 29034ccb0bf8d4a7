"""The corpus of `saiten attack`: a file of one's own, or the bundled one."""

from __future__ import annotations

from app.bundled import bundled_folder
from app.cli.items import InvalidItems, read_bytes, shorten_faults, split
from app.domain.attack import AttackItem
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.validation import InvalidDocument, validate

BUNDLED = "attacks.jsonl"


def read_corpus(path: str | None) -> tuple[str, list[AttackItem]]:
    """The corpus's name and items. Raises InvalidItems that names line and field, or two items of one id.

    All or nothing: shares of a corpus that leaves out what could not be read have another denominator than they say.
    """
    if path is None:
        name, body = "bundled", bundled_folder(BUNDLED).read_bytes()
    else:
        name, body = ("standard input" if path == "-" else path), read_bytes(path)
    items, faults = [], []
    seen: dict[str, str] = {}
    for where, value in split(name, body):
        try:
            item = validate(AttackItem, value, DEFAULT_LIMITS)
        except InvalidDocument as error:
            faults += [f"{where}: {pointer or 'the item'}: {detail}" for pointer, detail in error.faults]
            continue
        if item.id in seen:
            faults.append(f"{where}: /id: is the id of {seen[item.id]} too")
        seen.setdefault(item.id, where)
        items.append(item)
    if faults:
        raise InvalidItems(shorten_faults(faults))
    if not items:
        raise InvalidItems(f"{name}: no items; expected a JSON array or one JSON object a line")
    return name, items
