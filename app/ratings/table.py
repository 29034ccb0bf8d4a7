"""Results of batches as columns, the human ratings that belong to them, and the observations that analyses read.

A human rating may name a result by its evaluation, or by item, candidate, system and batch; the table finds the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.batch import Batch
from saiten_server.core.conversation import ANY_CODE, FAULTY_TURNS, FINDING
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.core.model import key_of
from saiten_server.core.validation import LARGEST, clip
from saiten_server.ratings.values import RatedDraw, StoredRating
from saiten_server.runs.frame import JUDGED_KINDS, MEASURE_KINDS, Flags, RunFrame, is_judged
from saiten_server.runs.summary import BLENDED, SYSTEM, flat_name
from saiten_server.stats import reading
from saiten_server.stats.choosing import weigh_items
from saiten_server.stats.observations import (
    NO_DIALOGUE,
    NO_RATER,
    Floats,
    Integers,
    Observations,
    check_rows,
    number_first,
    number_keys,
)
from saiten_server.stats.reading import ObservationReader, ReadingLimits, find_excess

Names = tuple[str, ...]
Shown = TypeVar("Shown")
NO_CANDIDATE = -1
RatedPlace = tuple[
    int, int, str | None
]  # an item's key, candidate, system; of the latter none is whatever there is one of
AnswerKey = tuple[str, str, int | str]  # system or nothing, item, and the key of the texts, or the batch without them
PlaceKey = tuple[str | None, RatedPlace]  # a batch, or None for any, and a place in it


class Opinion(NamedTuple):
    """One rater's ratings of the result in a row; `NAME.blended` repeats what a blended value is compared with."""

    row: int
    rater: str
    ratings: Mapping[str, float]


class Numbered(NamedTuple, Generic[Shown]):
    """What is told of rows: the different values, and each row's number among them, shape (rows,)."""

    values: Sequence[Shown]
    number: Integers


class NamedRun(NamedTuple):
    """A batch's results; with the ids of the items of each row, where they are to be shown or analysed."""

    batch: Batch
    frame: RunFrame
    items: Sequence[str] = ()

    @property
    def systems(self) -> list[str]:
        """The system of each of the frame's labels, empty where there is none."""
        own = self.batch.metadata.get(SYSTEM)
        return [label.system or own or "" for label in self.frame.labels]


def name_run(batch: Batch, frame: RunFrame, items: Mapping[int, str]) -> NamedRun:
    """The results whose items are known, by position: some may have been erased since the frame was read."""
    named = [items.get(position) for position in frame.positions.tolist()]
    there = [item for item in named if item is not None]
    if len(there) < len(named):
        frame = frame.take(np.flatnonzero([item is not None for item in named]))
    return NamedRun(batch, frame, there)


class Answers:
    """The results of some runs, one per row, and which of them a rating is of. Systems of different batches are
    different, and so are an item's candidates by one system. `places` are the batch and the position of the evaluations
    that ratings name. `ambiguous` counts ratings that fit several results, `unmatched` those that fit none. With
    `marks` the faulty turns of a conversation, per 100 of the system's, are a value like its aspects: by any finding,
    and by what a rater marked.

    `dialogue` numbers the dialogue that each row is a turn of, NO_DIALOGUE for none, and is None where no row has one.
    `similarity` is b, NaN where none.
    """

    def __init__(
        self,
        runs: Sequence[NamedRun],
        places: Mapping[str, tuple[str, int]],
        *,
        marks: bool = False,
    ) -> None:
        self.ambiguous = 0
        self.unmatched = 0
        self._runs = runs
        self._places = places
        self._marks = marks
        self._ends = np.cumsum([len(run.frame) for run in runs])
        self._clusters = np.concatenate([np.empty(0, np.int64), *(run.frame.clusters for run in runs)])
        self.systems = number_systems(runs)

    def __len__(self) -> int:
        return len(self._clusters)

    @cached_property
    def sampled(self) -> Floats | None:
        """The probability with which a monitor sampled each row's conversation; None where none did."""
        found = np.concatenate([np.empty(0), *(run.frame.probability for run in self._runs)])
        return found if (found < 1).any() else None

    @cached_property
    def items(self) -> Numbered[str]:
        """What the analyses call the items."""
        return number_items(self._runs, self.systems.number)

    @cached_property
    def shapes(self) -> Numbered[Names]:
        """Which values a row has, or lacks."""
        return number_shapes(self._runs, self._measured)

    @cached_property
    def _measured(self) -> list[Measured]:
        return [list_measured(run.frame, marks=self._marks) for run in self._runs]

    @cached_property
    def names(self) -> frozenset[str]:
        """Of what any row has a value."""
        return frozenset(name for each in self._measured for name in each)

    def column(self, name: str) -> Floats:
        """The values of that name, NaN for none, shape (rows,)."""
        parts = zip(self._runs, self._measured, strict=True)
        return np.concatenate(
            [each[name][0] if name in each else np.full(len(run.frame), np.nan) for run, each in parts]
        )

    @cached_property
    def similarity(self) -> Floats:
        return np.concatenate([np.empty(0), *(run.frame.similarity for run in self._runs)])

    @cached_property
    def dialogue(self) -> Integers | None:
        known = self._clusters != 0
        if not known.any():
            return None
        found = np.full(len(self), NO_DIALOGUE, dtype=np.int64)
        found[known] = number_first(self._clusters[known])
        return found

    def dialogue_of(self, row: int) -> str | None:
        """A name of the dialogue that the row is a turn of, the same in all batches; None for none."""
        return str(self._clusters[row]) if self._clusters[row] else None

    def place_of(self, row: int) -> tuple[str, int]:
        """The batch of the row, and its position in it."""
        run, own = self._find_run(row)
        return run.batch.id, int(run.frame.positions[own])

    def _find_run(self, row: int) -> tuple[NamedRun, int]:
        """The run of the row, and the row's place in it."""
        number = int(np.searchsorted(self._ends, row, side="right"))
        run = self._runs[number]
        return run, row - int(self._ends[number]) + len(run.frame)

    def identify(self) -> list[AnswerKey]:
        """What each row is the score of, whatever batch it is in."""
        found: list[AnswerKey] = []
        for run in self._runs:
            systems, items = run.systems, self.items.number[len(found) :].tolist()
            rows = zip(items, run.frame.label.tolist(), run.frame.texts.tolist(), strict=False)
            found += [(systems[label], self.items.values[item], text or run.batch.id) for item, label, text in rows]
        return found

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
                rows = places.get(name_place(rating), [])
            self.ambiguous += len(rows) > 1
            self.unmatched += not rows
            if len(rows) == 1:
                own = {**self._rate_marks(rows[0], rating), **rating.ratings}
                found.setdefault((rows[0], rating.rater), {}).update(own)
        return [Opinion(row, rater, {**own, **self._repeat(row, own)}) for (row, rater), own in found.items()]

    def _repeat(self, row: int, ratings: Mapping[str, float]) -> dict[str, float]:
        """The ratings of what is blended in the row."""
        run, own = self._find_run(row)
        blended = {name: run.frame.values.get(("blended", name)) for name in ratings}
        return {
            name + BLENDED: ratings[name]
            for name, column in blended.items()
            if column is not None and not np.isnan(column[own])
        }

    def _rate_marks(self, row: int, rating: StoredRating) -> dict[str, float]:
        """What the rater marked of the conversation in the row; nothing where that was not asked, or cannot be: more
        turns than the system has."""
        run, own = self._find_run(row)
        system_turns, marked = int(run.frame.system_turns[own]), rating.faulty_turns
        if not self._marks or marked is None or len(set(marked)) > system_turns:
            return {}
        return {FAULTY_TURNS: 100 * len(set(marked)) / system_turns} if system_turns else {}

    def _find_all(self, ratings: Iterable[StoredRating]) -> tuple[dict[str, list[int]], dict[PlaceKey, list[int]]]:
        """The rows by evaluation, and by batch and place, of those that some rating names: of a hundred thousand
        results people rate a few."""
        evaluations: dict[str, list[int]] = {}
        places: dict[PlaceKey, list[int]] = {name_place(one): [] for one in ratings if one.evaluation is None}
        items = np.array([place[0] for _, place in {*places}], dtype=np.int64)
        for run, end in zip(self._runs, self._ends.tolist(), strict=True):
            frame, systems, first = run.frame, run.systems, end - len(run.frame)
            for name, (batch, position) in self._places.items():
                if batch == run.batch.id and len(rows := frame.at(np.array([position], dtype=np.int32))):
                    evaluations[name] = [first + int(rows[0])]
            for row in np.flatnonzero(np.isin(frame.items, items)).tolist():
                # Everything that a rating of the response may call it by.
                candidates = {int(frame.candidates[row]), NO_CANDIDATE}
                own = {systems[frame.label[row]] or None, None}
                for of, candidate, system in product((run.batch.id, None), candidates, own):
                    if (key := (of, (int(frame.items[row]), candidate, system))) in places:
                        places[key].append(first + row)
        return evaluations, places


def number_systems(runs: Sequence[NamedRun]) -> Numbered[str]:
    """What the analyses call the systems, and each row's. Two batches of one system are two: a build and the build
    before it."""
    owners, numbers = dict[str, str](), dict[str, int]()
    found = [np.empty(0, dtype=np.int64)]
    for run in runs:
        own = []
        for system in run.systems:
            label = system or run.batch.name or run.batch.id
            if owners.setdefault(label, run.batch.id) != run.batch.id:
                label = f"{label} ({run.batch.id})"
            own.append(numbers.setdefault(label, len(numbers)))
        found.append(np.array(own, dtype=np.int64)[run.frame.label])
    return Numbered([*numbers], np.concatenate(found))


def number_items(runs: Sequence[NamedRun], system: Integers) -> Numbered[str]:
    """What the analyses call the items, and each row's. What one system answers to an item again has another name."""
    numbers, found = dict[str, int](), list[int]()
    for run in runs:
        taken = set[tuple[int, str]]()
        own = system[len(found) : len(found) + len(run.frame)].tolist()
        columns = run.items, run.frame.candidates.tolist(), own, run.frame.positions.tolist()
        for item, candidate, number, position in zip(*columns, strict=True):
            name = item if candidate < 0 else f"{item}#{candidate}"
            place = number, name
            if place in taken:
                name = f"{name}@{position}"
            taken.add(place)
            found.append(numbers.setdefault(name, len(numbers)))
    return Numbered([*numbers], np.array(found, dtype=np.int64))


Measured = dict[str, tuple[Floats, Flags]]
"""By name the values of a run, and the rows that have one or lack it, both of shape (n,)."""


def list_measured(frame: RunFrame, *, marks: bool) -> Measured:
    """What a run has values of: means, composites, what is blended, and with `marks` the faulty turns."""
    judged, found = frame.marked(is_judged), Measured()
    for key in sorted(frame.values, key=lambda key: MEASURE_KINDS.index(key[0])):
        kind, name = key
        column = frame.values[key]
        held = ~np.isnan(column)
        if kind == "aspect":
            unrated = np.array([name in label.unrated for label in frame.labels], dtype=bool)[frame.label]
            found[name] = column, held | unrated
        elif kind in JUDGED_KINDS:
            found[flat_name(key)] = column, judged if kind == "composite" else held
        elif marks and name == FINDING + ANY_CODE:
            found.setdefault(FAULTY_TURNS, (column, frame.system_turns > 0))
    return found


def number_shapes(runs: Sequence[NamedRun], measured: Sequence[Measured]) -> Numbered[Names]:
    """The shapes that there are, and each row's."""
    shapes: dict[Names, int] = {}
    found = [np.empty(0, dtype=np.int64)]
    for run, each in zip(runs, measured, strict=True):
        told = np.zeros(len(run.frame), dtype=np.int64)
        for _, rows in each.values():
            told = number_keys(2 * told + rows)
        first, numbers = np.unique(told, return_index=True, return_inverse=True)[1:]
        names = [tuple(name for name, (_, rows) in each.items() if rows[row]) for row in first]
        own = [shapes.setdefault(one, len(shapes)) for one in names]
        found.append(np.array(own, dtype=np.int64)[numbers])
    return Numbered([*shapes], np.concatenate(found))


def weigh_rated(table: Answers, opinions: Sequence[Opinion], draws: Sequence[RatedDraw]) -> Floats | None:
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
    return weigh_items(
        np.array([*entries.values()]),
        np.array([numbers[name] for _, name in entries]),
        np.array([row for row, _ in entries]),
        len(table),
    )


def observe_scorers(scorers: Mapping[str, Answers], ratings: Sequence[StoredRating]) -> Observations:
    """The ratings of whatever the scorers scored, beside the values of each: what a person said of a response in one
    batch counts for the same response to the same item in all. Values are named `scorer:name`, and blended ones
    `scorer (blended):name`. Raises InvalidRequest without any rating, and InvalidLines."""
    rated: dict[tuple[AnswerKey, str], dict[str, float]] = {}
    for table in scorers.values():
        answers = table.identify()
        for opinion in table.rate(ratings):
            own = {name: value for name, value in opinion.ratings.items() if not name.endswith(BLENDED)}
            rated.setdefault((answers[opinion.row], opinion.rater), {}).update(own)
    if not rated:
        raise InvalidRequest(explain_unrated(sum(table.ambiguous for table in scorers.values())))
    records: dict[AnswerKey, dict[str, Any]] = {}
    named: dict[tuple[str, str], int] = {}
    for answer in dict.fromkeys(answer for answer, _ in rated):
        system, item, _ = answer
        again = named[system, item] = named.get((system, item), 0) + 1
        records[answer] = {"system": system, "item": item if again == 1 else f"{item} ({again})", "scores": {}}
    for scorer, table in scorers.items():
        add_scores(records, scorer, table)
    reader = ObservationReader(by_scorer=True, noun=NOUN)
    for number, ((answer, rater), own) in enumerate(rated.items(), start=1):
        reader.add({**records[answer], "rater": rater, "ratings": own}, number)
    return reader.finish()


def add_scores(records: Mapping[AnswerKey, dict[str, Any]], scorer: str, table: Answers) -> None:
    """Adds the scorer's values, and the dialogues where a record has none yet, to the records of answers."""
    names = dict.fromkeys(chain.from_iterable(table.shapes.values))
    columns = {name: table.column(name) for name in names}
    for row, answer in enumerate(table.identify()):
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


def name_place(rating: StoredRating) -> PlaceKey:
    """The batch and the place that the rating names."""
    candidate = NO_CANDIDATE if rating.candidate is None else rating.candidate
    return rating.batch, (key_of(rating.item or ""), candidate, rating.system)


NOUN = "result"


@dataclass(frozen=True)
class Opinions:
    """`n` opinions, each of the result in a row of the table by a rater, or by the judge itself. `row`, `rater` and
    `shape` have shape (n,); `rater` indexes `raters`, NO_RATER is the judge, and `shape` indexes `shapes`: which
    ratings there are, whether they have a value or not. `ratings` are columns of shape (n,), NaN for no value.
    `weights`, shape (rows of the table,), are those of `weigh_rated`."""

    table: Answers
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
        shapes, scored = choose_names(self.shapes, wanted), choose_names(self.table.shapes.values, wanted)
        has_any = np.array([bool(names) for names in shapes])[self.shape]
        kept = np.flatnonzero(has_any) if wanted is not None else np.arange(len(self.row))
        row, shape = self.row[kept], self.shape[kept]
        score_shape = self.table.shapes.number[row]
        ratings, scores = order_names(shape, shapes, score_shape, scored)
        refuse_opinions(len(row), len(ratings), len(scores))
        rated = {name: self.ratings[name][kept] for name in ratings}
        refuse_absurd(rated)
        systems, system = renumber(self.table.systems.number[row], self.table.systems.values)
        items, item = renumber(self.table.items.number[row], self.table.items.values)
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
            sampled=None if self.table.sampled is None else self.table.sampled[row],
        )
        check_rows(observations, NOUN)
        return observations


def judge_opinions(table: Answers) -> Opinions:
    """The judge's own values, one opinion a result that has any; raises InvalidRequest where none has."""
    names = [*dict.fromkeys(chain.from_iterable(table.shapes.values))]
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
        shape=table.shapes.number[row],
        shapes=table.shapes.values,
        ratings={name: column[row] for name, column in columns.items()},
    )


def invert(weights: Floats) -> Floats:
    """The probabilities that these weights stand for, the highest 1; NaN where the weight is 0."""
    held = weights > 0
    found = np.full(len(weights), np.nan)
    found[held] = weights[held].min() / weights[held]
    return found


def rater_opinions(table: Answers, ratings: Sequence[StoredRating]) -> Opinions:
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


def all_opinions(table: Answers, ratings: Sequence[StoredRating], draws: Sequence[RatedDraw] = ()) -> Opinions:
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


def choose_names(shapes: Sequence[Names], wanted: Sequence[str] | None) -> list[Names]:
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


def renumber(codes: Integers, names: Sequence[str]) -> tuple[Names, Integers]:
    """The names that come, in the order in which they do, and each code's number among them; a negative code stays."""
    distinct, first = np.unique(codes[codes >= 0], return_index=True)
    in_order = distinct[np.argsort(first)]
    numbers = np.full(len(names) + 1, NO_RATER, dtype=np.int64)  # the last is that of −1
    numbers[in_order] = np.arange(len(in_order))
    return tuple(names[code] for code in in_order), numbers[codes]


def refuse_opinions(rows: int, ratings: int, scores: int) -> None:
    """Raises InvalidLines for more opinions, or columns of them, than an analysis takes."""
    columns = ratings + scores + 5
    what = find_excess(rows, columns, ReadingLimits(reading.MOST_READ_RATINGS, reading.MOST_CELLS))
    if what is not None:
        line = min(reading.MOST_READ_RATINGS, reading.MOST_CELLS // columns) + 1
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
