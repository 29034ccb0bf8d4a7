"""The fitted weights of Japanese coherence, as `scripts/fit_lexical.py` wrote them."""

from __future__ import annotations

import json
from functools import cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from app.adapters.lexical.features import Features
from app.domain.model import Finite, Value, digest, listed

RESOURCE = "data/lexical_weights.json"


class FittedFeature(Value):
    """One feature's part: direction · weight · (x − mean) / scale.

    Weights are never negative: the direction is set by what the feature means, so that it can only act as its name
    says. x is first cut to the range that was seen in the fit, because a line says nothing beyond its data.
    """

    name: str
    direction: Literal[-1, 1]
    lowest: Finite
    highest: Finite
    mean: Finite
    scale: Annotated[Finite, Field(gt=0)]
    weight: Annotated[Finite, Field(ge=0)]

    def contribution(self, features: Features) -> float:
        """What this feature adds to the estimate, in scale points of 0 to 1."""
        seen = min(self.highest, max(self.lowest, features[self.name]))
        return self.direction * self.weight * (seen - self.mean) / self.scale


class Weights(Value):
    """A linear model of coherence on 0 to 1, and where it comes from."""

    model: str
    aspect: Literal["coherence"]
    language: Literal["ja"]
    intercept: Finite
    features: Annotated[tuple[FittedFeature, ...], listed(minimum=1)]
    provenance: dict[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what changes an estimate: the model without its provenance."""
        return digest(self.model_dump(mode="json", exclude={"provenance"}))

    @property
    def measured_spearman(self) -> float:
        """Spearman's ρ against the mean of 30 raters, cross-validated by dialogue."""
        return float(self.provenance["spearman"]["cross_validated"])

    def estimate(self, features: Features) -> float:
        """The estimate, cut to [0, 1]."""
        total = self.intercept + sum(feature.contribution(features) for feature in self.features)
        return min(1.0, max(0.0, total))


def load_weights() -> Weights:
    """Reads the weights that ship with the package. Raises pydantic.ValidationError where the file was damaged."""
    text = files("app").joinpath(RESOURCE).read_text(encoding="utf-8")
    return Weights.model_validate(json.loads(text))
