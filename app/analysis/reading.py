"""Records of ratings become columns; whatever does not fit is told with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.analysis.blocks import Block, Values
from app.analysis.columns import Column, check_rows
from app.analysis.hints import hint
from app.analysis.observations import Floats, Observations
from app.analysis.rows import Rows
from app.domain.lines import MOST_FAULTS, MOST_REFUSED, InvalidLines
from app.domain.strict_json import SURROGATES
from app.domain.validation import clip

Given = Mapping[str, float | None]
Scales = Mapping[str, tuple[float, float]]

LARGEST = 1e15
"""Values lie within ±LARGEST: nobody rates beyond, and the squares of such values can still be summed."""

MOST_LABELS = 10_000
MOST_ASPECTS = 200
"""Each is a column as long as the data: a file whose records all name their own would not fit into memory."""

MOST_CELLS = 100_000_000
"""Rows by columns, gaps and labels among them: 800 MB, however few bytes they were written with."""

MOST_ROWS = 2_000_000
"""Ratings by one rater of one item, each letter of labels being one."""

MOST_FIELDS = 64
"""Of a record without ratings, looked at for a misspelt name."""


@dataclass(frozen=True)
class Bounds:
    """How many rows may be read, and how many cells, that is rows by columns."""

    rows: int
    cells: int


FILE_BOUNDS = Bounds(rows=20_000_000, cells=300_000_000)
"""Of a file that its owner reads on a machine of their own: 2.4 GB."""


class Unfit(ValueError):
    """What is wrong with one record, in words that follow its line number."""


class ObservationReader:
    """Takes records one by one and makes Observations of them.

    A record is `{"system"?, "item", "dialogue"?, "rater"?, "ratings": {aspect: number | null}, "scores"?: {aspect:
    number | null}, "similarity"?: number, "labels"?: "OTX…"}`; other fields are passed over. `labels` says what each
    letter of a record's labels is worth: each letter is one rater's rating of `label_aspect`, and the rater's name its
    position from 1. `scores_field` names the field that holds the scores. Where `aspects` are given, no other may stand
    in a record; where not, an aspect that one record of three or more names, and no other, is taken for a slip of the
    pen. `scales` hold the lowest and the highest rating by aspect. `noun` is what the numbers count, in faults. Where
    `name_characters` is given, no name may be longer. `bounds` are MOST_ROWS and MOST_CELLS where none are given.
    """

    def __init__(
        self,
        *,
        labels: Mapping[str, float] | None = None,
        label_aspect: str = "label",
        scores_field: str = "scores",
        aspects: Sequence[str] | None = None,
        scales: Scales | None = None,
        noun: str = "line",
        name_characters: int | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.labels = labels
        self.scores_field = scores_field
        self.noun = noun
        self._name_characters = name_characters
        self._label_aspect = label_aspect
        self._aspects = aspects
        self._scales = scales or {}
        self._bounds = bounds or Bounds(MOST_ROWS, MOST_CELLS)
        self._rows = Rows()
        self._ratings, self._scores = self._both = self._rows.ratings, self._rows.scores
        self._records = 0
        self._first = 0
        self._faults: list[tuple[int, str]] = []
        self._total = 0

    def add(self, record: Any, line: int) -> None:
        """Takes the record of that line, or notes why it cannot. Lines come in ascending order.

        Raises InvalidLines as `refuse` does.
        """
        try:
            self._take(record, line)
        except Unfit as unfit:
            what = str(unfit)
        else:
            return
        self.refuse(line, what)

    def take(self, block: Block) -> bool:
        """Takes a block of records all at once where `add` would take each of them, and no aspect for the first time.
        Else nothing is taken, and each record is to be added."""
        rows = len(self._rows) + len(block.items)
        fits = (
            self.labels is None
            and find_excess(rows, self._rows.columns, self._bounds) is None
            and self._has_short_names(block)
            and is_fit(block.ratings, self._ratings, self._scales)
            and is_fit(block.scores, self._scores, {})
            and (block.similarity is None or is_within(block.similarity, -LARGEST, LARGEST))
        )
        if fits:
            self._records += len(block.items)
            self._first = self._first or block.lines[0]
            self._rows.extend(block)
        return fits

    def _has_short_names(self, block: Block) -> bool:
        """Whether no name of the block is too long."""
        most = self._name_characters
        if most is None:
            return True
        names = {*block.items, *block.systems, *block.raters, *block.dialogues}
        return all(name is None or len(name) <= most for name in names)

    def refuse(self, line: int, what: str) -> None:
        """Notes a fault, for `finish` to raise; of too many raises InvalidLines at once."""
        self._total += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append((line, what))
        if self._total == MOST_REFUSED:
            raise InvalidLines(self._faults, self._total, self.noun, stopped=True)

    def check_aspect(self, name: str) -> None:
        """Raises Unfit for an aspect that is none of those given, or that has no name."""
        if not name or name != name.strip():
            raise Unfit(f"the aspect {clip(name)!r} has no name, or white space around it")
        self._check_name(name, "aspect")
        if self._aspects is not None and name not in self._aspects:
            near = hint(name, self._aspects) if self._total < MOST_FAULTS else ""
            raise Unfit(f"unknown aspect {clip(name)!r}{near}")

    def finish(self) -> Observations:
        """What all records say; raises InvalidLines where one does not fit, or where there is none."""
        if not self._total:
            self._refuse_nothing()
        lonely = list(self._lonely())
        read = self._rows.observations(self._aspects)
        check_rows(read, self.noun, [*self._faults, *lonely], self._total + len(lonely))
        return read

    def _refuse_nothing(self) -> None:
        if not self._records:
            self.refuse(1, "there is no record")
        elif not any(self._both) and not self._rows.similarity.lines:
            self.refuse(self._first, f"neither this {self.noun} nor any other has ratings or scores")

    def _take(self, record: Any, line: int) -> None:
        if not isinstance(record, dict):
            raise Unfit("is not an object")
        item = self._name_of(record, "item")
        if not item:
            raise Unfit("has no item" if item is None else "its item is an empty text")
        system = self._name_of(record, "system") or ""
        dialogue = self._name_of(record, "dialogue")
        scores = self._scores_of(record)
        similarity = record.get("similarity")
        if similarity is not None:
            check_number(similarity, "similarity")
        given = [*self._ratings_of(record, similarity is not None or bool(scores)), *self._labels_of(record)]
        self._refuse_more(len(self._rows) + len(given), line)
        self._records += 1
        self._first = self._first or line
        unit = self._rows.number(system, item)
        for rater, ratings in given:
            self._rows.append(unit, rater, ratings, scores=scores, similarity=similarity, line=line, dialogue=dialogue)

    def _refuse_more(self, rows: int, line: int) -> None:
        """Raises InvalidLines where there would be too many rows, or values: no later line would make them fewer."""
        what = find_excess(rows, self._rows.columns, self._bounds)
        if what is not None:
            raise InvalidLines([*self._faults, (line, what)], self._total + 1, self.noun)

    def _ratings_of(self, record: dict[str, Any], has_more: bool) -> Iterator[tuple[str | None, Given]]:
        """The rater (None where none is named) with the ratings; nothing where labels stand in their place.

        A record without that field has something to say only where it `has_more`: scores or a similarity. Ratings that
        hold nothing are as good as ratings that are all null.
        """
        rater = self._name_of(record, "rater") or None
        ratings = record.get("ratings")
        if ratings is None:
            if self.labels is not None and "labels" in record:
                return
            refuse_missing(record, has_more)
            ratings = {}
        if not isinstance(ratings, dict):
            raise Unfit("its ratings are not an object")
        self._check(ratings, self._ratings, self._scales)
        yield rater, ratings

    def _labels_of(self, record: dict[str, Any]) -> Iterator[tuple[str, Given]]:
        """Position and rating of each letter."""
        if self.labels is None or "labels" not in record:
            return
        letters = record["labels"]
        if not isinstance(letters, str) or not 0 < len(letters) <= MOST_LABELS:
            raise Unfit(f"its labels are not a text of 1 to {MOST_LABELS} letters")
        if self._label_aspect not in self._ratings:
            self.check_aspect(self._label_aspect)
            open_column(self._ratings, self._label_aspect)
        for position, letter in enumerate(letters, start=1):
            if letter not in self.labels:
                raise Unfit(f"letter {position} of its labels is {letter!r}: known are {', '.join(self.labels)}")
            self._check_value(self._label_aspect, self.labels[letter], self._scales)
            yield str(position), {self._label_aspect: self.labels[letter]}

    def _scores_of(self, record: dict[str, Any]) -> Given:
        scores = record.get(self.scores_field)
        if scores is None:
            return {}
        if not isinstance(scores, dict):
            raise Unfit(f"its {clip(self.scores_field)} are not an object")
        self._check(scores, self._scores, {})
        return scores

    def _check(self, values: dict[str, Any], columns: dict[str, Column], scales: Scales) -> None:
        """Raises Unfit for a value that is none; makes the columns that are not there yet."""
        for aspect, value in values.items():
            if aspect not in columns:
                self.check_aspect(aspect)
            if value is not None:
                self._check_value(aspect, value, scales)
        for aspect in values:
            if aspect not in columns:
                open_column(columns, aspect)

    def _name_of(self, record: dict[str, Any], field: str) -> str | None:
        name = name_of(record, field)
        return None if name is None else self._check_name(name, field)

    def _check_name(self, text: str, what: str) -> str:
        """The text; raises Unfit where it is too long for a name, or could not be written as UTF-8."""
        if self._name_characters is not None and len(text) > self._name_characters:
            raise Unfit(f"its {what} {clip(text)!r} has more than {self._name_characters} characters")
        return refuse_surrogate(text)

    def _check_value(self, aspect: str, value: Any, scales: Scales) -> None:
        """Raises Unfit for what is no number, or off the aspect's scale."""
        check_number(value, aspect)
        if aspect in scales and not scales[aspect][0] <= value <= scales[aspect][1]:
            low, high = scales[aspect]
            raise Unfit(f"{clip(aspect)!r} is {value:g}, which is off its scale from {low:g} to {high:g}")

    def _lonely(self) -> Iterator[tuple[int, str]]:
        """Aspects that a single record names, where others would have had the chance to."""
        if self._aspects is not None or self._records < 3:
            return
        common = {name for columns in self._both for name, column in columns.items() if column.lines > 1}
        hinted = 0
        for columns in self._both:
            for aspect, column in columns.items():
                if column.lines == 1 and aspect not in common:
                    # Fewer are listed than are looked at here: the search takes longer than all else.
                    near = hint(aspect, sorted(common)) if hinted < MOST_FAULTS else ""
                    hinted += 1
                    # A line that was refused may be another that has it, unless the name looks misspelt.
                    if near or not self._total:
                        yield column.first, f"unknown aspect {clip(aspect)!r}: no other {self.noun} has it{near}"


def find_excess(rows: int, columns: int, bounds: Bounds) -> str | None:
    """In what the last of so many rows is too much."""
    if rows > bounds.rows:
        return f"is one more than the {bounds.rows:,} ratings, each by one rater of one item, that are taken"
    if rows * columns > bounds.cells:
        return f"makes more than {bounds.cells:,} values of all that was read, a gap counting as one"
    return None


def is_fit(values: Values, columns: Mapping[str, Column], scales: Scales) -> bool:
    """Whether each of the values has its column already, and lies on its scale."""
    if not columns.keys() >= values.columns.keys():
        return False
    return all(
        is_within(column, -LARGEST, LARGEST) and (name not in scales or is_within(column, *scales[name]))
        for name, column in values.columns.items()
    )


def is_within(column: Floats, low: float, high: float) -> bool:
    """Whether no value of the column is below or above; NaN is neither."""
    return not bool(((column < low) | (column > high)).any())


def open_column(columns: dict[str, Column], aspect: str) -> None:
    """Makes the aspect's column; raises Unfit where there are enough."""
    if len(columns) == MOST_ASPECTS:
        raise Unfit(f"aspect {clip(aspect)!r} is one more than the {MOST_ASPECTS} that are taken")
    columns[aspect] = Column()


def name_of(record: dict[str, Any], field: str) -> str | None:
    """The field's text, an integer's digits, or None where there is none; raises Unfit for anything else."""
    value = record.get(field)
    if type(value) is str:
        return value
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    raise Unfit(f"its {field} is neither a text nor an integer")


def refuse_missing(record: dict[str, Any], has_more: bool) -> None:
    """Raises Unfit for a record without ratings, unless it has more to say and no field that looks like them."""
    near = hint("ratings", [field for field in list(record)[:MOST_FIELDS] if field != "ratings"], cutoff=0.8)
    if near or not has_more:
        labels = ": its labels are read only where their values are given" if "labels" in record else ""
        raise Unfit(f"has no ratings{labels or near}")


def refuse_surrogate(text: str) -> str:
    """The text; raises Unfit where it could not be written as UTF-8."""
    if not text.isascii() and SURROGATES.search(text):
        raise Unfit("a text holds a lone surrogate")
    return text


def check_number(value: Any, name: str) -> None:
    """Raises Unfit for what is no number, true and false among them, or none that can be reckoned with."""
    if type(value) is not float and type(value) is not int:
        raise Unfit(f"{clip(name)!r} is not a number")
    if not -LARGEST <= value <= LARGEST:
        raise Unfit(f"{clip(name)!r} is not a number within ±{LARGEST:g}")
