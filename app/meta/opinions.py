"""What was said of the results of a table, by people or by the judge: the observations that analyses read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from app.analysis import reading
from app.analysis.observations import NO_RATER, Floats, Integers, Observations, check_rows
from app.analysis.reading import Bounds, find_excess
from app.domain.errors import InvalidRequest
from app.domain.human_rating import StoredRating
from app.domain.lines import InvalidLines
from app.domain.validation import clip
from app.meta.table import AnswerTable

Names = tuple[str, ...]
NOUN = "result"


@dataclass(frozen=True)
class Opinions:
    """`n` opinions, each of the result in a row of the table by a rater, or by the judge itself.

    `row`, `rater` and `shape` have shape (n,); `rater` indexes `raters`, NO_RATER is the judge, and `shape` indexes
    `shapes`: which ratings there are, whether they have a value or not. `ratings` are columns of shape (n,), NaN for no
    value.
    """

    table: AnswerTable
    row: Integers
    rater: Integers
    raters: Names
    shape: Integers
    shapes: Sequence[Names]
    ratings: Mapping[str, Floats]

    @property
    def names(self) -> set[str]:
        """Everything that is rated somewhere."""
        return {*chain.from_iterable(self.shapes[number] for number in np.unique(self.shape))}

    def observe(self, wanted: Sequence[str] | None = None) -> Observations:
        """The opinions beside the results' scores, of the wanted names alone where some are; those without one are left
        out. Raises InvalidLines for more than an analysis takes."""
        shapes, scored = choose(self.shapes, wanted), choose([one.names for one in self.table.shapes], wanted)
        has_any = np.array([bool(names) for names in shapes])[self.shape]
        kept = np.flatnonzero(has_any) if wanted is not None else np.arange(len(self.row))
        row, shape = self.row[kept], self.shape[kept]
        score_shape = self.table.shape[row]
        ratings, scores = order_names(shape, shapes, score_shape, scored)
        refuse_many(len(row), len(ratings), len(scores))
        rated = {name: self.ratings[name][kept] for name in ratings}
        refuse_absurd(rated)
        systems, system = renumber(self.table.system[row], self.table.systems)
        items, item = renumber(self.table.item[row], self.table.items)
        raters, rater = renumber(self.rater[kept], self.raters)
        similarity, dialogue = self.table.similarity[row], self.table.dialogue
        observations = Observations(
            systems=systems,
            items=items,
            raters=raters,
            system=system,
            item=item,
            rater=rater,
            ratings=rated,
            scores={name: self.table.column(name)[row] for name in scores},
            similarity=None if np.isnan(similarity).all() else similarity,
            dialogue=None if dialogue is None else dialogue[row],
        )
        check_rows(observations, NOUN)
        return observations


def judge_opinions(table: AnswerTable) -> Opinions:
    """The judge's own values, one opinion a result that has any; raises InvalidRequest where none has."""
    names = [*dict.fromkeys(chain.from_iterable(shape.names for shape in table.shapes))]
    columns = {name: table.column(name) for name in names}
    held = np.zeros(len(table), dtype=np.bool_)
    for column in columns.values():
        held |= ~np.isnan(column)
    row = np.flatnonzero(held)
    if not len(row):
        raise InvalidRequest("no result of the batch has values yet")
    return Opinions(
        table=table,
        row=row,
        rater=np.full(len(row), NO_RATER, dtype=np.int64),
        raters=(),
        shape=table.shape[row],
        shapes=[shape.names for shape in table.shapes],
        ratings={name: column[row] for name, column in columns.items()},
    )


def rater_opinions(table: AnswerTable, ratings: Sequence[StoredRating]) -> Opinions:
    """What raters said of results, one opinion for each rater of each; raises InvalidRequest where nobody rated one."""
    found = table.rate(ratings)
    if not found:
        told = "no human ratings concern these results; keep some with POST /v1/ratings"
        if table.ambiguous:
            told = f"{table.ambiguous} ratings fit more than one result; name the batch, the candidate or the system"
        raise InvalidRequest(told)
    raters: dict[str, int] = {}
    shapes: dict[Names, int] = {}
    shape = [shapes.setdefault(tuple(one.ratings), len(shapes)) for one in found]
    names = dict.fromkeys(chain.from_iterable(shapes))
    return Opinions(
        table=table,
        row=np.array([one.row for one in found]),
        rater=np.array([raters.setdefault(one.rater, len(raters)) for one in found]),
        raters=tuple(raters),
        shape=np.array(shape),
        shapes=[*shapes],
        ratings={name: np.array([one.ratings.get(name, np.nan) for one in found]) for name in names},
    )


def choose(shapes: Sequence[Names], wanted: Sequence[str] | None) -> list[Names]:
    """Of each shape the wanted names alone, in the order in which they are wanted."""
    if wanted is None:
        return [*shapes]
    return [tuple(name for name in wanted if name in names) for names in shapes]


def order_names(
    shape: Integers, shapes: Sequence[Names], score_shape: Integers, score_shapes: Sequence[Names]
) -> tuple[list[str], list[str]]:
    """The names of ratings and of scores in the order in which they first come, an opinion's ratings before its scores.

    `shape` and `score_shape` have shape (n,), and index what is beside them. Ratings stand where their name first comes
    at all.
    """
    both, first = np.unique(shape * len(score_shapes) + score_shape, return_index=True)
    pairs = [divmod(int(both[place]), len(score_shapes)) for place in np.argsort(first)]
    rated = dict.fromkeys(chain.from_iterable(shapes[a] for a, _ in pairs))
    scored = dict.fromkeys(chain.from_iterable(score_shapes[b] for _, b in pairs))
    every = dict.fromkeys(chain.from_iterable(chain(shapes[a], score_shapes[b]) for a, b in pairs))
    return [name for name in every if name in rated], [*scored]


def renumber(codes: Integers, names: Names) -> tuple[Names, Integers]:
    """The names that come, in the order in which they do, and each code's number among them; a negative code stays."""
    distinct, first = np.unique(codes[codes >= 0], return_index=True)
    in_order = distinct[np.argsort(first)]
    numbers = np.full(len(names) + 1, NO_RATER, dtype=np.int64)  # the last is that of −1
    numbers[in_order] = np.arange(len(in_order))
    return tuple(names[code] for code in in_order), numbers[codes]


def refuse_many(rows: int, ratings: int, scores: int) -> None:
    """Raises InvalidLines for more opinions, or columns of them, than an analysis takes."""
    columns = ratings + scores + 5
    what = find_excess(rows, columns, Bounds(reading.MOST_ROWS, reading.MOST_CELLS))
    if what is not None:
        line = min(reading.MOST_ROWS, reading.MOST_CELLS // columns) + 1
        raise InvalidLines([(line, what)], noun=NOUN)
    if max(ratings, scores) > reading.MOST_ASPECTS:
        raise InvalidLines([(1, f"one aspect is more than the {reading.MOST_ASPECTS} that are taken")], noun=NOUN)


def refuse_absurd(columns: Mapping[str, Floats]) -> None:
    """Raises InvalidLines where somebody rated beyond everything that can be reckoned with."""
    faults = []
    for name, column in columns.items():
        absurd = np.flatnonzero(np.abs(column) > reading.LARGEST)
        what = f"{clip(name)!r} is not a number within ±{reading.LARGEST:g}"
        faults += [(line + 1, what) for line in absurd.tolist()]
    if faults:
        raise InvalidLines(faults, noun=NOUN)
