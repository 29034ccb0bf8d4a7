"""What a notebook shows of an answer: figures and texts as plain HTML tables, escaped, with nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from pydantic import BaseModel

from saiten.core.figures import write_figure

MOST_ROWS = 30
MOST_CELL_CHARACTERS = 200

TableRow = Sequence[str | None]


def render_answer(answer: BaseModel) -> str:
    """The answer's own values, and a table for each of the collections in it, also those of an answer within it."""
    own = [(name, cell) for name, value in answer if (cell := write_cell(value)) is not None]
    tables = [render_table(type(answer).__name__, (), own)]
    for name, value in answer:
        tables += render_parts(name, value)
        if isinstance(value, BaseModel):
            tables += [part for inner, found in value for part in render_parts(f"{name}.{inner}", found)]
    return "".join(tables)


def render_parts(name: str, value: object) -> Iterator[str]:
    """A table where the value is a collection of answers or of values with something in it."""
    parts = list_parts(value)
    models = [{head: write_cell(found) for head, found in part} for _, part in parts if isinstance(part, BaseModel)]
    if models and len(models) == len(parts):
        heads = list(dict.fromkeys(head for row in models for head, cell in row.items() if cell))
        rows = [(key, *(row.get(head) for head in heads)) for (key, _), row in zip(parts, models, strict=True)]
        yield render_table(name, ("", *heads), rows)
    elif any(write_cell(part) for _, part in parts):
        yield render_table(name, (), [(key, write_cell(part)) for key, part in parts])


def list_parts(value: object) -> list[tuple[str, Any]]:
    """The parts of a collection with their names, or numbers from 1; none of what fits a cell."""
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and write_cell(value) is None:
        return [(str(number), part) for number, part in enumerate(value, 1)]
    return []


def render_table(caption: str, heads: Sequence[str], rows: Sequence[TableRow]) -> str:
    """The rows, of each of which the first cell is its head."""
    lines = [render_row("th", heads)] if heads else []
    lines += [render_row("td", row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(render_row("td", (f"… and {len(rows) - MOST_ROWS} more",)))
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def render_row(tag: str, row: TableRow) -> str:
    """The first cell is a head; the others are of this tag."""
    first, *others = (escape(cell or "") for cell in row)
    return f"<tr><th>{first}</th>{''.join(f'<{tag}>{cell}</{tag}>' for cell in others)}</tr>"


def write_cell(value: Any) -> str | None:
    """A value that fits a cell; None for one that is empty or has parts of its own."""
    if isinstance(value, float):
        return write_figure(value)
    if isinstance(value, str | int | datetime):
        text = str(value)
        return text if len(text) <= MOST_CELL_CHARACTERS else f"{text[: MOST_CELL_CHARACTERS - 1]}…"
    if isinstance(value, tuple) and 0 < len(value) <= 4 and all(isinstance(one, int | float) for one in value):
        return f"[{', '.join(map(str, map(write_cell, value)))}]"
    return None
