"""The embedded judge: deterministic, offline, no language model. A baseline, and each result says so.

From the features of a response, an estimate from 0 to 1 for each aspect, then a point of the aspect's scale. Only the
coherence of Japanese responses is fitted to human ratings, by `benchmarks/fit_lexical.py`. Everything else on this
page is set by hand, monotone in each feature, and **not validated against raters**: good for smoke tests and for
catching broken output.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from dataclasses import replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import Field

from saiten.core.messages import Message
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.errors import InvalidRequest, LanguageNotSupported, RubricNotSupported
from saiten_server.core.evaluation import JudgeProvenance, Unrated, Usage, Warned
from saiten_server.core.model import Finite, Value, digest, listed
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.sentences import in_english
from saiten_server.judging.pair_prompt import PromptedPair
from saiten_server.providers.lexical.english import EnglishReader
from saiten_server.providers.lexical.features import DialogueProfiles, Features, TextReader, measure_features
from saiten_server.providers.lexical.japanese import JapaneseReader
from saiten_server.providers.lexical.korean import KoreanReader
from saiten_server.providers.ports import Judgement, JudgingEstimate, JudgingTask, Verdict
from saiten_server.text.passages import words_of


class FittedFeature(Value):
    """One feature's part: direction · weight · (x − mean) / scale. Weights are never negative: the direction is set by
    what the feature means, so that it can only act as its name says. x is first cut to the range that was seen in the
    fit, because a line says nothing beyond its data."""

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
    text = files("saiten_server").joinpath("providers/lexical/weights.json").read_text(encoding="utf-8")
    return CoherenceWeights.model_validate(json.loads(text))


# What is only repeated, word for word, neither fits nor is consistent, however many words it shares
VERBATIM_CEILING = 0.2
BROKEN_CEILING = 0.3
CONTENT_FOR_LANGUAGE = math.log1p(2)
CONTENT_FOR_CONCRETE = math.log1p(6)
NEW_FOR_FORWARD = math.log1p(3)

Units = dict[str, float]  # Aspect id → estimate in [0, 1], 0 the lowest level of whatever scale, 1 the highest


def estimate_units(features: Features, language: str, weights: CoherenceWeights) -> Units:
    """Estimates of all aspects that the lexical judge knows."""
    derived = derive(features)
    units = {aspect: estimate_by_hand(aspect, derived) for aspect in BY_HAND}
    coherence = weights.estimate(features) if language == "ja" else units["coherence"]
    units["coherence"] = cap_coherence(coherence, features)
    mean = sum(share * units[aspect] for aspect, share in OVERALL_SHARES.items())
    units["overall"] = min(mean, units["coherence"] + OVERALL_LEAD)
    units["sensibleness"] = units["coherence"] * (0.3 + 0.7 * units["naturalness"])
    return units


def cap_coherence(estimate: float, features: Features) -> float:
    """Symbols alone, verbatim repetition, loops and a foreign language do not fit, whatever the other features say."""
    ceilings = (
        (features["wordless"] > 0, 0.1),
        (is_verbatim(features), VERBATIM_CEILING),
        (features["redundant"] > 0.5, BROKEN_CEILING),
        (features["foreign"] > 0.9 and features["content_words"] > CONTENT_FOR_LANGUAGE, BROKEN_CEILING),
    )
    return min([estimate, *(ceiling for applies, ceiling in ceilings if applies)])


# By aspect, the estimate without any feature, and what each feature adds to it
BY_HAND: dict[str, tuple[float, dict[str, float]]] = {
    # Takes up words, answers, does not wander off; for Korean and English, for which nothing was fitted.
    "coherence": (0.55, {
        "echoes_topic": 0.35, "answers": 0.2, "meets_feeling": 0.15, "agrees_briefly": 0.1, "shares_nothing": -0.15,
        "unanswered": -0.25, "misses_feeling": -0.2, "question_for_question": -0.15, "leaves_topic": -0.3,
        "repeats_itself": -0.4, "describes_itself": -0.4, "too_foreign": -0.5, "too_redundant": -0.3,
    }),
    # Falls with broken endings, impossible neighbours, unknown words, a foreign script, loops, a switched register.
    "naturalness": (0.95, {
        "broken": -0.5, "oddities": -0.5, "unknown": -0.6, "too_foreign": -0.9, "too_redundant": -0.8,
        "switches_politeness": -0.25, "long": -0.2,
    }),
    # Rises with concrete and new words and with an invitation to go on; falls with formulas and repetition.
    "interestingness": (0.15, {
        "concrete": 0.45, "forward": 0.25, "invites": 0.2, "generic": -0.3, "repeats": -0.5, "too_redundant": -0.8,
        "describes_itself": -0.4, "too_foreign": -0.3,
    }),
    # 0.5 where there is no particular topic; up with words taken up, down with many words of something else.
    "relevance": (0.5, {
        "root_of_reply": 0.55, "meets_feeling": 0.05, "shares_nothing": -0.15, "leaves_topic": -0.35,
        "unanswered": -0.1, "describes_itself": -0.35, "too_foreign": -0.3, "too_redundant": -0.2,
    }),
    # High unless something speaks against it: a reversal, a repetition, a switched register.
    "consistency": (0.85, {
        "reverses": -0.45, "repeats_itself": -0.4, "switches_politeness": -0.2, "leaves_topic": -0.2,
        "too_redundant": -0.3,
    }),
    # Could it be said of this context only: its words, and enough of them.
    "specificity": (0.1, {
        "root_of_shared": 0.5, "concrete": 0.4, "generic": -0.35, "stock_comfort": -0.25, "shares_nothing": -0.25,
        "leaves_topic": -0.3, "describes_itself": -0.4, "repeats": -0.4,
    }),
    # Does it name the feeling that the context shows. Comfort by formula alone stays below one half.
    "sympathy": (0.3, {
        "meets_feeling": 0.4, "shared": 0.15, "agrees_briefly": 0.1, "stock_comfort": -0.15, "misses_feeling": -0.3,
        "leaves_topic": -0.15, "describes_itself": -0.3, "repeats": -0.3, "too_foreign": -0.3,
    }),
}  # fmt: skip


def derive(features: Features) -> Features:
    """The features, and what is computed from several of them or beyond a threshold."""
    last, context = features["shares_last"], features["shares_context"]
    shared = max(last, context)
    return features | {
        "shared": shared,
        "root_of_shared": math.sqrt(shared),
        "root_of_reply": math.sqrt(max(last, 0.9 * context, 0.5 * features["answers"])),
        "echoes_topic": max(last, 0.7 * context),
        "repeats": max(features["repeats_itself"], features["echoes"]),
        "concrete": min(1.0, features["content_words"] / CONTENT_FOR_CONCRETE),
        "forward": min(1.0, features["new_words"] / NEW_FOR_FORWARD),
        "too_foreign": excess(features["foreign"], 0.5),
        "too_redundant": excess(features["redundant"], 0.15),
    }


def estimate_by_hand(aspect: str, derived: Features) -> float:
    """The estimate of one aspect, cut to [0, 1]."""
    estimate, weights = BY_HAND[aspect]
    for name, weight in weights.items():
        estimate += weight * derived[name]
    if aspect == "consistency" and (derived["wordless"] or is_verbatim(derived)):
        return bounded(min(VERBATIM_CEILING, estimate))
    return 0.0 if derived["wordless"] and aspect not in {"coherence", "consistency"} else bounded(estimate)


OVERALL_SHARES = {
    "coherence": 0.4,
    "relevance": 0.2,
    "naturalness": 0.15,
    "interestingness": 0.15,
    "consistency": 0.1,
}
# How far the overall impression may lead coherence: a fluent echo of the topic is still a bad response
OVERALL_LEAD = 0.15
KNOWN_ASPECTS = frozenset({"overall", "sensibleness", *BY_HAND})


def is_verbatim(features: Features) -> bool:
    """Whether the response is the last utterance, or one of the system's own, word for word."""
    return bool(features["repeats_verbatim"] or features["echoes_verbatim"])


def rating_on(aspect: Aspect, expected: float) -> int:
    """The level nearest to `expected`; halves go up, as in ordinary rounding, and not to the even level."""
    lowest, highest = aspect.scale
    return min(highest, max(lowest, math.floor(expected + 0.5)))


def bounded(value: float) -> float:
    """`value` cut to [0, 1]."""
    return min(1.0, max(0.0, value))


def excess(share: float, threshold: float) -> float:
    """How far `share` passes `threshold`, from 0 at the threshold to 1 at a share of 1."""
    return max(0.0, share - threshold) / (1 - threshold)


# The reasons: the strongest features, in a sentence of the rubric's language.

PLAIN_FAULTS = words_of(
    "wordless echoes_verbatim repeats_verbatim foreign describes_itself broken unanswered unanswered_kind "
    "unanswered_yes_no reverses misses_feeling stock_comfort shares_nothing strange_names switches_politeness generic"
)
WEAK_FAULTS = words_of("redundant leaves_topic dwells ignores_for_own_topic unknown")
FAULT_WEIGHTS = {
    **dict.fromkeys(PLAIN_FAULTS, 0.5),
    **dict.fromkeys(WEAK_FAULTS, 0.2),
    "oddities": 0.3,
    "repeats_itself": 0.1,
}
# What speaks against a response and for it: the feature's least value to be named
MERITS = {
    **dict.fromkeys(words_of("answers meets_feeling acknowledges invites"), 0.5),
    **dict.fromkeys(words_of("shares_last shares_characters shares_context"), 0.2),
    "agrees_briefly": 0.3,
    "content_words": 1.3,
}
NO_FEATURE = {"ja": "特に目立つ手がかりはない", "ko": "눈에 띄는 단서가 없다", "en": "no feature stands out"}

NOTICEABLE = 0.005  # Contributions below half a hundredth of the scale are not worth a sentence
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


@cache
def load_clauses() -> dict[str, dict[str, str]]:
    """By language, what is said of each feature."""
    clauses: dict[str, dict[str, str]] = json.loads(
        files("saiten_server").joinpath("providers/lexical/clauses.json").read_text(encoding="utf-8")
    )
    return clauses


def explain_aspect(aspect: str, unit: float, features: Features, language: str, weights: CoherenceWeights) -> str:
    """One sentence on the two strongest features: faults first where the estimate is in the lower half, else merits."""
    if aspect == "coherence" and language == "ja":
        faults, merits = fitted_features(features, weights)
    else:
        faults = [name for name in CONCERNS[aspect] if stands_out(name, features, FAULT_WEIGHTS)]
        merits = [name for name in CONCERNS[aspect] if stands_out(name, features, MERITS)]
    named = [*faults, *merits] if unit < 0.5 else [*merits, *faults]
    return join_sentence([load_clauses()[language][name] for name in named[:2]], language)


def stands_out(name: str, features: Features, table: dict[str, float]) -> bool:
    """Whether the table names this feature and its value is large enough to be said."""
    return name in table and features[name] >= table[name]


def fitted_features(features: Features, weights: CoherenceWeights) -> tuple[list[str], list[str]]:
    """Faults and merits by what they added to the fitted estimate, strongest first; ceilings come before all."""
    capped = [name for name in REPETITION[:5] if stands_out(name, features, FAULT_WEIGHTS)]
    added = [(feature.contribution(features), feature.name) for feature in weights.features]
    added.sort(key=lambda pair: (-abs(pair[0]), pair[1]))
    faults = [name for value, name in added if value <= -NOTICEABLE and stands_out(name, features, FAULT_WEIGHTS)]
    merits = [name for value, name in added if value >= NOTICEABLE and stands_out(name, features, MERITS)]
    return [*capped, *(name for name in faults if name not in capped)], merits


def join_sentence(parts: list[str], language: str) -> str:
    """The parts as one sentence with the language's own punctuation."""
    if not parts:
        parts = [NO_FEATURE[language]]
    if language == "en":
        sentence = "; ".join(parts)
        return sentence[0].upper() + sentence[1:] + "."
    return "、".join(parts) + "。" if language == "ja" else ", ".join(parts) + "."


MOST_UTTERANCES = 40
MOST_READ_CHARACTERS = 2000


def read_dialogue(dialogue: Dialogue, reader: TextReader) -> Features:
    """The features of the response. Of the context the latest 40 utterances count, of each the first 2,000 code points:
    a bound on time that real dialogues do not reach. The response is read whole."""
    recent = dialogue.context[-MOST_UTTERANCES:]
    context = [reader.read(utterance.text[:MOST_READ_CHARACTERS]) for utterance in recent]
    partner = recent[-1].speaker
    own = [profile for profile, utterance in zip(context, recent, strict=True) if utterance.speaker != partner]
    return measure_features(DialogueProfiles(context, own, reader.read(dialogue.response)))


class LexicalJudge:
    """Implements `Judge` by surface features of the dialogue; it does not read the rubric's wording.

    It knows the aspects of `ja-dialogue`, `ko-dialogue` and `ko-comment`, on whatever scale a rubric gives them, in
    Japanese, Korean and English. Only Japanese coherence is fitted to human ratings; the other aspects, and every
    aspect in Korean and English, are unvalidated heuristics. `expected` holds the continuous estimate, `samples` the
    nearest level, the same each time. Raises RubricNotSupported and LanguageNotSupported.

    Nothing is loaded before the first task. Tasks run in a worker thread, one at a time: the tagger is not thread-safe.
    """

    kind = "lexical"
    default_model = "lexical-1"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[str, TextReader] = {"ja": JapaneseReader(), "ko": KoreanReader(), "en": EnglishReader()}

    async def judge(self, task: JudgingTask) -> Judgement:
        self._refuse(task)
        if task.shown is not None:
            return await self._compare(task, task.shown)
        if task.window is not None:
            return rate_no_conversation(task)
        return await asyncio.to_thread(self._judge_here, task)

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        """Nothing: no call is made. Raises as `judge` does."""
        self._refuse(task)
        return JudgingEstimate(calls=0, prompt_tokens=0, prefix_tokens=0, completion_tokens=0, cost_usd=0.0)

    async def close(self) -> None:
        """Nothing to close: the tagger goes with the judge."""

    async def _compare(self, task: JudgingTask, shown: PromptedPair) -> Judgement:
        """Which of two responses has the higher estimate, each as it is by itself."""
        if not shown.dialogues:
            return rate_no_conversation(task)
        alone = [replace(task, dialogue=dialogue, shown=None) for dialogue in shown.dialogues]
        first, second = [await asyncio.to_thread(self._judge_here, one) for one in alone]
        return replace(first, verdicts={aspect.id: compare(aspect, first, second, task) for aspect in task.aspects})

    def _refuse(self, task: JudgingTask) -> None:
        unknown = [aspect.id for aspect in task.rubric.aspects if aspect.id not in KNOWN_ASPECTS]
        if unknown and task.rubric.unit == "item":
            named = ", ".join(unknown)
            raise RubricNotSupported(Message("lexical-aspects", names=named, rubric=task.rubric.id))
        if task.options.extra:
            raise InvalidRequest(Message("lexical-parameters"), pointer="/judge/extra")
        if task.language not in self._readers:
            known = ", ".join(sorted(self._readers))
            raise LanguageNotSupported(Message("lexical-language", known=known, language=task.language))

    def _judge_here(self, task: JudgingTask) -> Judgement:
        reader = self._readers[task.language]
        with self._lock:
            weights = load_weights()
            features = read_dialogue(task.dialogue, reader)
            dictionary = reader.dictionary
        return Judgement(
            verdicts=give_verdicts(task, features, weights),
            provenance=JudgeProvenance(
                kind=self.kind,
                model=self.default_model,
                parameters={"weights": weights.digest[:12], "dictionary": dictionary},
            ),
            usage=Usage(),
            warnings=(
                Warned(
                    code="baseline-judge",
                    where="judge",
                    **in_english(Message("lexical-baseline", spearman=round(weights.measured_spearman, 2))),
                ),
            ),
        )


EQUAL_SHARE = 0.01
"""Of a scale: estimates that differ by less are a tie."""


def compare(aspect: Aspect, first: Judgement, second: Judgement, task: JudgingTask) -> Verdict:
    """The verdict on two by their estimates: where the rubric does not have the aspect, by the mean of all."""
    lead = measure_merit(aspect.id, first, task.rubric) - measure_merit(aspect.id, second, task.rubric)
    choice = 0 if abs(lead) < EQUAL_SHARE else 1 if lead > 0 else -1
    return Verdict((choice,) * task.options.samples, expected=round(lead, 4) if task.options.expected else None)


def measure_merit(name: str, judgement: Judgement, rubric: Rubric) -> float:
    """How near the best level an estimate is, from 0 to 1."""
    merits = {}
    for aspect in rubric.aspects:
        low, high = aspect.scale
        best = high if aspect.best is None else aspect.best
        estimate = judgement.verdicts[aspect.id].expected or 0.0
        merits[aspect.id] = 1 - abs(estimate - best) / max(best - low, high - best)
    return merits[name] if name in merits else sum(merits.values()) / len(merits)


def rate_no_conversation(task: JudgingTask) -> Judgement:
    """The judgement of a conversation: no aspect is rated."""
    unrated = Unrated(reason="not-supported", **in_english(Message("lexical-no-conversation")))
    return Judgement(
        verdicts={aspect.id: Verdict((unrated,) * task.options.samples) for aspect in task.aspects},
        provenance=JudgeProvenance(kind=LexicalJudge.kind, model=LexicalJudge.default_model),
    )


def give_verdicts(task: JudgingTask, features: Features, weights: CoherenceWeights) -> dict[str, Verdict]:
    """A verdict for each aspect of the rubric: `samples` times the same rating, because nothing is random here."""
    units = estimate_units(features, task.language, weights)
    verdicts = {}
    for aspect in task.rubric.aspects:
        unit = units[aspect.id]
        lowest, highest = aspect.scale
        expected = round(lowest + bounded(unit) * (highest - lowest), 4)
        reason = explain_aspect(aspect.id, unit, features, task.language, weights) if task.options.explain else None
        samples = (rating_on(aspect, expected),) * task.options.samples
        verdicts[aspect.id] = Verdict(samples=samples, expected=expected, reason=reason)
    return verdicts
