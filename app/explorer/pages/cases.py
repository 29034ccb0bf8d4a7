"""A case as the explorer shows it: the runs' responses beside each other, how they differ, and their ratings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from saiten_server.core.batch import Batch
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import AspectResult
from saiten_server.core.rubric import Aspect, Level, Rubric
from saiten_server.explorer.pages.conversation import TurnView
from saiten_server.explorer.pages.item import RaterView, ResponseNames, list_turns, view_ratings
from saiten_server.platform.web.page import Piece, compare_texts, replace_text
from saiten_server.ratings.values import StoredRating
from saiten_server.runs.result import CaseRow, Result
from saiten_server.runs.summary import SYSTEM

if TYPE_CHECKING:
    from saiten_server.container import Container

EXCERPT_CHARACTERS = 90
"""Of a text in a case's line."""

MOST_MOVES = 4
"""Aspects that a case's line names."""

MOST_COMPARED = 1500
"""Characters of either response up to which they are compared one by one."""

LEAST_ALIKE = 0.4
"""Share of equal characters below which the difference of two responses is not marked: with less, almost all would be
struck out. Other answers to the same item have under 0.3, edited ones over 0.5."""

CLUSTER = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*|\r\n|"
    ".(?:[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
    "|\u200d.)*",
    re.DOTALL,
)
"""What readers take for one character."""


class CaseResponse(NamedTuple):
    """One run's response to a case; `pieces` is how it differs from the first run's, None where that is not told.
    `context` is there where the first response answers another one, and `turns` are those of a conversation, which has
    neither."""

    result: Result | None
    responses: int
    address: str
    pieces: Sequence[Piece] | None
    context: Sequence[Utterance] | None
    raters: Sequence[RaterView]
    turns: Sequence[TurnView] = ()


class CaseRating(NamedTuple):
    """An aspect or another measure in each run: its `values`, and the judge's verdicts where it is an aspect."""

    name: str
    aspect: Aspect | None
    values: Sequence[float | None]
    verdicts: Sequence[AspectResult | None]

    @property
    def move(self) -> tuple[float, float] | None:
        """The first run's value and the one farthest from it; None where none differs."""
        first = self.values[0]
        others = [value for value in self.values[1:] if value is not None and value != first]
        if first is None or not others:
            return None
        return first, max(others, key=lambda value: abs(value - first))

    def level(self, run: int) -> Level | None:
        """The level that the value is, if it is one."""
        value = self.values[run]
        return next((one for one in self.aspect.levels if one.value == value), None) if self.aspect else None


class CaseView(NamedTuple):
    """A case as the page shows it."""

    row: CaseRow
    item: str
    context: Sequence[Utterance]
    excerpt: str
    sides: Sequence[CaseResponse]
    ratings: Sequence[CaseRating]
    notes: Sequence[str]

    @property
    def turns(self) -> Sequence[Sequence[TurnView | None]]:
        """The runs' conversations turn by turn, None where one has ended; none of responses."""
        return [*zip_longest(*(side.turns for side in self.sides))]

    @property
    def moves(self) -> Sequence[tuple[str, tuple[float, float]]]:
        """The first few aspects that differ between runs, with two values each."""
        moved = [(rating.name, rating.move) for rating in self.ratings if rating.aspect and rating.move]
        return [(name, move) for name, move in moved if move][:MOST_MOVES]


class RunCases(NamedTuple):
    """What was read of one run's responses: the results by position, and people's ratings that may concern them."""

    batch: Batch
    found: Mapping[int, Result]
    ratings: Sequence[StoredRating]


async def read_run_cases(container: Container, project: str, batch: Batch, positions: Sequence[int]) -> RunCases:
    """The run's responses at these positions; what was erased meanwhile is left out. Texts of an adopted run are read
    from its files."""
    found = await container.dashboard.browser.read(project, batch.id, positions)
    found = await container.texts.fill(project, batch, found)
    ratings = await container.ratings.service.ratings.of_results(project, batch.id, [*found.values()])
    return RunCases(batch, found, [rating for _, rating in ratings])


async def read_cases(
    container: Container, project: str, runs: Sequence[Batch], rubric: Rubric | None, rows: Sequence[CaseRow]
) -> list[CaseView]:
    """The cases with all texts. What was erased meanwhile is left out."""
    read = []
    for number, batch in enumerate(runs):
        positions = [place for row in rows if (place := row.positions[number]) is not None]
        read.append(await read_run_cases(container, project, batch, positions))
    return view_cases(read, rubric, rows)


def view_cases(runs: Sequence[RunCases], rubric: Rubric | None, rows: Sequence[CaseRow]) -> list[CaseView]:
    """The cases with what was read of each run; those of which nothing was are left out."""
    views = []
    for row in rows:
        results = [
            None if place is None else run.found.get(place) for place, run in zip(row.positions, runs, strict=True)
        ]
        known = next((one for one in results if one is not None), None)
        if known is None:
            continue
        sides = [
            view_side(row.counts[number], run.batch, results, number, run.ratings, rubric=rubric)
            for number, run in enumerate(runs)
        ]
        views.append(view_case(row, known, results, sides, rubric))
    return views


def view_side(
    count: int,
    batch: Batch,
    results: Sequence[Result | None],
    number: int,
    ratings: Sequence[StoredRating],
    *,
    rubric: Rubric | None,
) -> CaseResponse:
    """A run's response beside the others'."""
    one, first = results[number], results[0]
    if one is None:
        return CaseResponse(None, count, "", None, None, ())
    names = ResponseNames(one.id, batch, one.entry, one.candidate.metadata.get(SYSTEM))
    raters = view_ratings(ratings, names)
    address = f"/runs/{batch.id}/items/{one.entry.position}"
    turns = list_turns(one.candidate, one.evaluation, rubric, raters)
    if turns:
        return CaseResponse(one, count, address, None, None, raters, turns)
    context = one.candidate.context
    known = next(each.candidate.context for each in results if each is not None)
    pieces = mark_difference(first.candidate.response, one.candidate.response) if number and first is not None else None
    other = None if context == known else context
    return CaseResponse(one, count, address, pieces, other, raters)


def mark_difference(before: str, after: str) -> Sequence[Piece] | None:
    """How two responses differ, character by character; None where they are equal, too long for that, or unrelated."""
    if before == after or max(len(before), len(after)) > MOST_COMPARED:
        return None
    pieces = compare_clusters(CLUSTER.findall(before), CLUSTER.findall(after))
    alike = sum(len(piece.text) for piece in pieces if piece.kind == "same")
    return pieces if 2 * alike >= LEAST_ALIKE * (len(before) + len(after)) else None


def compare_clusters(before: Sequence[str], after: Sequence[str]) -> list[Piece]:
    """The difference of two texts in characters as readers see them: each is one code point for the comparison."""
    numbers: dict[str, str] = {}
    old, new = (
        "".join(numbers.setdefault(one, chr(0x10000 + len(numbers))) for one in text) for text in (before, after)
    )
    back = {number: one for one, number in numbers.items()}
    pieces = join_changes(compare_texts(old, new) if old and new else replace_text(old, new))
    return [Piece(piece.kind, "".join(back[one] for one in piece.text)) for piece in pieces]


def join_changes(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with changes joined that a single common character keeps apart: it is common by chance."""
    joined: list[Piece] = []
    gone = new = ""
    for number, (kind, text) in enumerate(pieces):
        if kind == "gone":
            gone += text
        elif kind == "new":
            new += text
        elif len(text) == 1 and (gone or new) and number + 1 < len(pieces):
            gone, new = gone + text, new + text
        else:
            joined += [*replace_text(gone, new), Piece("same", text)]
            gone = new = ""
    return [*joined, *replace_text(gone, new)]


def view_case(
    row: CaseRow,
    known: Result,
    results: Sequence[Result | None],
    sides: Sequence[CaseResponse],
    rubric: Rubric | None,
) -> CaseView:
    """The case with its ratings in the rubric's order."""
    aspects = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    ordered = [*aspects, *(composite.id for composite in rubric.composites)] if rubric else []
    ratings = []
    for name in [*ordered, *(each for each in row.values if each not in ordered)]:
        values = row.values.get(name, [None] * len(results))
        verdicts = [one.evaluation.aspects.get(name) if one is not None and one.evaluation else None for one in results]
        if any(value is not None for value in values) or any(verdicts):
            ratings.append(CaseRating(name, aspects.get(name), values, verdicts))
    notes = [
        code
        for one in results
        if one is not None and one.evaluation
        for code in (warned.code for warned in one.evaluation.warnings)
        if code != "baseline-judge"
    ]
    context = known.candidate.context
    excerpt = show_beginning(context[-1].text if context else known.candidate.response)
    return CaseView(row, known.entry.item, context, excerpt, sides, ratings, list(dict.fromkeys(notes)))


def show_beginning(text: str) -> str:
    """The text's beginning on one line."""
    line = " ".join(text[: 4 * EXCERPT_CHARACTERS].split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"
