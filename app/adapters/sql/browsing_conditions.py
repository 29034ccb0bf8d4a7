"""Which results a query wants and in which order, as SQL over `result_figures`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Float, false, func, null, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from app.adapters.sql.batches.rows import enclose, lower_ascii
from app.adapters.sql.tables import batch_texts, result_figures
from app.browse_ports import ANY_ASPECT, ResultQuery

figure, text = result_figures.c, batch_texts.c


class Conditions:
    """What the results of a batch must fulfil. `columns` are those of its measures, `dialect` the database's name."""

    def __init__(self, columns: Mapping[str, str], dialect: str) -> None:
        self._columns = columns
        self._find = func.strpos if dialect == "postgresql" else func.instr

    def list(self, batch_id: str, query: ResultQuery) -> list[ColumnElement[bool]]:
        """All that the query asks; nothing where it wants every result."""
        wanted = [self._has_value(name, value) for name, value in query.values.items()]
        if query.unrated is not None:
            is_any = query.unrated == ANY_ASPECT
            wanted.append(figure.unrated != enclose(()) if is_any else self._names(figure.unrated, query.unrated))
        if query.warning is not None:
            wanted.append(self._names(figure.warnings, query.warning))
        exact = ((figure.status, query.status), (figure.system, query.system))
        wanted += [column == value for column, value in exact if value is not None]
        if query.text:
            wanted.append(figure.position.in_(self._holding(batch_id, query.text)))
        return wanted

    def _has_value(self, measure: str, value: float) -> ColumnElement[bool]:
        column = self._columns.get(measure)
        return false() if column is None else figure[column] == value

    def _names(self, column: ColumnElement[str], name: str) -> ColumnElement[bool]:
        return self._contains(column, enclose((name,)))

    def _holding(self, batch_id: str, needle: str) -> Any:
        """The positions whose texts hold the needle."""
        fits = self._contains(text.text, lower_ascii(needle))
        return select(text.position).where(text.batch_id == batch_id, fits)

    def _contains(self, column: ColumnElement[str], part: str) -> ColumnElement[bool]:
        # Not LIKE, which is slower, knows wildcards, and on SQLite another case.
        found: ColumnElement[bool] = self._find(column, part) > 0
        return found


def sort_key(columns: Mapping[str, str], query: ResultQuery) -> ColumnElement[Any]:
    """What the results are sorted by: null for those without a value, and for all where there is nothing to sort by."""
    column = columns.get(query.sort or "")
    if column is None:
        return null().cast(Float(precision=53))
    return figure[column] if query.target is None else func.abs(figure[column] - query.target)


def order_of(
    found: ReadOnlyColumnCollection[str, Any], query: ResultQuery, *, backwards: bool = False
) -> list[ColumnElement[Any]]:
    """The order of rows with `key` and `position`, or exactly its reverse. Without a measure it is the batch's own."""
    key, position = found["key"], found["position"]
    if query.sort is None:
        return [position.desc() if query.descending != backwards else position.asc()]
    by_key = key.desc() if query.descending != backwards else key.asc()
    if backwards:
        return [key.is_(None).desc(), by_key, position.desc()]
    return [key.is_(None), by_key, position.asc()]
