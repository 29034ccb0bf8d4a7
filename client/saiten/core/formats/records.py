"""One record of the input, which remembers what became of each of its fields."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.report import Report
from saiten.core.language import tell

MOST_LITERAL = 1_000_000
"""Characters of a cell that is read as a literal of Python."""

DEPTH = 12
"""Levels below which a value is reported as a whole."""


@dataclass
class Record:
    """A JSON object, or a row of a table by its headings; `where` names its place for a message.

    Fields are named by paths such as `messages[].content`. What no one asked for is left out, and told so.
    """

    where: str
    value: dict[str, Any]
    prefix: str = ""
    """The path of this record in the document it is a part of."""
    moved: dict[str, str] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)
    entered: list[str] = field(default_factory=list)
    answered: bool = True
    """Whether its item must have a response."""

    def get(self, path: str) -> Any:
        """The value at a path of keys, such as `data.output`; None where there is none."""
        if path in self.value:
            return self.value[path]
        value: Any = self.value
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def parse(self, path: str) -> Any:
        """The value at a path; a text that is a JSON list or object, as CSV and spans hold them, is replaced by it."""
        value = self.get(path)
        parsed = parse_cell(value)
        if parsed is not value:
            holder, key = self.value, path
            while key not in holder and "." in key:
                start, _, key = key.partition(".")
                holder = holder[start]
            holder[key] = parsed
        return parsed

    def enter(self, path: str) -> list[Any]:
        """The list at a path, whose elements become records of their own."""
        value = self.get(path)
        if not isinstance(value, list):
            return []
        self.entered.append(path)
        return value

    def move(self, path: str, target: str) -> None:
        """Notes that the field, with all below it, went into the item."""
        self.moved[path] = target

    def leave(self, path: str, why: str) -> None:
        """Notes that something of the field did not go into the item."""
        self.left.append((path, why))

    def close(self, report: Report) -> None:
        """Tells the report what became of every field that holds something."""
        covered = {*self.moved, *self.entered, *(path for path, _ in self.left)}
        for path, target in self.moved.items():
            report.move(self.prefix + path, target)
        for path, why in dict.fromkeys(self.left):
            report.leave(self.prefix + path, why)
        for path in dict.fromkeys(find_paths(self.value, covered)):
            report.leave(self.prefix + path)


def find_paths(value: Any, covered: set[str], path: str = "", depth: int = 0) -> Iterator[str]:
    """The path of every value that holds something, except at and below the covered ones."""
    if path in covered or is_blank(value):
        return
    if isinstance(value, dict) and depth < DEPTH:
        for key, part in value.items():
            yield from find_paths(part, covered, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and depth < DEPTH:
        for part in value:
            yield from find_paths(part, covered, f"{path}[]", depth + 1)
    else:
        yield path


def is_blank(value: Any) -> bool:
    """Whether a value says nothing: null, NaN, white space, or an empty list or object."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or value in ([], {})


def write_text(value: Any) -> str | None:
    """A cell as text: numbers without `.0`, dates as in ISO 8601, nothing for what is blank; None for other values."""
    if is_blank(value):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        whole = abs(float(value)) < 2**53 and int(value) == value
        return str(int(value) if whole else value)
    if isinstance(value, datetime) and value.time() == time() and value.tzinfo is None:
        value = value.date()
    return value.isoformat() if isinstance(value, date | time) else None


def parse_cell(value: Any) -> Any:
    """The value of a text that is a JSON list or object, as CSV holds them; any other value unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return parse_json(value, "")
    except UnreadableInput:
        pass
    if "'" not in value or len(value) > MOST_LITERAL:
        return value
    try:
        found = ast.literal_eval(value.strip())  # as pandas writes lists and objects to CSV
        json.dumps(found, default=str, skipkeys=True, allow_nan=False)  # a ValueError where a number became infinite
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return value
    return found


def list_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, also of one that a cell holds as text; none of anything else."""
    found = parse_cell(value)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def parse_text(value: Any) -> Any:
    """The text of a JSON string, as traces of MLflow hold what went in and came out; any other value unchanged."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        with suppress(UnreadableInput):
            return parse_json(value, "")
    return value


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text; raises UnreadableInput for what two readers would read differently."""
    return parse_documents(text, where, most=1)[0]


SPACE = re.compile(r"[ \t\r\n]*")


def parse_documents(text: str, where: str, most: int | None = None) -> list[Any]:
    """The values of JSON texts behind each other, as `jq` writes them; raises as parse_json does."""
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: make_object(pairs, where),
        parse_int=read_integer,
        parse_float=read_float,
        parse_constant=read_constant,
    )
    value: list[Any] = []
    try:
        start = skip_space(text, 0)
        while not value or start < len(text):
            if len(value) == most:
                raise json.JSONDecodeError("Extra data", text, start)
            found, end = decoder.raw_decode(text, start)
            value.append(found)
            start = skip_space(text, end)
    except json.JSONDecodeError as error:
        place = f" at line {error.lineno}" if error.lineno > 1 else ""
        raise UnreadableInput(
            tell(
                "{where}: is not valid JSON: {msg}{place} column {colno}",
                where=where,
                msg=error.msg,
                place=place,
                colno=error.colno,
            )
        ) from None
    except NumberTooLarge:
        raise UnreadableInput(tell("{where}: a number is not finite", where=where)) from None
    except RecursionError:
        raise UnreadableInput(tell("{where}: is nested too deeply", where=where)) from None
    if "\\u" in text:
        refuse_surrogates(text, value, where)
    return value


def skip_space(text: str, place: int) -> int:
    """The place of the next character that is no white space of JSON."""
    space = SPACE.match(text, place)
    return space.end() if space else place


def make_object(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """An object of JSON; raises UnreadableInput for duplicate keys."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableInput(tell("{where}: an object holds the same key twice", where=where))
    return found


class NumberTooLarge(ArithmeticError):
    """A number is larger than any that can be stored. Not a ValueError, which a damaged document raises."""


def read_integer(digits: str) -> int | float:
    """An integer, or a float where it has so many digits that reading them exactly would take long; raises
    NumberTooLarge."""
    return int(digits) if len(digits) <= 20 else read_float(digits)


def read_float(digits: str) -> float:
    """A number that is finite; raises NumberTooLarge."""
    number = float(digits)
    if math.isinf(number):
        raise NumberTooLarge
    return number


def read_constant(name: str) -> float:
    """NaN, which pandas writes for a cell without a value; raises NumberTooLarge for the infinities."""
    return read_float(name.replace("Infinity", "inf"))


def refuse_surrogates(text: str, value: Any, where: str) -> None:
    """Raises UnreadableInput where the value, read from `text`, holds half a character."""
    if "\\ud" not in text.lower():
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableInput(
            tell("{where}: a string holds a lone surrogate, half of a character", where=where)
        ) from None
    except RecursionError:
        raise UnreadableInput(tell("{where}: is nested too deeply", where=where)) from None


def refuse_infinite(record: Record) -> None:
    """Raises UnreadableInput where the record holds a number that JSON has not."""
    try:
        json.dumps(record.value, allow_nan=False)
    except ValueError:
        raise UnreadableInput(tell("{where}: a number is not finite", where=record.where)) from None
    except RecursionError:
        raise UnreadableInput(tell("{where}: is nested too deeply", where=record.where)) from None
