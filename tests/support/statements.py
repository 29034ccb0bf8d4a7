"""What a service asks its database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


@contextmanager
def listening() -> Iterator[list[str]]:
    """The statements of all engines of this process, as they come."""
    heard: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        heard.append(statement)

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield heard
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


def count(statements: list[str], table: str) -> int:
    """How many of the statements read the table."""
    return sum(f"FROM {table}" in one or f"JOIN {table}" in one for one in map(" ".join, map(str.split, statements)))
