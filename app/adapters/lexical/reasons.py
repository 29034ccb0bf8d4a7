"""Why an estimate came out as it did: the feature that speaks loudest, in one sentence of the rubric's language."""

from __future__ import annotations

from app.adapters.lexical.features import Features
from app.adapters.lexical.signs import FAULTS, MERITS, NOTHING, Sign
from app.adapters.lexical.weights import Weights

MOST_NAMED = 2
NOTICEABLE = 0.005
"""Contributions below half a hundredth of the scale are not worth a sentence."""

REPETITION = ("wordless", "echoes_verbatim", "repeats_verbatim", "redundant", "foreign", "repeats_itself")
TOPIC = ("describes_itself", "unanswered", "leaves_topic", "shares_nothing")
CONCERNS: dict[str, tuple[str, ...]] = {
    "naturalness": ("wordless", "redundant", "foreign", "broken", "oddities", "unknown", "switches_politeness"),
    "coherence": (*REPETITION, *TOPIC, "answers", "meets_feeling", "shares_last", "shares_context", "agrees_briefly"),
    "interestingness": (*REPETITION, "generic", "describes_itself", "content_words", "invites"),
    "relevance": (
        "wordless", "redundant", "foreign", *TOPIC, "answers", "shares_last", "shares_context",
    ),
    "consistency": (
        "wordless", "echoes_verbatim", "repeats_verbatim", "reverses", "repeats_itself", "switches_politeness",
        "leaves_topic",
    ),
    "sensibleness": (*REPETITION, *TOPIC, "broken", "oddities", "answers", "shares_last", "shares_context"),
    "specificity": (
        *REPETITION, "generic", "stock_comfort", "describes_itself", "leaves_topic", "shares_nothing", "shares_last",
        "shares_context", "content_words",
    ),
    "sympathy": (
        *REPETITION, "misses_feeling", "stock_comfort", "describes_itself", "meets_feeling", "shares_last",
        "agrees_briefly",
    ),
}  # fmt: skip
CONCERNS["overall"] = (*REPETITION, *TOPIC, "broken", "generic", "answers", "shares_last", "shares_context")


def explain_aspect(aspect: str, unit: float, features: Features, language: str, weights: Weights) -> str:
    """One sentence on the strongest features: faults first where the estimate is in the lower half, else merits."""
    if aspect == "coherence" and language == "ja":
        faults, merits = fitted_features(features, weights)
    else:
        faults = [name for name in CONCERNS[aspect] if stands_out(name, features, FAULTS)]
        merits = [name for name in CONCERNS[aspect] if stands_out(name, features, MERITS)]
    named = [*faults, *merits] if unit < 0.5 else [*merits, *faults]
    return join_sentence([(FAULTS | MERITS)[name][1][language] for name in named[:MOST_NAMED]], language)


def stands_out(name: str, features: Features, table: dict[str, Sign]) -> bool:
    """Whether the table names this feature and its value is large enough to be said."""
    return name in table and features[name] >= table[name][0]


def fitted_features(features: Features, weights: Weights) -> tuple[list[str], list[str]]:
    """Faults and merits by what they added to the fitted estimate, strongest first; ceilings come before all."""
    capped = [name for name in REPETITION[:5] if stands_out(name, features, FAULTS)]
    added = sorted(((feature.contribution(features), feature.name) for feature in weights.features), key=abs_first)
    faults = [name for value, name in added if value <= -NOTICEABLE and stands_out(name, features, FAULTS)]
    merits = [name for value, name in added if value >= NOTICEABLE and stands_out(name, features, MERITS)]
    return [*capped, *(name for name in faults if name not in capped)], merits


def abs_first(added: tuple[float, str]) -> tuple[float, str]:
    """Sorts by size, whichever the direction; by name where sizes are equal."""
    return -abs(added[0]), added[1]


def join_sentence(parts: list[str], language: str) -> str:
    """The parts as one sentence with the language's own punctuation."""
    if not parts:
        parts = [NOTHING[language]]
    if language == "en":
        sentence = "; ".join(parts)
        return sentence[0].upper() + sentence[1:] + "."
    return "、".join(parts) + "。" if language == "ja" else ", ".join(parts) + "."
