"""Results of batches as columns, the human ratings that belong to them, and the observations that analyses read.

A human rating may name a result by its evaluation, or by item, candidate, system and batch; the table finds the row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from app.domain.batch import Batch
from app.domain.conversation import ANY_CODE, FAULTY_TURNS
from app.domain.errors import InvalidLines, InvalidRequest
from app.domain.human_rating import RatedDraw, StoredRating
from app.domain.summary import SYSTEM, Scored, Scores
from app.domain.validation import LARGEST, clip
from app.stats import reading
from app.stats.choosing import weigh
from app.stats.observations import (
    NO_DIALOGUE,
    NO_RATER,
    Floats,
    Integers,
    NumberColumn,
    Observations,
    check_rows,
    integers,
)
from app.stats.reading import ObservationReader, ReadingLimits, find_excess
from saiten.core.messages import Message

BLENDED = ".blended"
"""What follows an aspect's name where its blended value is meant."""

Place = tuple[str, int | None, str | None]  # item, candidate, system; None stands for whatever there is one of
Answer = tuple[str, str, str]  # system or nothing, item, and digest of the context and the response
Key = tuple[str | None, Place]  # a batch, or None for any, and a place in it


class Shape(NamedTuple):
    """Which values a result has, and which of its aspects are blended."""

    names: tuple[str, ...]
    blended: tuple[str, ...]


class Opinion(NamedTuple):
    """One rater's ratings of the result in a row; `NAME.blended` repeats what a blended value is compared with."""

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
    """The results of some batches, one per row: system, item and values, blended ones as `NAME.blended`. Systems of
    different batches are different, and so are an item's candidates by one system. `ambiguous` counts ratings that fit
    several results, `unmatched` those that fit none. With `marks` the faulty turns of a conversation, per 100 of the
    system's, are a value like its aspects: by any finding, and by what a rater marked."""

    def __init__(self, *, marks: bool = False) -> None:
        self._marks = marks
        self._system_turns = array("q")
        self.ambiguous = 0
        self.unmatched = 0
        self._systems: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._shapes: dict[Shape, int] = {}
        self._clusters: dict[str, int] = {}
        self._system, self._item, self._shape, self._cluster = array("q"), array("q"), array("q"), array("q")
        self._origins: list[Origin] = []
        self._position = array("q")
        self._columns: dict[str, NumberColumn] = {}
        self._similarity = NumberColumn()
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
            values, faulty = name_values(result.scores), result.scores.faulty
            self._system_turns.append(0 if faulty is None else faulty.system_turns)
            if self._marks and faulty is not None:
                values.setdefault(FAULTY_TURNS, faulty.rate_of(ANY_CODE))
            blended = (name for name, figures in result.scores.aspects.items() if figures[1] is not None)
            shape = Shape(tuple(values), tuple(blended))
            self._shape.append(self._shapes.setdefault(shape, len(self._shapes)))
            for name, value in values.items():
                self._columns.setdefault(name, NumberColumn()).put(number, value, number + 1)
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
        self._position.append(entry.position)
        self._origins.append(Origin(result.evaluation, batch.id, entry.item, entry.candidate, system))

    def _label(self, system: str, batch: Batch) -> str:
        """What the analyses call the system. Two batches of one system are two: a build and the build before it."""
        label = system or batch.name or batch.id
        return label if self._owners.setdefault(label, batch.id) == batch.id else f"{label} ({batch.id})"

    # `system`, `item` and `shape` have shape (rows,), and index `systems`, `items` and `shapes`.

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(self._systems)

    @property
    def items(self) -> tuple[str, ...]:
        return tuple(self._items)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(self._shapes)

    @property
    def system(self) -> Integers:
        return integers(self._system)

    @property
    def item(self) -> Integers:
        return integers(self._item)

    @property
    def dialogue(self) -> Integers | None:
        """The dialogue that each row is a turn of, NO_DIALOGUE for none, shape (rows,); None where no row has one."""
        return integers(self._cluster) if self._clusters else None

    @property
    def shape(self) -> Integers:
        return integers(self._shape)

    @property
    def names(self) -> frozenset[str]:
        """Of what any row has a value."""
        return frozenset(self._columns)

    def column(self, name: str) -> Floats:
        """The values of that name, NaN for none, shape (rows,)."""
        return self._columns[name].filled(len(self))

    @property
    def similarity(self) -> Floats:
        """The results' b, NaN for none, shape (rows,)."""
        return self._similarity.filled(len(self))

    @cached_property
    def dialogues(self) -> tuple[str, ...]:
        """The digests that `dialogue` indexes."""
        return tuple(self._clusters)

    def dialogue_of(self, row: int) -> str | None:
        """The digest of the dialogue that the row is a turn of; None for none."""
        number = self._cluster[row]
        return None if number == NO_DIALOGUE else self.dialogues[number]

    def place_of(self, row: int) -> tuple[str, int]:
        """The batch of the row, and its position in it."""
        return self._origins[row].batch, self._position[row]

    def identify(self, responses: Mapping[int, str]) -> list[Answer]:
        """What each row is the score of, whatever batch it is in; `responses` are digests by position."""
        items = self.items
        return [
            (origin.system, items[number], responses.get(position, origin.batch))
            for origin, number, position in zip(self._origins, self._item, self._position, strict=True)
        ]

    def rate(self, ratings: Sequence[StoredRating]) -> list[Opinion]:
        """Each rater's ratings of each result. A rater may have rated one response more than once, by its evaluation
        and by its item: of an aspect the later rating counts, as it does where both name the response in the same
        way."""
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
                own = {**self._rate_marks(rows[0], rating), **rating.ratings}
                found.setdefault((rows[0], rating.rater), {}).update(own)
        shapes = self.shapes
        opinions = []
        for (row, rater), values in found.items():
            blended = shapes[self._shape[row]].blended
            repeated = {f"{name}.blended": value for name, value in values.items() if name in blended}
            opinions.append(Opinion(row, rater, {**values, **repeated}))
        return opinions

    def _rate_marks(self, row: int, rating: StoredRating) -> dict[str, float]:
        """What the rater marked of the conversation in the row; nothing where that was not asked, or cannot be: more
        turns than the system has."""
        system_turns, marked = self._system_turns[row], rating.faulty_turns
        if not self._marks or marked is None or len(set(marked)) > system_turns:
            return {}
        return {FAULTY_TURNS: 100 * len(set(marked)) / system_turns} if system_turns else {}

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
                # Everything that a rating of the response may call it by.
                candidates, systems = {origin.candidate, None}, {origin.system or None, None}
                for batch, candidate, system in product((origin.batch, None), candidates, systems):
                    if (key := (batch, (origin.item, candidate, system))) in places:
                        places[key].append(row)
        return evaluations, places


def weigh_rated(table: AnswerTable, opinions: Sequence[Opinion], draws: Sequence[RatedDraw]) -> Floats | None:
    """The weight of each row in an estimate by what people rated, shape (rows,), 0 where no one did; None where all
    weigh alike. A response counts for the rounds in which those who rated it were given it. What was rated outside of
    any round counts as a round that drew all alike."""
    if all(probability == 1 for *_, probability in draws):
        return None
    given: dict[tuple[str, int, str], list[RatedDraw]] = {}
    for one in draws:
        given.setdefault((one.batch, one.position, one.rater), []).append(one)
    entries: dict[tuple[int, str], float] = {}
    outside: dict[int, str] = {}
    for opinion in opinions:
        batch, position = table.place_of(opinion.row)
        known = given.get((batch, position, opinion.rater), [])
        entries |= {(opinion.row, one.round): one.probability for one in known}
        if not known:
            outside[opinion.row] = batch
    drawn = {row for row, _ in entries}
    entries |= {(row, batch): 1.0 for row, batch in outside.items() if row not in drawn}
    by_round: dict[str, set[float]] = {}
    for (_, name), probability in entries.items():
        by_round.setdefault(name, set()).add(probability)
    if all(len(found) == 1 for found in by_round.values()):
        return None
    numbers = {name: number for number, name in enumerate(by_round)}
    return weigh(
        np.array([*entries.values()]),
        np.array([numbers[name] for _, name in entries]),
        np.array([row for row, _ in entries]),
        len(table),
    )


class ScoredBatch(NamedTuple):
    """A batch as a scorer: its results, and the digests of their contexts and responses by position."""

    table: AnswerTable
    responses: Mapping[int, str]


def observe_scorers(scorers: Mapping[str, ScoredBatch], ratings: Sequence[StoredRating]) -> Observations:
    """The ratings of whatever the scorers scored, beside the values of each: what a person said of a response in one
    batch counts for the same response to the same item in all. Values are named `scorer:name`, and blended ones
    `scorer (blended):name`. Raises InvalidRequest without any rating, and InvalidLines."""
    rated: dict[tuple[Answer, str], dict[str, float]] = {}
    for scored in scorers.values():
        answers = scored.table.identify(scored.responses)
        for opinion in scored.table.rate(ratings):
            own = {name: value for name, value in opinion.ratings.items() if not name.endswith(BLENDED)}
            rated.setdefault((answers[opinion.row], opinion.rater), {}).update(own)
    if not rated:
        raise InvalidRequest(explain_unrated(sum(scored.table.ambiguous for scored in scorers.values())))
    records: dict[Answer, dict[str, Any]] = {}
    named: dict[tuple[str, str], int] = {}
    for answer in dict.fromkeys(answer for answer, _ in rated):
        system, item, _ = answer
        again = named[system, item] = named.get((system, item), 0) + 1
        records[answer] = {"system": system, "item": item if again == 1 else f"{item} ({again})", "scores": {}}
    for scorer, scored in scorers.items():
        add_scores(records, scorer, scored)
    reader = ObservationReader(by_scorer=True, noun=NOUN)
    for number, ((answer, rater), own) in enumerate(rated.items(), start=1):
        reader.add({**records[answer], "rater": rater, "ratings": own}, number)
    return reader.finish()


def add_scores(records: Mapping[Answer, dict[str, Any]], scorer: str, scored: ScoredBatch) -> None:
    """Adds the scorer's values, and the dialogues where a record has none yet, to the records of answers."""
    table = scored.table
    names = dict.fromkeys(chain.from_iterable(shape.names for shape in table.shapes))
    columns = {name: table.column(name) for name in names}
    for row, answer in enumerate(table.identify(scored.responses)):
        record = records.get(answer)
        if record is None:
            continue
        if dialogue := table.dialogue_of(row):
            record.setdefault("dialogue", dialogue)
        for name, column in columns.items():
            if not np.isnan(column[row]):
                whose = f"{scorer} (blended)" if name.endswith(BLENDED) else scorer
                record["scores"].setdefault(whose, {})[name.removesuffix(BLENDED)] = float(column[row])


def explain_unrated(ambiguous: int) -> Message:
    """Why no human rating concerns any result."""
    if ambiguous:
        return Message("ratings-ambiguous", count=ambiguous)
    return Message("ratings-none")


def name_values(scores: Scores) -> dict[str, float | None]:
    """Every value of a result by name: means, composites, what is blended."""
    means = {name: figures[0] for name, figures in scores.aspects.items()}
    blended = {f"{name}.blended": figures[1] for name, figures in scores.aspects.items() if figures[1] is not None}
    return {**means, **scores.composites, **blended}


def key_of(rating: StoredRating) -> Key:
    """The batch and the place that the rating names."""
    return rating.batch, (rating.item or "", rating.candidate, rating.system)


Names = tuple[str, ...]
NOUN = "result"


@dataclass(frozen=True)
class Opinions:
    """`n` opinions, each of the result in a row of the table by a rater, or by the judge itself. `row`, `rater` and
    `shape` have shape (n,); `rater` indexes `raters`, NO_RATER is the judge, and `shape` indexes `shapes`: which
    ratings there are, whether they have a value or not. `ratings` are columns of shape (n,), NaN for no value.
    `weights`, shape (rows of the table,), are those of `weigh_rated`."""

    table: AnswerTable
    row: Integers
    rater: Integers
    raters: Names
    shape: Integers
    shapes: Sequence[Names]
    ratings: Mapping[str, Floats]
    weights: Floats | None = None

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
            probability=None if self.weights is None else invert(self.weights)[row],
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
        raise InvalidRequest(Message("batch-without-values"))
    return Opinions(
        table=table,
        row=row,
        rater=np.full(len(row), NO_RATER, dtype=np.int64),
        raters=(),
        shape=table.shape[row],
        shapes=[shape.names for shape in table.shapes],
        ratings={name: column[row] for name, column in columns.items()},
    )


def invert(weights: Floats) -> Floats:
    """The probabilities that these weights stand for, the highest 1; NaN where the weight is 0."""
    held = weights > 0
    found = np.full(len(weights), np.nan)
    found[held] = weights[held].min() / weights[held]
    return found


def rater_opinions(table: AnswerTable, ratings: Sequence[StoredRating]) -> Opinions:
    """The human ratings of results, one opinion per rater and result; raises InvalidRequest without any."""
    found = table.rate(ratings)
    if not found:
        raise InvalidRequest(explain_unrated(table.ambiguous))
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


def all_opinions(table: AnswerTable, ratings: Sequence[StoredRating], draws: Sequence[RatedDraw] = ()) -> Opinions:
    """The human ratings as in `rater_opinions`, and a row without any for each result that no one rated; weighted by
    the probabilities with which rounds drew them."""
    found = rater_opinions(table, ratings)
    opinions = [Opinion(row, found.raters[rater], {}) for row, rater in zip(found.row, found.rater, strict=True)]
    rest = np.setdiff1d(np.arange(len(table)), found.row)
    nothing = np.full(len(rest), np.nan)
    return replace(
        found,
        row=np.concatenate([found.row, rest]),
        rater=np.concatenate([found.rater, np.full(len(rest), NO_RATER, dtype=np.int64)]),
        shape=np.concatenate([found.shape, np.full(len(rest), len(found.shapes), dtype=np.int64)]),
        shapes=[*found.shapes, ()],
        ratings={name: np.concatenate([column, nothing]) for name, column in found.ratings.items()},
        weights=weigh_rated(table, opinions, draws),
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
    at all."""
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
    what = find_excess(rows, columns, ReadingLimits(reading.MOST_ROWS, reading.MOST_CELLS))
    if what is not None:
        line = min(reading.MOST_ROWS, reading.MOST_CELLS // columns) + 1
        raise InvalidLines([(line, what)], noun=NOUN)
    if max(ratings, scores) > reading.MOST_ASPECTS:
        raise InvalidLines([(1, Message("aspects-most", maximum=reading.MOST_ASPECTS))], noun=NOUN)


def refuse_absurd(columns: Mapping[str, Floats]) -> None:
    """Raises InvalidLines for values beyond what the analyses accept."""
    faults = []
    for name, column in columns.items():
        absurd = np.flatnonzero(np.abs(column) > LARGEST)
        what = Message("number-range", name=repr(clip(name)), limit=LARGEST)
        faults += [(line + 1, what) for line in absurd.tolist()]
    if faults:
        raise InvalidLines(faults, noun=NOUN)
