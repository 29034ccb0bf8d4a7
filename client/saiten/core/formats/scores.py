"""What people said of answers in traces, as ratings: scores of Langfuse, annotations of spans of Phoenix.

Langfuse (API of version 3, and the download of a trace): `scores[]` with `name`, `value`, `source`, `authorUserId`,
`comment` and `observationId`; people's have the source `ANNOTATION`. Phoenix (`/v1/projects/…/span_annotations`, also
beside each span with `px trace list --include-annotations`): `name`, `annotator_kind`, `result.score`,
`result.explanation`, `user_id`; people's are of the kind `HUMAN`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saiten.core.formats.mapping import Skipped
from saiten.core.formats.records import Record, write_text
from saiten.core.formats.research import (
    COMMENT,
    MOST_COMMENT_CHARACTERS,
    RATER,
    RATINGS,
    RatedItem,
    is_number,
    name_aspect,
    rate,
)
from saiten.core.language import mark, tell

NO_PERSON = mark("scores that no person gave")
NO_NUMBER = mark("labels without a number")


@dataclass(frozen=True)
class ScoreFields:
    """Where a tool writes the parts of a score, and what tells that a person gave it."""

    path: str
    kind: str
    person: str
    value: str
    comment: str
    raters: tuple[str, ...]

    def read(self, record: Record) -> list[dict[str, Any]]:
        """One rating for each rater, of all aspects that they rated; what is none is told to the record."""
        ratings: dict[str, dict[str, Any]] = {}
        given = record.parse(self.path)
        for part in given if isinstance(given, list) else []:
            if isinstance(part, dict):
                self.take(Record("", part), record, ratings)
        return list(ratings.values())

    def take(self, one: Record, record: Record, ratings: dict[str, dict[str, Any]]) -> None:
        """Adds a score to the rating of its rater."""
        at = f"{self.path}[]"
        if one.get(self.kind) != self.person:
            record.leave(at, tell(NO_PERSON))
            return
        value, aspect = one.get(self.value), name_aspect(write_text(one.get("name")) or "")
        if not is_number(value) or not aspect:
            record.leave(f"{at}.{self.value}", tell(NO_NUMBER))
            return
        rater = next((text for path in self.raters if (text := write_text(one.get(path)))), "")
        rating = ratings.setdefault(rater, {**({"rater": rater} if rater else {}), RATINGS: {}})
        rating[RATINGS][aspect] = value
        record.move(f"{at}.{self.value}", RATINGS)
        record.move(f"{at}.name", RATINGS)
        if rater:
            record.move(f"{at}.{self.raters[0]}", RATER)
        comment = (write_text(one.get(self.comment)) or "").strip()
        if comment:
            record.move(f"{at}.{self.comment}", COMMENT)
            rating["comment"] = "\n".join(filter(None, (rating.get("comment"), comment)))[:MOST_COMMENT_CHARACTERS]


OF_LANGFUSE = ScoreFields("scores", "source", "ANNOTATION", "value", "comment", ("authorUserId", "author_user_id"))
OF_PHOENIX = ScoreFields(
    "annotations", "annotator_kind", "HUMAN", "result.score", "result.explanation", ("user_id", "identifier")
)


def rate_items(
    items: Iterable[dict[str, Any] | RatedItem | Skipped], judged: ScoreFields, record: Record
) -> Iterable[dict[str, Any] | RatedItem | Skipped]:
    """The items of a record with what people said of them."""
    ratings = judged.read(record)
    for item in items:
        yield rate(item, ratings) if ratings and isinstance(item, dict) and "id" in item else item


def part_scores(scores: Any) -> Mapping[str, list[dict[str, Any]]]:
    """The scores of a trace by the observation that they are of; those of the trace itself have none."""
    parted: dict[str, list[dict[str, Any]]] = {}
    for score in scores if isinstance(scores, list) else []:
        if isinstance(score, dict):
            name = write_text(score.get("observationId") or score.get("observation_id")) or ""
            parted.setdefault(name, []).append(score)
    return parted
