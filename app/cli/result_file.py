"""Results as a run: what `GET /v1/batches/{id}/results` and `saiten score` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.cli.items import InvalidItems
from app.domain.clusters import name_dialogue
from app.domain.comparison import Run, RunItem
from app.domain.model import Finite
from app.domain.rubric import Rubric, name_version, split_name
from app.domain.validation import explain
from app.meta.runs import are_numbered, scales_of

Placed = tuple[str, Any]
"""Where a value stands (`base.ndjson:3`), and the value."""


class Part(BaseModel):
    """A part of a result. Fields that a later version may add are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class RubricPart(Part):
    id: str
    version: int | None = None

    @property
    def name(self) -> str:
        return name_version(self.id, self.version)


class AspectPart(Part):
    mean: Finite | None
    blended: Finite | None = None


class ResultLine(Part):
    """What of a result makes a run. One that failed has neither aspects nor, in a batch, a rubric."""

    status: str
    item: str | None = None
    candidate: int | None = None
    rubric: RubricPart | None = None
    aspects: dict[str, AspectPart] = Field(default_factory=dict)
    composites: dict[str, Finite | None] = Field(default_factory=dict)
    signature: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    dialogue: str | None = None
    cluster: str | None = None


def is_result(value: object) -> bool:
    """Whether this is a result, rather than an item to be scored."""
    return isinstance(value, dict) and "status" in value and "context" not in value


def read_results(values: Sequence[Placed]) -> list[ResultLine]:
    """Every result. Raises InvalidItems that names the line and the field."""
    return [parse_result(where, value) for where, value in values]


def parse_result(where: str, value: object) -> ResultLine:
    """One result; raises InvalidItems where it is none."""
    if not is_result(value):
        raise InvalidItems(f"{where}: this is no result of `saiten score` or of a batch, as the lines before it are")
    try:
        found = ResultLine.model_validate(value)
    except ValidationError as error:
        pointer, detail = explain(error, value)[0]
        raise InvalidItems(f"{where}: {pointer or 'the result'}: {detail}") from None
    if found.status != "failed" and not (found.aspects and found.rubric):
        raise InvalidItems(f"{where}: this result has no aspects or names no rubric")
    return found


def rubric_of(name: str, results: Sequence[ResultLine]) -> str | None:
    """The rubric that all results are by, with its version; None where all failed. Raises InvalidItems for several."""
    found = {result.rubric.name for result in results if result.rubric is not None}
    # One that failed before it was judged names no version.
    versioned = {split_name(each)[0] for each in found if split_name(each)[1] is not None}
    names = sorted(found - versioned)
    if len(names) > 1:
        raise InvalidItems(f"{name}: it holds results by the rubrics {', '.join(names)}; a run has one")
    return names[0] if names else None


def make_run(name: str, results: Sequence[ResultLine], rubric: Rubric) -> Run:
    """The run of these results."""
    items = [describe(result, number, rubric) for number, result in enumerate(results)]
    return Run(
        name=name,
        items=items,
        expected=len(results),
        signatures=Counter(result.signature for result in results if result.signature is not None),
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_numbered(item.item for item in items),
        best=rubric.best,
    )


def cluster_of(result: ResultLine) -> str | None:
    """The digest of the dialogue that the result is a turn of; results that were written by hand name it alone."""
    return result.cluster or (name_dialogue(result.dialogue) if result.dialogue else None)


def describe(result: ResultLine, number: int, rubric: Rubric) -> RunItem:
    """One result's values; `number` from 0 stands for an item without a name."""
    aspects = {aspect.id: result.aspects.get(aspect.id) for aspect in rubric.aspects}
    blended = {name: part.blended for name, part in aspects.items() if part is not None and part.blended is not None}
    return RunItem(
        item=str(number) if result.item is None else result.item,
        candidate=result.candidate,
        system=result.metadata.get("system"),
        context=None,
        ratings={name: None if part is None else part.mean for name, part in aspects.items()},
        composites={each.id: result.composites.get(each.id) for each in rubric.composites},
        blended=blended,
        cluster=cluster_of(result),
    )
