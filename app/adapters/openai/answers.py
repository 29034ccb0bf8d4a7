"""From the answers of one judgement to its verdicts, usage and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import fsum
from operator import add
from typing import Any

from app.adapters.openai.parameters import Question
from app.adapters.openai.prices import Prices
from app.adapters.openai.reply import Reply
from app.domain.evaluation import CallTrace, JudgeProvenance, Usage, Warned
from app.domain.expectation import Expectation, expect
from app.domain.model import digest
from app.domain.rubric import Aspect
from app.domain.untrusted.inspection import CODE
from app.domain.verdict import Reading
from app.ports import Judgement, JudgingTask, Verdict

MIXED = "mixed"


@dataclass(frozen=True)
class Answer:
    """One reply with what it says. `hit` is True where no call was made for it.

    `price_share` is the share of the ordinary price that the call cost.
    """

    question: Question
    reply: Reply
    reading: Reading
    hit: bool
    price_share: float = 1.0

    def expect(self, aspect: Aspect) -> Expectation | None:
        """The aspect's expectation at its value in this reply; None where it cannot be had."""
        span = self.reading.spans.get(aspect.id)
        if span is None or self.reply.content is None:
            return None
        return expect(self.reply.tokens, self.reply.content, span, aspect.values)


@dataclass(frozen=True)
class Poll:
    """One sample: the first answer, and those that were asked for because it did not rate every aspect."""

    answers: tuple[Answer, ...]

    @cached_property
    def kept(self) -> Answer:
        """The answer that validly rates most aspects, the first of equals. Answers are never mixed."""
        if len(self.answers) == 1:
            return self.answers[0]
        return max(self.answers, key=lambda answer: answer.reading.rated)


def summarize(polls: Sequence[Poll], task: JudgingTask, *, kind: str, endpoint: str, prices: Prices) -> Judgement:
    """The judgement that the polls amount to."""
    answers = [answer for poll in polls for answer in poll.answers]
    verdicts = {aspect.id: conclude(aspect, polls) for aspect in task.rubric.aspects}
    return Judgement(
        verdicts=verdicts,
        provenance=trace_origin(answers, kind=kind, endpoint=endpoint),
        usage=reduce(add, (price_answer(answer, prices) for answer in answers)),
        cached=all(answer.hit for answer in answers),
        trace=tuple(map(trace_call, answers)),
        warnings=(
            *warn_of_leaks(answers),
            *warn_of_address(answers),
            *(warn_of_missing(verdicts) if task.options.expected else ()),
        ),
    )


def conclude(aspect: Aspect, polls: Sequence[Poll]) -> Verdict:
    """One aspect's verdict over its samples.

    `expected` is the mean of the rated samples' expectations, and only where each of them has one; `reason` is that of
    the first rated sample.
    """
    kept = [poll.kept for poll in polls if aspect.id in poll.kept.reading.ratings]
    if len(kept) == 1 and not kept[0].question.options.expected:
        # As mostly.
        reading = kept[0].reading
        rating, reason = reading.ratings[aspect.id], reading.reasons.get(aspect.id)
        return bare(rating) if isinstance(rating, int) and reason is None else Verdict((rating,), reason=reason)
    readings = [answer.reading for answer in kept]
    rated = [answer for answer in kept if isinstance(answer.reading.ratings[aspect.id], int)]
    expectations = [answer.expect(aspect) for answer in rated if answer.question.options.expected]
    found = [expectation for expectation in expectations if expectation is not None]
    whole = bool(found) and len(found) == len(rated)
    return Verdict(
        samples=tuple(reading.ratings[aspect.id] for reading in readings),
        expected=average(one.mean for one in found) if whole else None,
        off_scale_mass=average(one.off_scale_mass for one in found) if whole else None,
        reason=next((reading.reasons[aspect.id] for reading in readings if aspect.id in reading.reasons), None),
    )


@lru_cache(maxsize=256)
def bare(rating: int) -> Verdict:
    """The verdict of one sample without a reason: the same for every aspect and dialogue."""
    return Verdict((rating,))


def average(numbers: Iterable[float]) -> float:
    """The arithmetic mean of at least one number."""
    found = list(numbers)
    return fsum(found) / len(found)


def price_answer(answer: Answer, prices: Prices) -> Usage:
    """What the answer cost; nothing where it came from the cache."""
    if answer.hit:
        return Usage()
    reply = answer.reply
    model = reply.model if reply.model and prices.find(reply.model) else answer.question.model
    spent = {
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
    }
    cost_usd = prices.cost(model, **spent, written_tokens=reply.written_tokens)
    return Usage(judge_calls=1, cost_usd=None if cost_usd is None else answer.price_share * cost_usd, **spent)


def trace_call(answer: Answer) -> CallTrace:
    """The call as it was made."""
    question, reply = answer.question, answer.reply
    return CallTrace(
        prompt_digest=question.prompt(structured=reply.structured).digest,
        sample=question.sample,
        attempt=question.attempt,
        aspects=tuple(aspect.id for aspect in question.aspects),
        reply=reply.content,
        finish_reason=reply.finish_reason,
        refusal=reply.refusal,
        model=reply.model,
        cached=answer.hit,
    )


def trace_origin(answers: Sequence[Answer], *, kind: str, endpoint: str) -> JudgeProvenance:
    """Which judge it was. Several models or fingerprints behind one name are all told."""
    replies = [answer.reply for answer in answers]
    prompts = [answer.question.prompt(structured=answer.reply.structured) for answer in answers]
    prefixes = distinct(prompt.prefix_digest for prompt in prompts)
    models = distinct(answer.reply.model or answer.question.model for answer in answers)
    return JudgeProvenance(
        kind=kind,
        model=",".join(models),
        fingerprint=",".join(distinct(reply.fingerprint for reply in replies if reply.fingerprint)) or None,
        endpoint=endpoint,
        prompt=prefixes[0] if len(prefixes) == 1 else digest(prefixes),
        parameters=merge_parameters([reply.parameters for reply in replies]),
        dropped=tuple(distinct(name for reply in replies for name in reply.dropped)),
        screen=all(prompt.screen for prompt in prompts),
    )


def distinct(texts: Iterable[str]) -> list[str]:
    """Each text once, in the order of first appearance."""
    return list(dict.fromkeys(texts))


def merge_parameters(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The parameters of all calls; one that was not the same in every call is `mixed`."""
    if len(found) == 1:
        return found[0]
    names = distinct(name for parameters in found for name in parameters)
    absent = object()
    merged: dict[str, Any] = {}
    for name in names:
        values = [parameters.get(name, absent) for parameters in found]
        merged[name] = values[0] if all(value == values[0] for value in values) else MIXED
    return merged


def warn_of_leaks(answers: Sequence[Answer]) -> tuple[Warned, ...]:
    """A warning where a reply held the canary, also where the judge was asked again and then rated."""
    leaked = sum(answer.reading.leaked for answer in answers)
    if not leaked:
        return ()
    detail = f"{leaked} of {len(answers)} replies held part of the judge's instructions and were not taken as ratings"
    return (Warned(code="prompt-leaked", where="judge", detail=detail),)


def warn_of_address(answers: Sequence[Answer]) -> tuple[Warned, ...]:
    """A warning where a verdict says that a text addresses its evaluator."""
    found = sum(answer.reading.addressed for answer in answers)
    if not found:
        return ()
    detail = f"the judge says that a text addresses its evaluator, in {found} of {len(answers)} replies"
    return (Warned(code=CODE, where="verdict", detail=detail),)


def warn_of_missing(verdicts: dict[str, Verdict]) -> tuple[Warned, ...]:
    """A warning that names the rated aspects whose expectation could not be had."""
    missing = [
        aspect_id
        for aspect_id, verdict in verdicts.items()
        if verdict.expected is None and any(isinstance(sample, int) for sample in verdict.samples)
    ]
    if not missing:
        return ()
    detail = f"the endpoint gave no usable token probabilities for {', '.join(missing)}; their expected value is null"
    return (Warned(code="expected-unavailable", where="judge", detail=detail),)
