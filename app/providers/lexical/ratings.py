"""From features to estimates: a number from 0 to 1 for each aspect, then a point of the aspect's scale.

Only the coherence of Japanese responses is fitted to human ratings, by `scripts/fit_lexical.py`. Everything else on
this page is set by hand, monotone in each feature, and **not validated against raters**: good for smoke tests and for
catching broken output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache, cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.model import Finite, Value, digest, listed
from app.domain.rubric import Aspect
from app.providers.lexical.features import Features


class FittedFeature(Value):
    """One feature's part: direction · weight · (x − mean) / scale.

    Weights are never negative: the direction is set by what the feature means, so that it can only act as its name
    says. x is first cut to the range that was seen in the fit, because a line says nothing beyond its data."""

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


class CoherenceWeights(Value):
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


@cache
def load_weights() -> CoherenceWeights:
    """The weights that ship with the package. Raises pydantic.ValidationError where the file was damaged."""
    text = files("app").joinpath("data/lexical_weights.json").read_text(encoding="utf-8")
    return CoherenceWeights.model_validate(json.loads(text))


# What is only repeated, word for word, neither fits nor is consistent, however many words it shares
VERBATIM_CEILING = 0.2
WORDLESS_CEILING = 0.1
BROKEN_CEILING = 0.3
LOOPING = 0.5
FOREIGN = 0.9
CONTENT_FOR_LANGUAGE = math.log1p(2)
CONTENT_FOR_CONCRETE = math.log1p(6)
NEW_FOR_FORWARD = math.log1p(3)
REDUNDANT_FROM = 0.15

Units = dict[str, float]  # Aspect id → estimate in [0, 1], 0 the lowest level of whatever scale, 1 the highest


def estimate_units(features: Features, language: str, weights: CoherenceWeights) -> Units:
    """Estimates of all aspects that the lexical judge knows."""
    fitted = weights.estimate(features) if language == "ja" else coherence_by_hand(features)
    units = {"coherence": cap_coherence(fitted, features)}
    wordless = features["wordless"] > 0
    for aspect, function in BY_HAND.items():
        units[aspect] = 0.0 if wordless and aspect != "consistency" else bounded(function(features))
    mean = sum(share * units[aspect] for aspect, share in OVERALL_SHARES.items())
    units["overall"] = min(mean, units["coherence"] + OVERALL_LEAD)
    units["sensibleness"] = units["coherence"] * (0.3 + 0.7 * units["naturalness"])
    return units


def cap_coherence(estimate: float, features: Features) -> float:
    """Symbols alone, verbatim repetition, loops and a foreign language do not fit, whatever the other features say."""
    ceilings = (
        (features["wordless"] > 0, WORDLESS_CEILING),
        (is_verbatim(features), VERBATIM_CEILING),
        (features["redundant"] > LOOPING, BROKEN_CEILING),
        (features["foreign"] > FOREIGN and features["content_words"] > CONTENT_FOR_LANGUAGE, BROKEN_CEILING),
    )
    return min([estimate, *(ceiling for applies, ceiling in ceilings if applies)])


def coherence_by_hand(features: Features) -> float:
    """Coherence where nothing was fitted (Korean, English): takes up words, answers, does not wander off."""
    return bounded(
        0.55
        + 0.35 * max(features["shares_last"], 0.7 * features["shares_context"])
        + 0.2 * features["answers"]
        + 0.15 * features["meets_feeling"]
        + 0.1 * features["agrees_briefly"]
        - 0.15 * features["shares_nothing"]
        - 0.25 * features["unanswered"]
        - 0.2 * features["misses_feeling"]
        - 0.15 * features["question_for_question"]
        - 0.3 * features["leaves_topic"]
        - 0.4 * features["repeats_itself"]
        - 0.4 * features["describes_itself"]
        - 0.5 * excess(features["foreign"], 0.5)
        - 0.3 * excess(features["redundant"], REDUNDANT_FROM)
    )


def naturalness(features: Features) -> float:
    """Falls with broken endings, impossible neighbours, unknown words, a foreign script, loops, a switched register."""
    return (
        0.95
        - 0.5 * features["broken"]
        - 0.5 * features["oddities"]
        - 0.6 * features["unknown"]
        - 0.9 * excess(features["foreign"], 0.5)
        - 0.8 * excess(features["redundant"], REDUNDANT_FROM)
        - 0.25 * features["switches_politeness"]
        - 0.2 * features["long"]
    )


def interestingness(features: Features) -> float:
    """Rises with concrete and new words and with an invitation to go on; falls with formulas and repetition."""
    return (
        0.15
        + 0.45 * saturated(features["content_words"], CONTENT_FOR_CONCRETE)
        + 0.25 * saturated(features["new_words"], NEW_FOR_FORWARD)
        + 0.2 * features["invites"]
        - 0.3 * features["generic"]
        - 0.5 * max(features["repeats_itself"], features["echoes"])
        - 0.8 * excess(features["redundant"], REDUNDANT_FROM)
        - 0.4 * features["describes_itself"]
        - 0.3 * excess(features["foreign"], 0.5)
    )


def relevance(features: Features) -> float:
    """0.5 where there is no particular topic; up with words taken up, down with many words of something else."""
    taken_up = max(features["shares_last"], 0.9 * features["shares_context"], 0.5 * features["answers"])
    return (
        0.5
        + 0.55 * math.sqrt(taken_up)
        + 0.05 * features["meets_feeling"]
        - 0.15 * features["shares_nothing"]
        - 0.35 * features["leaves_topic"]
        - 0.1 * features["unanswered"]
        - 0.35 * features["describes_itself"]
        - 0.3 * excess(features["foreign"], 0.5)
        - 0.2 * excess(features["redundant"], REDUNDANT_FROM)
    )


def consistency(features: Features) -> float:
    """High unless something speaks against it: a reversal, a repetition, a switched register."""
    ceiling = VERBATIM_CEILING if is_verbatim(features) or features["wordless"] else 1.0
    return min(
        ceiling,
        0.85
        - 0.45 * features["reverses"]
        - 0.4 * features["repeats_itself"]
        - 0.2 * features["switches_politeness"]
        - 0.2 * features["leaves_topic"]
        - 0.3 * excess(features["redundant"], REDUNDANT_FROM),
    )


def specificity(features: Features) -> float:
    """Could it be said of this context only: its words, and enough of them."""
    taken_up = max(features["shares_last"], features["shares_context"])
    return (
        0.1
        + 0.5 * math.sqrt(taken_up)
        + 0.4 * saturated(features["content_words"], CONTENT_FOR_CONCRETE)
        - 0.35 * features["generic"]
        - 0.25 * features["stock_comfort"]
        - 0.25 * features["shares_nothing"]
        - 0.3 * features["leaves_topic"]
        - 0.4 * features["describes_itself"]
        - 0.4 * max(features["echoes"], features["repeats_itself"])
    )


def sympathy(features: Features) -> float:
    """Does it name the feeling that the context shows. Comfort by formula alone stays below one half."""
    return (
        0.3
        + 0.4 * features["meets_feeling"]
        + 0.15 * max(features["shares_last"], features["shares_context"])
        + 0.1 * features["agrees_briefly"]
        - 0.15 * features["stock_comfort"]
        - 0.3 * features["misses_feeling"]
        - 0.15 * features["leaves_topic"]
        - 0.3 * features["describes_itself"]
        - 0.3 * max(features["echoes"], features["repeats_itself"])
        - 0.3 * excess(features["foreign"], 0.5)
    )


BY_HAND: dict[str, Callable[[Features], float]] = {
    "naturalness": naturalness,
    "interestingness": interestingness,
    "relevance": relevance,
    "consistency": consistency,
    "specificity": specificity,
    "sympathy": sympathy,
}
OVERALL_SHARES = {
    "coherence": 0.4,
    "relevance": 0.2,
    "naturalness": 0.15,
    "interestingness": 0.15,
    "consistency": 0.1,
}
# How far the overall impression may lead coherence: a fluent echo of the topic is still a bad response
OVERALL_LEAD = 0.15
KNOWN_ASPECTS = frozenset({"coherence", "overall", "sensibleness", *BY_HAND})


def is_verbatim(features: Features) -> bool:
    """Whether the response is the last utterance, or one of the system's own, word for word."""
    return bool(features["repeats_verbatim"] or features["echoes_verbatim"])


def expected_on(aspect: Aspect, unit: float) -> float:
    """The estimate in the aspect's scale points: linear from its lowest to its highest level."""
    lowest, highest = aspect.scale
    return lowest + bounded(unit) * (highest - lowest)


def rating_on(aspect: Aspect, expected: float) -> int:
    """The level nearest to `expected`; halves go up, as in ordinary rounding, and not to the even level."""
    lowest, highest = aspect.scale
    return min(highest, max(lowest, math.floor(expected + 0.5)))


def bounded(value: float) -> float:
    """`value` cut to [0, 1]."""
    return min(1.0, max(0.0, value))


def saturated(value: float, full: float) -> float:
    """`value` / `full`, at most 1."""
    return min(1.0, value / full)


def excess(share: float, threshold: float) -> float:
    """How far `share` passes `threshold`, from 0 at the threshold to 1 at a share of 1."""
    return max(0.0, share - threshold) / (1 - threshold)
