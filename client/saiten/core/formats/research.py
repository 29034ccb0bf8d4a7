"""The formats of research data that hold people's ratings: DBDC3, USR, FED, DSTC9 and UniEval.

Files of these kinds have few ids. Answers to one context get one id, made of the context's texts, so that the same
context is the same item in all of a file's systems. A rater who has no name is named by their place in the list.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any

from saiten.core.formats.headings import normalize
from saiten.core.formats.mapping import (
    MOST_ID_CHARACTERS,
    NO_RESPONSE,
    USERS,
    Skipped,
    Spoken,
    make_item,
    read_spoken_lines,
    take_spoken,
)
from saiten.core.formats.records import Record, is_blank, write_text
from saiten.core.formats.turns import MOST_TURNS
from saiten.core.language import mark, tell

RATINGS, RATER, COMMENT, SCORES = "ratings", "ratings.rater", "ratings.comment", "ratings.scores"
"""Where a field went that holds ratings by people, or what stands beside these; the last is a metric's."""

BREAKDOWN = {"O": 1.0, "T": 0.5, "X": 0.0}
"""What the labels of the Dialogue Breakdown Detection Challenge are worth: no breakdown, possibly one, a breakdown."""

CONTINUES, OVERALL = "no_breakdown", "overall"
KEYS = (("utterance", "context"), ("speaker", "context"), ("turn-index", "id"))
"""The fields of a turn of DBDC3, and where they go."""

MOST_ASPECT_CHARACTERS = 64
MOST_COMMENT_CHARACTERS = 2000
DIGEST_BYTES = 8
NO_REFERENCE = "NO REF"
OVERALL_OF_DSTC9 = "human (overall)"
ASPECTS_OF_DSTC9 = {
    *("consistent", "likeable", "diverse", "informative", "coherent", "understanding", "flexible", "topic depth"),
    *("error recovery", "inquisitive", OVERALL_OF_DSTC9),
}
"""The fields of a record of DSTC9 that are ratings by people; others are a metric's."""

NOT_NUMBERS = mark("no number")
AFTER = mark("what follows the last answer")
FACTS = mark("facts that the system was given, which no one said")

RatingRecord = dict[str, Any]


@dataclass(frozen=True)
class RatedItem:
    """An item with what people said of its response: records as `saiten analyze` and `saiten ratings` read them."""

    value: dict[str, Any]
    ratings: Sequence[RatingRecord]


FoundItems = Iterator[RatedItem | Skipped]


def name_aspect(heading: str) -> str:
    """`Maintains Context` as `maintains_context`; empty where nothing of it can be part of a name."""
    return re.sub(r"[^a-z0-9.-]+", "_", heading.lower()).strip("_.-")[:MOST_ASPECT_CHARACTERS]


def digest(*texts: str) -> str:
    """An id made of these texts."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=DIGEST_BYTES).hexdigest()


def is_number(value: Any) -> bool:
    """Whether a value is a rating."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def take_ratings(record: Record, lists: Mapping[str, Any], target: str = RATINGS) -> list[dict[str, float]]:
    """The ratings by rater, in order, from a list, or one number, for each path; what is no number is told."""
    raters: list[dict[str, float]] = []
    for path, given in lists.items():
        aspect = OVERALL if path == OVERALL_OF_DSTC9 else name_aspect(path.rpartition(".")[2])
        values = given if isinstance(given, list) else [given]
        if not all(map(is_number, values)):
            record.leave(f"{path}[]" if isinstance(given, list) else path, tell(NOT_NUMBERS))
        if not aspect or not any(map(is_number, values)):
            continue
        record.move(path, target)
        raters += [{} for _ in range(len(values) - len(raters))]
        for rater, value in zip(raters, values, strict=False):
            if is_number(value):
                rater[aspect] = value
    return raters


def name_raters(raters: Sequence[dict[str, float]]) -> list[RatingRecord]:
    """Ratings by raters, named by their places."""
    return [{"rater": f"{place}", "ratings": given} for place, given in enumerate(raters, start=1) if given]


def rate(item: dict[str, Any], ratings: Sequence[RatingRecord]) -> RatedItem:
    """The item with its ratings, which name it, its system and its dialogue."""
    named = {"item": item["id"]}
    if "system" in item.get("metadata", {}):
        named["system"] = item["metadata"]["system"]
    if "dialogue" in item:
        named["dialogue"] = item["dialogue"]
    return RatedItem(item, [{**one, **named} for one in ratings])


def build(
    record: Record,
    context: list[Spoken],
    response: str,
    ratings: Sequence[RatingRecord],
    apart: str = "",
    **fields: str,
) -> RatedItem | Skipped:
    """The item, whose id is made of its context and of what else tells it `apart`; or why there is none."""
    response = response.strip()
    if not response:
        return Skipped(tell(NO_RESPONSE))
    try:
        item = make_item(record, context, response, {name.replace("__", "."): path for name, path in fields.items()})
    except Skipped as skipped:
        return skipped
    return rate({"id": digest(*(spoken["text"] for spoken in item["context"]), apart), **item}, ratings)


def split_text(text: Any) -> list[Spoken]:
    """One utterance a line, where lines name no speakers."""
    found = read_spoken_lines(write_text(text) or "", "history") if not is_blank(text) else []
    if any(spoken.speaker for spoken in found):
        return found
    return [Spoken(None, line.strip()) for line in (write_text(text) or "").splitlines() if line.strip()]


def strip_speaker(text: Any) -> str:
    """An answer without the name of who gave it."""
    found = read_spoken_lines(write_text(text) or "", "utterance")
    return "\n".join(spoken.text for spoken in found).strip()


def read_unieval(record: Record) -> FoundItems:
    """One system's output, with the means of people's ratings, and a metric's scores where they stand beside them."""
    record.move("source", "context")
    record.move("system_output", "response")
    facts = write_text(record.get("context")) or ""
    if facts.strip():
        record.leave("context", tell(FACTS))
    ratings = [{RATINGS: means} for means in take_ratings(record, list_paths(record, "scores"))[:1]]
    scored = take_ratings(record, list_paths(record, "predict_scores"), SCORES)[:1]
    ratings = [{**one, "scores": scores} for one in ratings for scores in scored] or ratings
    response = write_text(record.get("system_output")) or ""
    yield build(
        record,
        split_text(record.get("source")),
        response,
        ratings,
        facts,
        reference="reference",
        metadata__system="system_id",
    )


def list_paths(record: Record, field: str) -> dict[str, Any]:
    """What an object holds, by path."""
    inner = record.get(field)
    return {f"{field}.{name}": value for name, value in inner.items()} if isinstance(inner, dict) else {}


def read_usr(record: Record) -> FoundItems:
    """A context with the responses of several systems, each with a list of ratings for each aspect."""
    record.move("context", "context")
    record.move("responses[].response", "response")
    facts = write_text(record.get("fact")) or ""
    if facts.strip():
        record.leave("fact", tell(FACTS))
    responses = record.get("responses")
    for number, given in enumerate(responses if isinstance(responses, list) else []):
        if not isinstance(given, dict):
            record.leave("responses[]", "")
            continue
        lists = {f"responses[].{name}": value for name, value in given.items() if isinstance(value, list)}
        ratings = name_raters(take_ratings(record, lists))
        record.value["responses[].model"] = given.get("model")
        found = build(
            record,
            split_text(record.get("context")),
            write_text(given.get("response")) or "",
            ratings,
            facts,
            metadata__system="responses[].model",
        )
        yield Skipped(": ".join((f"responses[{number}]", str(found)))) if isinstance(found, Skipped) else found
    record.value.pop("responses[].model", None)


def read_fed(record: Record) -> FoundItems:
    """A response with a list of ratings for each aspect; or, where none stands beside it, a whole dialogue."""
    ratings = name_raters(take_ratings(record, list_paths(record, "annotations")))
    spoken = split_text(record.get("context"))
    record.move("context", "context")
    if is_blank(record.get("response")):
        yield build_dialogue(record, spoken, ratings)
        return
    record.move("response", "response")
    response = strip_speaker(record.get("response"))
    yield build(record, spoken, response, ratings, response, metadata__system="system")


def build_dialogue(record: Record, spoken: list[Spoken], ratings: Sequence[RatingRecord]) -> RatedItem | Skipped:
    """A whole dialogue that people rated: its last answer is the response."""
    last = len(spoken)
    while last and normalize(spoken[last - 1].speaker or "") in USERS:
        last -= 1
    if last < len(spoken):
        record.leave("context", tell(AFTER))
    response = spoken[last - 1].text if last else ""
    context = spoken[: max(0, last - 1)]
    return build(record, context, response, ratings, response, metadata__system="system")


def join_raters(records: Iterator[Record]) -> Iterator[Record]:
    """Records of DSTC9, of which each is one rater's: those of one dialogue follow each other, and become one."""
    for _, group in groupby(records, key=lambda record: str(record.value.get("context") or record.where)):
        first, *others = group
        for other in others:
            first.value |= {name: value for name, value in other.value.items() if name not in first.value}
        if others:
            whole = [name for name in first.value if name in ASPECTS_OF_DSTC9]
            first.value |= {name: [record.value.get(name) for record in (first, *others)] for name in whole}
        yield first


def read_dstc9(record: Record) -> FoundItems:
    """A dialogue with ratings; or a row of the table that Yeh, Eskenazi and Mehri (2021) made."""
    if "contexts" in record.value:
        yield read_row(record)
        return
    lists = {name: value for name, value in record.value.items() if name in ASPECTS_OF_DSTC9}
    ratings = name_raters(take_ratings(record, lists))
    record.move("context", "context")
    yield build_dialogue(record, split_text(record.get("context")), ratings)


def read_row(record: Record) -> RatedItem | Skipped:
    """A row of the table: means of people's ratings, of one aspect or of several."""
    several = list_paths(record, "scores")
    means = take_ratings(record, several or {"scores": record.get("scores")})[:1]
    if not several:
        means = [{OVERALL: one["scores"]} for one in means]
    ratings = [{RATINGS: one} for one in means]
    record.move("responses", "response")
    response = write_text(record.get("responses")) or ""
    fields = {} if record.get("references") == NO_REFERENCE else {"reference": "references"}
    context = take_spoken(record, "contexts")
    return build(record, context, response, ratings, response, metadata__system="models", **fields)


def open_columns(record: Record) -> Iterator[Record]:
    """The rows of an object of lists of the same length."""
    columns = {name: column for name, column in record.value.items() if isinstance(column, list)}
    rows = max(map(len, columns.values()), default=0)
    if "contexts" not in columns or any(len(column) != rows for column in columns.values()):
        yield record
        return
    record.entered += list(columns)
    for number in range(rows):
        yield Record(f"{record.where}: row {number}", {name: column[number] for name, column in columns.items()})


def read_dbdc(record: Record) -> FoundItems:
    """A dialogue whose system turns have labels of breakdown by many annotators: an item for each of these turns."""
    given, spoken = record.get("turns"), list[Spoken]()
    turns = given if isinstance(given, list) else []
    if len(turns) > MOST_TURNS:
        record.leave("turns[]", tell("more than {most:,} turns", most=MOST_TURNS))
    for name, target in KEYS:
        record.move(f"turns[].{name}", target)
    for place, turn in enumerate(turns[:MOST_TURNS]):
        if not isinstance(turn, dict):
            record.leave("turns[]", "")
            continue
        text, speaker = write_text(turn.get("utterance")) or "", write_text(turn.get("speaker"))
        index = turn.get("turn-index")
        number = index if isinstance(index, int) else place
        labelled = turn.get("annotations")
        ratings = list(read_labels(record, labelled if isinstance(labelled, list) else []))
        if ratings:
            found = build(record, spoken, text, ratings, text, dialogue="dialogue-id")
            yield (
                Skipped(tell("turn {value} {problem}", value=number, problem=found))
                if isinstance(found, Skipped)
                else name_turn(found, number)
            )
        if text.strip():
            spoken = [*spoken, Spoken(speaker or None, text)]


def name_turn(found: RatedItem, number: int) -> RatedItem:
    """The item, named by its dialogue and its turn, where the dialogue has a name."""
    if "dialogue" not in found.value:
        return found
    name = f"{found.value['dialogue']}-{number}"[:MOST_ID_CHARACTERS]
    return rate({**found.value, "id": name}, [{**one, "item": name} for one in found.ratings])


def read_labels(record: Record, labelled: Sequence[Any]) -> Iterator[RatingRecord]:
    """One rating for each annotator's label."""
    at = "turns[].annotations[]"
    for place, one in enumerate(labelled, start=1):
        label = one.get("breakdown") if isinstance(one, dict) else None
        worth = BREAKDOWN.get(label) if isinstance(label, str) else None
        if worth is None:
            record.leave(f"{at}.breakdown", tell("neither O, T nor X"))
            continue
        rating: RatingRecord = {
            "rater": write_text(one.get("annotator-id")) or f"{place}",
            "ratings": {CONTINUES: worth},
        }
        for name, target in (("breakdown", RATINGS), ("annotator-id", RATER), ("comment", COMMENT)):
            record.move(f"{at}.{name}", target)
        comment = write_text(one.get("comment"))
        if comment and comment.strip():
            rating["comment"] = comment[:MOST_COMMENT_CHARACTERS]
            if len(comment) > MOST_COMMENT_CHARACTERS:
                record.leave(f"{at}.comment", tell("what is longer than a comment may be"))
        yield rating
