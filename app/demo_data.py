"""The dialogues of `saiten demo`: single evaluations of three systems, and the runs that fill its dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Annotated, Any

from pydantic import Field

from app.bundled import broken_line, bundled_folder, read_objects, validate_objects
from app.domain.batch import BatchItem, BatchOptions, ItemId
from app.domain.dialogue import Context, Text
from app.domain.evaluation import EvaluationRequest
from app.domain.human_rating import HumanRating, Rated
from app.domain.model import Id, Value, listed

RUNS = {"runs-ko.jsonl": ("diary", "ko-comment"), "runs-ja.jsonl": ("nightly", "ja-dialogue")}
"""File → name and rubric of its runs, in the order to post them: a list of runs shows the newest first."""

BUILDS = {"bot-a": ("a-101", "a-102"), "bot-b": ("b-201", "b-202")}
"""System → its builds, the oldest first."""

RATINGS_FILE = "ratings.jsonl"
RATER = "simulated-{}"
"""Raters are counted from 1. No person has rated these runs, and the name says so wherever it shows."""


class Answers(Value):
    """One dialogue context with its responses by build. A build that is not named answers as the one before it.

    `flaws` says by build what is wrong with its response; the simulated raters are told, the judge is not.
    """

    id: ItemId
    context: Context
    responses: dict[Id, Text]
    flaws: dict[Id, str] = Field(default_factory=dict)

    def by(self, builds: Sequence[str]) -> tuple[str, str | None]:
        """The response of the last of a system's `builds`, and its flaw; raises KeyError where there is none."""
        build = next((build for build in reversed(builds) if build in self.responses), builds[0])
        return self.responses[build], self.flaws.get(build)


class ItemRatings(Value):
    """What the raters gave one response. Of each aspect the first value is the first rater's."""

    rubric: Id
    build: Id
    item: ItemId
    ratings: Annotated[dict[Id, Annotated[tuple[Rated, ...], listed(minimum=1)]], Field(min_length=1)]

    def by_rater(self, batch_id: str) -> Iterator[HumanRating]:
        """As `POST /v1/ratings` takes them, once the run is a batch."""
        for number, values in enumerate(zip(*self.ratings.values(), strict=True), start=1):
            given = dict(zip(self.ratings, values, strict=True))
            yield HumanRating(batch=batch_id, item=self.item, rater=RATER.format(number), ratings=given, simulated=True)


@dataclass(frozen=True)
class DemoRun:
    """One build's answers: `options` and `items` make a batch. `flaws` are by the item's id."""

    options: BatchOptions
    items: tuple[BatchItem, ...]
    flaws: dict[str, str]
    ratings: tuple[ItemRatings, ...]

    def lines(self) -> list[dict[str, Any]]:
        """The NDJSON of `POST /v1/batches`."""
        return [value.model_dump(mode="json", exclude_unset=True) for value in (self.options, *self.items)]


def load_demo(folder: Traversable | None = None) -> list[dict[str, Any]]:
    """Request bodies with `metadata.system` and `metadata.dialogue`, in the order to show them.

    `folder` holds `dialogues.jsonl`; by default the package's own. Raises ValueError that names file and line where a
    body is not a valid evaluation request.
    """
    file = (folder or bundled_folder("demo")).joinpath("dialogues.jsonl")
    bodies = read_objects(file)
    validate_objects(file, bodies, EvaluationRequest)
    return bodies


def load_runs(folder: Traversable | None = None, *, rated: bool = True) -> list[DemoRun]:
    """The runs in the order to post them; without ratings where `rated` is false.

    `folder` is by default the package's own. Raises ValueError that names file and line of what is not valid.
    """
    place = folder or bundled_folder("demo")
    file = place.joinpath(RATINGS_FILE)
    ratings = validate_objects(file, read_objects(file), ItemRatings) if rated else []
    return [run for name in RUNS for run in read_runs(place.joinpath(name), ratings)]


def read_runs(file: Traversable, ratings: Sequence[ItemRatings]) -> Iterator[DemoRun]:
    """The runs of one file, system by system."""
    name, rubric = RUNS[file.name]
    answers = validate_objects(file, read_objects(file), Answers)
    for number, answer in enumerate(answers, start=1):
        if missing := [builds[0] for builds in BUILDS.values() if builds[0] not in answer.responses]:
            raise broken_line(file, number, f"has no response of {missing[0]}")
    for system, builds in BUILDS.items():
        for count, build in enumerate(builds, start=1):
            said = {answer.id: answer.by(builds[:count]) for answer in answers}
            metadata = {"system": system, "build": build}
            yield DemoRun(
                # Without blending: an encoder, where there is one, would take its minutes over so many responses.
                BatchOptions(name=name, rubric=rubric, relevance=None, metadata=metadata),
                tuple(BatchItem(id=a.id, context=a.context, response=said[a.id][0]) for a in answers),
                {item: flaw for item, (_, flaw) in said.items() if flaw is not None},
                tuple(rated for rated in ratings if (rated.rubric, rated.build) == (rubric, build)),
            )
