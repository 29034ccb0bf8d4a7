"""What callers may request of the analyses, of a comparison and of a gate."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from saiten.core.messages import Message
from saiten_server.core.batch import BatchId
from saiten_server.core.model import Finite, Id, RubricName, Value, listed, refuse
from saiten_server.core.reports import Alpha, Decorrelation, Looks, Quantile

Seed = Annotated[int, Field(ge=0, lt=2**32)]
AspectName = Annotated[str, Field(min_length=1, max_length=128)]
LabelValue = Annotated[Finite, Field(ge=-1e15, le=1e15)]
Values = Literal["ratings", "scores"]
"""Human ratings, or the values of a judge or a metric."""

TAKEN = ("system", "item", "dialogue", "rater", "ratings", "labels", "similarity", "probability")
"""Fields of a record that have another meaning and cannot hold scores."""


class AnalysisRequest(Value):
    """Where the values come from: `data`, records as in NDJSON, or the results and ratings of one or more batches.

    `rubric` checks aspects and scales, `aspects` restricts them, and `scores_field` names the records' field that holds
    the values of a metric or a judge. A batch uses its own rubric, and `aspects` selects from the rated aspects.
    """

    data: Annotated[tuple[Any, ...], listed(minimum=1)] | None = None
    batch: BatchId | None = None
    batches: Annotated[tuple[BatchId, ...], listed(minimum=1, maximum=64)] | None = None
    rubric: RubricName | None = None
    aspects: Annotated[tuple[AspectName, ...], listed(minimum=1, maximum=256)] | None = None
    scores_field: Annotated[str, Field(min_length=1, max_length=64)] = "scores"
    labels: dict[Annotated[str, Field(min_length=1, max_length=1)], LabelValue] | None = Field(
        default=None, description="ratings that the letters of a record's `labels` stand for, one letter a rater"
    )
    label_aspect: Id = "label"

    @property
    def batch_ids(self) -> tuple[str, ...]:
        """The ids of the batches, in order."""
        return self.batches or ((self.batch,) if self.batch is not None else ())

    @model_validator(mode="after")
    def _check_source(self) -> AnalysisRequest:
        given = [name for name in ("data", "batch", "batches") if getattr(self, name) is not None]
        refuse("AnalysisRequest", [((name,), Message("field-beside", other=given[0])) for name in given[1:]])
        if self.scores_field in TAKEN:
            refuse("AnalysisRequest", [(("scores_field",), Message("field-of-other-meaning", field=self.scores_field))])
        return self


class AgreementRequest(AnalysisRequest):
    """How far raters agree."""


class CorrelationRequest(AnalysisRequest):
    """How far scores agree with human ratings.

    `match` names, by score, the rating of another name that it is compared with, such as `{"mate": "acceptability"}`.
    """

    match: Annotated[dict[AspectName, AspectName], Field(max_length=64)] = Field(default_factory=dict)

    resamples: Annotated[int, Field(ge=100, le=20_000)] = 2000
    seed: Seed = 0


class JudgesRequest(CorrelationRequest):
    """Which scorer agrees best with people: judges, language paths, blends, reference metrics and composites, side by
    side. The records' scores are `{scorer: {aspect: number}}`; each of several batches is a scorer by its name.

    With `records` the report holds the records that it was made of, as a file for this analysis has them.
    """

    records: bool = Field(default=False, description="whether the report holds the records that it was made of")


class HierarchyRequest(AnalysisRequest):
    """Which aspect merely follows another."""

    alpha: Alpha = 0.01
    method: Decorrelation = "principal-axis"
    values: Values = "ratings"


class CompositeFitRequest(AnalysisRequest):
    """The weights of a linear composite, by default the first one of the rubric."""

    rubric: RubricName | None = "lfqa"
    composite: Id | None = None
    target: Id = "acceptability"
    seed: Seed = 0


class BlendFitRequest(AnalysisRequest):
    """The weight w of the blend."""

    aspect: Id = "relevance"
    folds: Annotated[int, Field(ge=2, le=20)] = 5
    statistic: Literal["spearman", "pearson"] = "spearman"
    seed: Seed = 0


class WinRatesRequest(AnalysisRequest):
    """How often each system responds best. `values` default to scores for batches, else to ratings."""

    values: Values | None = None


class CorrectedRequest(AnalysisRequest):
    """What people would say, from the judge's scores of all items and people's ratings of some.

    `ranges` holds the lowest and the highest value by aspect: a rating or a score outside is refused. `probability` in
    a record is that with which its item was chosen for people to rate, where not all had the same. With `looks` at
    `any`, figures hold however often they are looked at while people go on rating. `margin` asks how many more ratings
    would bring each corrected mean to ± so much.
    """

    alpha: Alpha = 0.05
    looks: Looks = "once"
    margin: Annotated[Finite, Field(gt=0, le=1e15)] | None = None
    units: Literal["clusters", "independent"] = "clusters"
    quantile: Quantile = "t"
    ranges: Annotated[
        dict[AspectName, Annotated[tuple[LabelValue, LabelValue], Field(strict=False)]], Field(max_length=256)
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_ranges(self) -> CorrectedRequest:
        wrong = [name for name, (low, high) in self.ranges.items() if low >= high]
        refuse("CorrectedRequest", [(("ranges", name), Message("first-below-second")) for name in wrong])
        return self


def read_ranges(text: str) -> dict[str, list[float]]:
    """`fluency=1:5,overall=0:1` as scales by aspect; raises ValueError."""
    found: dict[str, list[float]] = {}
    for part in text.split(","):
        name, _, ends = part.strip().rpartition("=")
        low, high = map(float, ends.split(":"))
        if not name or name in found:
            raise ValueError(part)
        found[name] = [low, high]
    return found


REQUESTS: dict[str, type[AnalysisRequest]] = {
    "agreement": AgreementRequest,
    "correlation": CorrelationRequest,
    "judges": JudgesRequest,
    "hierarchy": HierarchyRequest,
    "composite-fit": CompositeFitRequest,
    "blend-fit": BlendFitRequest,
    "win-rates": WinRatesRequest,
    "corrected": CorrectedRequest,
}
"""By the name of the analysis in the path and on the command line."""
