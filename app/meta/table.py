"""Results of batches as columns, found by whatever a human rating names them by, and the ratings that concern them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.analysis.observations import NO_DIALOGUE, Column, Floats, Integers, integers
from app.domain.batch import Batch
from app.domain.human_rating import StoredRating
from app.domain.scores import Scored, Scores
from app.scores import SYSTEM

Place = tuple[str, int | None, str | None]
"""Item, candidate, system; None stands for whatever there is one of."""

Key = tuple[str | None, Place]
"""A batch, or None for any, and a place in it."""


class Shape(NamedTuple):
    """Which values a result has, and which of its aspects are blended."""

    names: tuple[str, ...]
    blended: tuple[str, ...]


class Opinion(NamedTuple):
    """What one rater said of the result in a row of the table. What is held against a blended value stands as
    `NAME.blended` too."""

    row: int
    rater: str
    ratings: Mapping[str, float]


class Origin(NamedTuple):
    """What a rating may call a result by. `system` is empty where there is none."""

    evaluation: str
    batch: str
    item: str
    candidate: int | None
    system: str


class AnswerTable:
    """The results of some batches, a row each: who said it, to what, and its values, what is blended as `NAME.blended`.

    Systems are told apart by batch, and an item's candidates of one system from each other. `ambiguous` counts ratings
    that fit several results, `unmatched` those that fit none.
    """

    def __init__(self) -> None:
        self.ambiguous = 0
        self.unmatched = 0
        self._systems: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._shapes: dict[Shape, int] = {}
        self._clusters: dict[str, int] = {}
        self._system, self._item, self._shape, self._cluster = array("q"), array("q"), array("q"), array("q")
        self._origins: list[Origin] = []
        self._columns: dict[str, Column] = {}
        self._similarity = Column()
        self._owners: dict[str, str] = {}
        self._taken: tuple[str, dict[tuple[str, str], int]] = "", {}

    def __len__(self) -> int:
        return len(self._origins)

    def add(self, batch: Batch, results: Sequence[Scored]) -> None:
        """Takes in results of a batch that follow those before. Nothing can be added once something was read."""
        row = len(self)
        if self._taken[0] != batch.id:
            self._taken = batch.id, {}
        for result in results:
            self._add_place(batch, result)
        for number, result in enumerate(results, start=row):
            values = name_values(result.scores)
            shape = Shape(tuple(values), tuple(blended_of(result.scores)))
            self._shape.append(self._shapes.setdefault(shape, len(self._shapes)))
            for name, value in values.items():
                self._columns.setdefault(name, Column()).put(number, value, number + 1)
            self._similarity.put(number, result.scores.similarity, number + 1)

    def _add_place(self, batch: Batch, result: Scored) -> None:
        entry = result.entry
        system = result.scores.system or batch.metadata.get(SYSTEM) or ""
        label = self._label(system, batch)
        item = entry.item if entry.candidate is None else f"{entry.item}#{entry.candidate}"
        taken = self._taken[1]
        repeat = taken[label, item] = taken.get((label, item), -1) + 1
        name = item if not repeat else f"{item}@{entry.position}"
        self._system.append(self._systems.setdefault(label, len(self._systems)))
        self._item.append(self._items.setdefault(name, len(self._items)))
        cluster = entry.cluster
        self._cluster.append(
            NO_DIALOGUE if cluster is None else self._clusters.setdefault(cluster, len(self._clusters))
        )
        self._origins.append(Origin(result.evaluation, batch.id, entry.item, entry.candidate, system))

    def _label(self, system: str, batch: Batch) -> str:
        """What the analyses call the system. Two batches of one system are two: a build and the build before it."""
        label = system or batch.name or batch.id
        return label if self._owners.setdefault(label, batch.id) == batch.id else f"{label} ({batch.id})"

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that `system` indexes."""
        return tuple(self._systems)

    @property
    def items(self) -> tuple[str, ...]:
        """The items that `item` indexes."""
        return tuple(self._items)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes that `shape` indexes."""
        return tuple(self._shapes)

    @property
    def system(self) -> Integers:
        """Each row's system, shape (rows,)."""
        return integers(self._system)

    @property
    def item(self) -> Integers:
        """Each row's item, shape (rows,)."""
        return integers(self._item)

    @property
    def dialogue(self) -> Integers | None:
        """The dialogue that each row is a turn of, NO_DIALOGUE for none, shape (rows,); None where no row has one."""
        return integers(self._cluster) if self._clusters else None

    @property
    def shape(self) -> Integers:
        """Each row's shape, shape (rows,)."""
        return integers(self._shape)

    def column(self, name: str) -> Floats:
        """The values of that name, NaN for none, shape (rows,)."""
        return self._columns[name].filled(len(self))

    @property
    def similarity(self) -> Floats:
        """The results' b, NaN for none, shape (rows,)."""
        return self._similarity.filled(len(self))

    def rate(self, ratings: Sequence[StoredRating]) -> list[Opinion]:
        """What each rater said of each result.

        A rater may have rated one response more than once, by its evaluation and by its item: of an aspect the later
        rating counts, as it does where both name the response in the same way.
        """
        evaluations, places = self._find_all(ratings)
        found: dict[tuple[int, str], dict[str, float]] = {}
        for rating in ratings:
            if rating.evaluation is not None:
                rows = evaluations.get(rating.evaluation, [])
            else:
                rows = places.get(key_of(rating), [])
            self.ambiguous += len(rows) > 1
            self.unmatched += not rows
            if len(rows) == 1:
                found.setdefault((rows[0], rating.rater), {}).update(rating.ratings)
        shapes = self.shapes
        return [
            Opinion(row, rater, widen(values, shapes[self._shape[row]].blended))
            for (row, rater), values in found.items()
        ]

    def _find_all(self, ratings: Iterable[StoredRating]) -> tuple[dict[str, list[int]], dict[Key, list[int]]]:
        """The rows by evaluation, and by batch and place, of those that some rating names: of a hundred thousand
        results people rate a few."""
        evaluations: dict[str, list[int]] = {one.evaluation: [] for one in ratings if one.evaluation is not None}
        places: dict[Key, list[int]] = {key_of(one): [] for one in ratings if one.evaluation is None}
        items = {place[0] for _, place in places}
        for row, origin in enumerate(self._origins):
            if origin.evaluation in evaluations:
                evaluations[origin.evaluation] = [row]
            if origin.item in items:
                for place in places_of(origin.item, origin.candidate, origin.system):
                    for key in ((origin.batch, place), (None, place)):
                        if key in places:
                            places[key].append(row)
        return evaluations, places


def name_values(scores: Scores) -> dict[str, float | None]:
    """Every value of a result by name: means, composites, what is blended."""
    means = {name: figures[0] for name, figures in scores.aspects.items()}
    blended = {f"{name}.blended": scores.aspects[name][1] for name in blended_of(scores)}
    return {**means, **scores.composites, **blended}


def blended_of(scores: Scores) -> list[str]:
    """The aspects that have a blended value."""
    return [name for name, figures in scores.aspects.items() if figures[1] is not None]


def key_of(rating: StoredRating) -> Key:
    """The batch and the place that the rating names."""
    return rating.batch, (rating.item or "", rating.candidate, rating.system)


def places_of(item: str, candidate: int | None, system: str) -> set[Place]:
    """Everything that a rating of the response may call it by."""
    candidates = {candidate, None}
    systems = {system or None, None}
    return {(item, which, who) for which in candidates for who in systems}


def widen(ratings: Mapping[str, float], blended: Sequence[str]) -> dict[str, float]:
    """The ratings, and those of blended aspects once more as what the blended value is held against."""
    return {**ratings, **{f"{name}.blended": value for name, value in ratings.items() if name in blended}}
