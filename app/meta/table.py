"""Results of batches with the human ratings that concern them, as the records that analyses read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.batch_ports import Scored
from app.domain.batch import Batch
from app.domain.human_rating import StoredRating
from app.scores import SYSTEM

Place = tuple[str, int | None, str | None]
"""Item, candidate, system; None stands for whatever there is one of."""


@dataclass(frozen=True)
class Answer:
    """One result of a batch: who said it, to what, and its values. `item` tells it from the item's other candidates of
    the same system."""

    system: str
    item: str
    result: Scored

    def record(self) -> dict[str, Any]:
        """What the analyses read, without ratings. What is blended stands as `NAME.blended`."""
        scores = self.result.scores
        means = {name: figures[0] for name, figures in scores.aspects.items()}
        blended = {f"{name}.blended": figures[1] for name, figures in scores.aspects.items() if figures[1] is not None}
        return {
            "system": self.system,
            "item": self.item,
            "scores": {**means, **scores.composites, **blended},
            **({} if scores.similarity is None else {"similarity": scores.similarity}),
        }


@dataclass
class AnswerTable:
    """The results of some batches, found by what a human rating may name them by.

    `ambiguous` counts ratings that fit several results, `unmatched` those that fit none.
    """

    answers: list[Answer] = field(default_factory=list)
    ambiguous: int = 0
    unmatched: int = 0

    def __post_init__(self) -> None:
        self._by_evaluation: dict[str, Answer] = {}
        self._by_place: dict[tuple[str | None, Place], list[Answer]] = {}
        self._owners: dict[str, str] = {}

    def add(self, batch: Batch, results: Sequence[Scored]) -> None:
        """Takes a batch's results in."""
        taken: dict[tuple[str, str], int] = {}
        for result in results:
            entry = result.entry
            system = result.scores.system or batch.metadata.get(SYSTEM) or ""
            label = self._label(system, batch)
            item = entry.item if entry.candidate is None else f"{entry.item}#{entry.candidate}"
            repeat = taken[label, item] = taken.get((label, item), -1) + 1
            answer = Answer(label, item if not repeat else f"{item}@{entry.position}", result)
            self.answers.append(answer)
            self._by_evaluation[result.evaluation] = answer
            for place in places_of(entry.item, entry.candidate, system):
                for scope in (batch.id, None):
                    self._by_place.setdefault((scope, place), []).append(answer)

    def _label(self, system: str, batch: Batch) -> str:
        """What the analyses call the system. Two batches of one system are two: a build and the build before it."""
        label = system or batch.name or batch.id
        return label if self._owners.setdefault(label, batch.id) == batch.id else f"{label} ({batch.id})"

    def find(self, rating: StoredRating) -> Answer | None:
        """The one result that the rating is of; None, and counted, where there is none or more than one."""
        if rating.evaluation is not None:
            found = [self._by_evaluation[rating.evaluation]] if rating.evaluation in self._by_evaluation else []
        else:
            place = (rating.item or "", rating.candidate, rating.system)
            found = self._by_place.get((rating.batch, place), [])
        self.ambiguous += len(found) > 1
        self.unmatched += not found
        return found[0] if len(found) == 1 else None

    def rate(self, ratings: Iterable[StoredRating]) -> Iterator[dict[str, Any]]:
        """A record for each rater of each result, with that result's values beside it.

        A rater may have rated one response more than once, by its evaluation and by its item: of an aspect the later
        rating counts, as it does where both name the response in the same way.
        """
        found: dict[tuple[str, str, str], tuple[Answer, dict[str, float]]] = {}
        for rating in ratings:
            answer = self.find(rating)
            if answer is not None:
                _, values = found.setdefault((answer.system, answer.item, rating.rater), (answer, {}))
                values.update(rating.ratings)
        for (_, _, rater), (answer, values) in found.items():
            yield {**answer.record(), "rater": rater, "ratings": widen(values, answer)}


def places_of(item: str, candidate: int | None, system: str) -> set[Place]:
    """Everything that a rating of the response may call it by."""
    candidates = {candidate, None}
    systems = {system or None, None}
    return {(item, which, who) for which in candidates for who in systems}


def widen(ratings: Mapping[str, float], answer: Answer) -> dict[str, float]:
    """The ratings, and those of blended aspects once more as what the blended value is held against."""
    blended = {name for name, figures in answer.result.scores.aspects.items() if figures[1] is not None}
    return {**ratings, **{f"{name}.blended": value for name, value in ratings.items() if name in blended}}
