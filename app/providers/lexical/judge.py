"""The embedded judge: deterministic, offline, no language model. A baseline, and each result says so."""

from __future__ import annotations

import asyncio
import threading

from app.domain.dialogue import Dialogue
from app.domain.errors import InvalidRequest, LanguageNotSupported, RubricNotSupported
from app.domain.evaluation import JudgeProvenance, Usage, Warned
from app.providers.lexical import ratings
from app.providers.lexical.english import EnglishReader
from app.providers.lexical.features import DialogueProfiles, Features, TextReader, describe
from app.providers.lexical.japanese import JapaneseReader
from app.providers.lexical.korean import KoreanReader
from app.providers.ports import Judgement, JudgingEstimate, JudgingTask, Verdict

MOST_UTTERANCES = 40
MOST_CHARACTERS = 2000


def read_dialogue(dialogue: Dialogue, reader: TextReader) -> Features:
    """The features of the response. Of the context the latest 40 utterances count, of each the first 2,000 code points:
    a bound on time that real dialogues do not reach. The response is read whole."""
    recent = dialogue.context[-MOST_UTTERANCES:]
    context = [reader.read(utterance.text[:MOST_CHARACTERS]) for utterance in recent]
    partner = recent[-1].speaker
    own = [profile for profile, utterance in zip(context, recent, strict=True) if utterance.speaker != partner]
    return describe(DialogueProfiles(context, own, reader.read(dialogue.response)))


DIGITS = 4  # Estimates are given to four digits after the point; no more than that is meant
HINT = "set OPENAI_API_KEY (SAITEN_JUDGE=openai) for a judge that reads the rubric"


class LexicalJudge:
    """Implements `Judge` by surface features of the dialogue; it does not read the rubric's wording.

    It knows the aspects of `ja-dialogue` and `ko-comment`, on whatever scale a rubric gives them, in Japanese, Korean
    and English. Only Japanese coherence is fitted to human ratings; the other aspects, and every aspect in Korean and
    English, are unvalidated heuristics. `expected` holds the continuous estimate, `samples` the nearest level, the
    same each time. Raises RubricNotSupported and LanguageNotSupported.

    Nothing is loaded before the first task. Tasks run in a worker thread, one at a time: the tagger is not thread-safe.
    """

    kind = "lexical"
    default_model = "lexical-1"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[str, TextReader] = {"ja": JapaneseReader(), "ko": KoreanReader(), "en": EnglishReader()}

    async def judge(self, task: JudgingTask) -> Judgement:
        self._refuse(task)
        return await asyncio.to_thread(self._judge_here, task)

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        """Nothing: no call is made. Raises as `judge` does."""
        self._refuse(task)
        return JudgingEstimate(calls=0, prompt_tokens=0, prefix_tokens=0, completion_tokens=0, cost_usd=0.0)

    async def close(self) -> None:
        """Nothing to close: the tagger goes with the judge."""

    def _refuse(self, task: JudgingTask) -> None:
        unknown = [aspect.id for aspect in task.rubric.aspects if aspect.id not in ratings.KNOWN_ASPECTS]
        if unknown:
            named = ", ".join(unknown)
            raise RubricNotSupported(f"The lexical judge cannot rate {named} of the rubric {task.rubric.id}: {HINT}.")
        if task.options.extra:
            raise InvalidRequest("the lexical judge takes no further parameters", pointer="/judge/extra")
        if task.language not in self._readers:
            known = ", ".join(sorted(self._readers))
            raise LanguageNotSupported(f"The lexical judge reads {known}, not {task.language}: {HINT}.")

    def _judge_here(self, task: JudgingTask) -> Judgement:
        reader = self._readers[task.language]
        with self._lock:
            weights = ratings.load_weights()
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
                    detail=(
                        "These ratings are a lexical baseline made without a language model: its Japanese coherence "
                        f"reaches Spearman {weights.measured_spearman:.2f} against human raters (cross-validated); "
                        "everything else is an unvalidated heuristic."
                    ),
                ),
            ),
        )


def give_verdicts(task: JudgingTask, features: Features, weights: ratings.CoherenceWeights) -> dict[str, Verdict]:
    """A verdict for each aspect of the rubric: `samples` times the same rating, because nothing is random here."""
    units = ratings.estimate_units(features, task.language, weights)
    verdicts = {}
    for aspect in task.rubric.aspects:
        unit = units[aspect.id]
        expected = round(ratings.expected_on(aspect, unit), DIGITS)
        reason = (
            ratings.explain_aspect(aspect.id, unit, features, task.language, weights) if task.options.explain else None
        )
        samples = (ratings.rating_on(aspect, expected),) * task.options.samples
        verdicts[aspect.id] = Verdict(samples=samples, expected=expected, reason=reason)
    return verdicts
