"""Human ratings as conversations that a judge can be fine-tuned on.

System and user message are what Saiten's judge is sent, the assistant's is the reply that Saiten's parser reads. So a
model that has learned them is asked, and answers, as it was taught.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.dialogue import Dialogue, digest_context
from saiten_server.core.errors import MOST_FAULTS, InvalidLines, InvalidRequest
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.model import digest
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.validation import clip
from saiten_server.judging.prompt import SCREEN, build_prefix, enclose, group_aspects, text_reply
from saiten_server.stats.observations import Observations
from saiten_server.text.injection import inspect_dialogue

Label = Literal["median", "each"]
Ratings = Mapping[str, int]  # a level by aspect


@dataclass(frozen=True)
class TrainingCandidate:
    """A response with what it answers. `system` is empty where none is named."""

    item: str
    system: str
    dialogue: Dialogue
    references: tuple[str, ...] = ()

    def request(self, rubric: Rubric) -> dict[str, Any]:
        """What `saiten score` takes; the item's id stands in the metadata, and so comes back with the result."""
        metadata = {"item": self.item} | ({"system": self.system} if self.system else {})
        shown = {"reference": list(self.references)} if self.references else {}
        return {"rubric": rubric.name, **self.dialogue.model_dump(mode="json"), **shown, "metadata": metadata}


@dataclass(frozen=True)
class JudgeCall:
    """One call of the judge with the reply that people's ratings ask for. `candidate` is the candidate's position."""

    candidate: int
    aspects: tuple[Aspect, ...]
    ratings: Ratings
    messages: tuple[Mapping[str, str], ...]

    @property
    def line(self) -> str:
        """The conversation as a line of chat JSONL, without its line break."""
        return json.dumps({"messages": list(self.messages)}, ensure_ascii=False)


@dataclass(frozen=True)
class Matching:
    """`rows` holds the rows of ratings by candidate position. `strangers` are (line, item) of ratings without a
    candidate."""

    rows: Mapping[int, Sequence[int]]
    strangers: Sequence[tuple[int, str]] = ()


@dataclass
class Curriculum:
    """The training conversations. `unrated` counts candidates without a rating, `incomplete` labels that rate
    only some of the aspects of one call."""

    conversations: list[JudgeCall] = field(default_factory=list)
    unrated: int = 0
    incomplete: int = 0

    def unseen(self, rubric: Rubric) -> dict[str, list[int]]:
        """By aspect the levels that no conversation shows; a model will hardly ever give a level that it never saw."""
        shown = {(name, value) for one in self.conversations for name, value in one.ratings.items()}
        missing = {
            aspect.id: [value for value in aspect.values if (aspect.id, value) not in shown]
            for aspect in rubric.aspects
        }
        return {name: values for name, values in missing.items() if values}


def check_levels(observations: Observations, rubric: Rubric) -> None:
    """Raises InvalidLines for every rating that is not a level of its aspect, such as a mean of several raters'."""
    faults: list[tuple[int, Message]] = []
    total = 0
    for name, column in observations.ratings.items():
        aspect = rubric.aspect(name)
        wrong = np.flatnonzero(~np.isnan(column) & ~np.isin(column, aspect.values))
        total += len(wrong)
        levels = ", ".join(map(str, aspect.values))
        faults += [
            (
                line_of(observations, row),
                Message("not-a-level-of-it", name=repr(name), value=float(column[row]), levels=levels),
            )
            for row in wrong[:MOST_FAULTS]
        ]
    if total:
        raise InvalidLines(faults, total)


def line_of(observations: Observations, row: int) -> int:
    """The 1-based number of the line that the row stood on; the row's own where lines are not known."""
    return int(observations.lines[row]) if observations.lines is not None else int(row) + 1


def match_ratings(candidates: Sequence[TrainingCandidate], observations: Observations) -> Matching:
    """Which ratings are of which candidate. By item and system. Where either side names no system, by the item alone,
    if it has one candidate. Raises InvalidLines where several candidates, or ratings of several systems, would fit."""
    by_item: dict[str, dict[str, int]] = {}
    for position, one in enumerate(candidates):
        by_item.setdefault(one.item, {})[one.system] = position
    by_unit: dict[int, list[int]] = {}
    for row, number in enumerate(observations.unit.tolist()):
        by_unit.setdefault(number, []).append(row)
    rows: dict[int, Sequence[int]] = {}
    strangers, faults = [], []
    for unit in by_unit.values():
        item = observations.items[observations.item[unit[0]]]
        system = observations.systems[observations.system[unit[0]]]
        line, known = line_of(observations, unit[0]), by_item.get(item, {})
        found = locate_candidate(system, known)
        if found is None and len(known) > 1 and not system:
            faults.append((line, Message("item-of-several-systems", item=repr(clip(item)), count=len(known))))
        elif found is None:
            strangers.append((line, item))
        elif found in rows:
            faults.append((line, Message("item-rated-under-other-system", item=repr(clip(item)))))
        else:
            rows[found] = unit
    if faults:
        raise InvalidLines(faults)
    return Matching(rows, strangers)


def locate_candidate(system: str, known: Mapping[str, int]) -> int | None:
    """The position of the item's candidate by that system, given all its candidates by theirs; None without one."""
    if system in known or len(known) != 1:
        return known.get(system)
    alone, position = next(iter(known.items()))
    return None if system and alone else position


def labels_of(rows: Iterable[int], observations: Observations, label: Label) -> list[Ratings]:
    """A candidate's labels: each rater's ratings, or the lower median of all, which is always a level."""
    by_rater: dict[int, dict[str, int]] = {}
    for row in rows:
        own = by_rater.setdefault(int(observations.rater[row]), {})
        own |= {name: int(column[row]) for name, column in observations.ratings.items() if not np.isnan(column[row])}
    if label == "each":
        return [ratings for ratings in by_rater.values() if ratings]
    values = defaultdict[str, list[int]](list)
    for name, value in chain.from_iterable(ratings.items() for ratings in by_rater.values()):
        values[name].append(value)
    return [{name: statistics.median_low(each) for name, each in values.items()}] if values else []


def build_curriculum(
    candidates: Sequence[TrainingCandidate],
    observations: Observations,
    matching: Matching,
    rubric: Rubric,
    language: str,
    *,
    structured: bool,
    label: Label,
) -> Curriculum:
    """Every conversation, in the order of the candidates, then of the raters, then of the calls. Raises
    LanguageNotSupported. The ratings must be levels, see `check_levels`."""
    groups = group_aspects(rubric)
    screened = structured and JudgeOptions().screens(rubric.version)  # as it will be asked
    form = {"explain": False, "structured": structured, "references": rubric.references, "screen": screened}
    systems = [build_prefix(rubric, language, aspects, **form).system for aspects in groups]
    made = Curriculum()
    for position, candidate in enumerate(candidates):
        labels = labels_of(matching.rows.get(position, ()), observations, label)
        made.unrated += not labels
        user = enclose(candidate.dialogue, candidate.references if rubric.references else (), language)
        # Raters do not answer this, so the rules do.
        suspected = bool(inspect_dialogue(candidate.dialogue, aspects=rubric.aspect_names)) if screened else None
        for ratings in labels:
            for aspects, system in zip(groups, systems, strict=True):
                given = {aspect.id: ratings[aspect.id] for aspect in aspects if aspect.id in ratings}
                if len(given) == len(aspects):
                    reply = write_reply(aspects, given, language, structured=structured, addressed=suspected)
                    texts = {"system": system, "user": user, "assistant": reply}
                    messages = tuple({"role": role, "content": content} for role, content in texts.items())
                    made.conversations.append(JudgeCall(position, aspects, given, messages))
                else:
                    made.incomplete += bool(given)
    return made


def write_reply(
    aspects: tuple[Aspect, ...], ratings: Ratings, language: str, *, structured: bool, addressed: bool | None = None
) -> str:
    """The whole verdict in the format that is asked for, as the prompt's worked example writes it. `addressed`: whether
    a text addresses its evaluator, where that is asked."""
    if structured:
        screened: dict[str, bool | int] = {} if addressed is None else {SCREEN: addressed}
        return json.dumps(screened | {aspect.id: ratings[aspect.id] for aspect in aspects}, separators=(",", ":"))
    return text_reply(aspects, language, {aspect.id: str(ratings[aspect.id]) for aspect in aspects}, {})


def hold_out(
    candidates: Sequence[TrainingCandidate], positions: Sequence[int], share: float, seed: int
) -> frozenset[int]:
    """The positions to validate on: at most `share` of those given (between 0 and 1), but one dialogue at least.

    Items are never split, nor are items with one dialogue context, since a model that was trained on one answer has
    seen the question. Which are held out depends on ids and seed alone, not on the order. Raises
    InvalidRequest where nothing would be left to train on.
    """
    groups = group_candidates(candidates, positions)
    if len(groups) < 2:
        raise InvalidRequest(Message("training-one-dialogue"))
    ranked = sorted(groups, key=lambda group: digest([seed, sorted({candidates[one].item for one in group})]))
    held: set[int] = set()
    for group in ranked:
        if len(held) + len(group) <= share * len(positions):
            held.update(group)
    smallest = min(ranked, key=len)
    return frozenset(held or smallest)


def group_candidates(candidates: Sequence[TrainingCandidate], positions: Sequence[int]) -> list[list[int]]:
    """The positions in groups that share neither items nor dialogue contexts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, items = np.unique([candidates[one].item for one in positions], return_inverse=True)
    digests = [digest_context(candidates[one].dialogue.context) for one in positions]
    _, contexts = np.unique(digests, return_inverse=True)
    # A graph whose nodes are items and, after them, contexts; a candidate is the edge between its two.
    nodes = len(positions)
    edges = coo_array((np.ones(nodes), (items, nodes + contexts)), shape=(2 * nodes, 2 * nodes))
    _, parts = connected_components(edges, directed=False)
    groups: dict[int, list[int]] = {}
    for one, item in zip(positions, items.tolist(), strict=True):
        groups.setdefault(int(parts[item]), []).append(one)
    return list(groups.values())
