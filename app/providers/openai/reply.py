"""Reads replies: from the endpoint's answer to the cached reply, the reading of its verdict, and the judgement."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from hashlib import blake2b
from operator import add
from statistics import fmean, median_low
from types import MappingProxyType
from typing import Annotated, Any

from cachetools import FIFOCache
from pydantic import Field

from saiten.core.messages import Message
from saiten.core.plain_text import clean
from saiten_server.core.evaluation import CallTrace, JudgeProvenance, Unrated, Usage, Warned
from saiten_server.core.model import Value, digest, listed
from saiten_server.core.rubric import Aspect
from saiten_server.core.sentences import in_english
from saiten_server.judging.expectation import Expectation, Token, expect, may_rate
from saiten_server.judging.pair_verdict import read_pair_verdict
from saiten_server.judging.verdict import (
    FILTER_CHARACTERS,
    FaultyTurnsRead,
    VerdictReading,
    agree_on_faults,
    rate_nothing,
    read_verdict,
)
from saiten_server.providers.openai.parameters import Question
from saiten_server.providers.openai.prices import Prices
from saiten_server.providers.ports import Judgement, JudgingTask, Verdict
from saiten_server.text.injection.inspection import CODE

LARGEST_COUNT = 2**31 - 1
# An error with such a code or type is a reply: a filter stopped the call. Of Azure (also of its inner error), OpenAI
# and LiteLLM; of OpenAI's reasoning models; and of DashScope
FILTER_CODES = frozenset({
    "content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation_blocked",
    "invalid_prompt",
    "data_inspection_failed", "DataInspectionFailed",
})  # fmt: skip
FILTERED = "content_filter"  # The finish reason of such a reply
# Members of a message in which endpoints give what a model thought: vLLM and llama.cpp, Ollama and OpenRouter
REASONING = ("reasoning_content", "reasoning", "thinking")
REASONING_PARTS = frozenset({"thinking", "reasoning"})
OVERSIZE = "oversize"  # In place of a finish reason
TEXT_PARTS = frozenset({"text", "output_text"})


class Reply(Value):
    """The reply to one question. `key` is the question's key, so that an entry cannot answer another question.
    `completion` is False if the answer was not a chat completion, as from a wrong address. `reasoned` is whether the
    model's reasoning came beside the content. `cached_tokens` and `written_tokens` are prompt tokens that the provider
    read from its prompt cache and wrote to it."""

    key: str
    completion: bool = True
    # Left out where false, as `written_tokens` is.
    reasoned: Annotated[bool, Field(exclude_if=lambda reasoned: not reasoned)] = False
    content: str | None
    finish_reason: str | None
    refusal: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    cached_tokens: Annotated[int, Field(ge=0)] = 0
    # Left out at 0: a Saiten that does not know the field refuses an entry with it, and would ask again.
    written_tokens: Annotated[int, Field(ge=0, exclude_if=lambda count: count == 0)] = 0
    completion_tokens: Annotated[int, Field(ge=0)] = 0
    structured: bool
    parameters: dict[str, Any]
    dropped: Annotated[tuple[str, ...], listed()]
    token_records: Annotated[tuple[Token, ...], listed()] = ()


def parse(payload: bytes) -> Any:
    """The payload as JSON; None if it is none, or if a member is there twice: of two verdicts neither is taken."""
    try:
        return json.loads(payload, object_pairs_hook=make_object)
    except (ValueError, RecursionError):
        return None


def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; raises ValueError where two members have one name."""
    found = dict(members)
    if len(found) != len(members):
        raise ValueError
    return found


def read_completion(payload: bytes) -> dict[str, Any]:
    """The fields of `Reply` that an endpoint's answer holds. Endpoints that only resemble OpenAI's leave things out or
    send other types; whatever is not of its type is read as absent, so that a broken answer becomes a reply without a
    verdict rather than a crash."""
    answer = parse(payload)
    choices = member(answer, "choices", list)
    choice = choices[0] if choices else None
    message = member(choice, "message", dict)
    usage = member(answer, "usage", dict)
    details = member(usage, "prompt_tokens_details", dict)
    finish_reason = text_member(choice, "finish_reason")
    content, reasoned, refusal = read_message(message)
    return {
        # A provider that filtered the reply may leave the message out.
        "completion": message is not None or finish_reason is not None,
        "content": content,
        "reasoned": reasoned,
        "finish_reason": finish_reason,
        "refusal": refusal,
        "model": text_member(answer, "model"),
        "fingerprint": text_member(answer, "system_fingerprint"),
        "prompt_tokens": count_member(usage, "prompt_tokens"),
        "cached_tokens": count_member(details, "cached_tokens"),
        "written_tokens": count_member(details, "cache_write_tokens"),
        "completion_tokens": count_member(usage, "completion_tokens"),
        "token_records": read_tokens(member(member(choice, "logprobs", dict), "content", list)),
    }


def read_message(message: Any) -> tuple[str | None, bool, str | None]:
    """The content of a message, whether its reasoning came beside it, and a refusal. The content is a text, or a list
    of parts whose texts make it up; one with any part that is neither text nor reasoning nor refusal has no content."""
    refusal = text_member(message, "refusal")
    reasoned = any(text_member(message, name) for name in REASONING)
    parts = member(message, "content", list)
    if parts is None:
        return text_member(message, "content"), reasoned, refusal
    texts: list[str | None] = []
    for part in parts:
        kind = text_member(part, "type")
        if kind in REASONING_PARTS:
            reasoned = True
        elif kind == "refusal":
            refusal = text_member(part, "refusal") or refusal
        else:
            texts.append(text_member(part, "text") if kind in TEXT_PARTS else None)
    whole = [text for text in texts if text is not None]
    return ("".join(whole) if whole and len(whole) == len(texts) else None), reasoned, refusal


def find_error(payload: bytes) -> dict[str, Any] | None:
    """The error in an answer that is no completion although its status is a success; None where it holds none."""
    error = member(parse(payload), "error", dict | str)
    return {"message": clean(error)} if isinstance(error, str) and error else error or None


def member(value: Any, name: str, kind: Any) -> Any:
    """`value[name]` where it is of that kind, else None."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None


def text_member(value: Any, name: str) -> str | None:
    """A text member, fit to be stored."""
    found = member(value, name, str)
    return None if found is None else clean(found)


def count_member(value: Any, name: str) -> int:
    """A count member, at least 0 and no larger than a database can keep; 0 where there is none."""
    found = member(value, name, int)
    return 0 if found is None or isinstance(found, bool) else min(max(0, int(found)), LARGEST_COUNT)


def read_tokens(entries: list[Any] | None) -> tuple[Token, ...]:
    """The tokens, those of numbers with their alternatives; none where any entry is not what it should be. The others
    are joined into one without alternatives: reasons are long, and their words are never weighed."""
    records: list[Token] = []
    words = bytearray()
    for entry in entries or ():
        chosen = read_choice(entry)
        if chosen is None:
            return ()
        if not may_rate(chosen[0]):
            words += chosen[0]
            continue
        if words:
            records.append(Token(text=bytes(words), choices=()))
            words = bytearray()
        alternatives = dict(filter(None, map(read_choice, member(entry, "top_logprobs", list) or ())))
        records.append(Token(text=chosen[0], choices=tuple(({chosen[0]: chosen[1]} | alternatives).items())))
    return (*records, Token(text=bytes(words), choices=())) if words else tuple(records)


def read_choice(entry: Any) -> tuple[bytes, float] | None:
    """A token with its log probability."""
    token, logprob = member(entry, "token", str), member(entry, "logprob", float | int)
    if token is None or logprob is None or not math.isfinite(logprob):
        return None
    try:
        text = bytes(member(entry, "bytes", list) or clean(token).encode())
    except (TypeError, ValueError):
        return None
    return text, float(logprob)


NO_THINKING = "switch its thinking off with SAITEN_JUDGE_EXTRA"
# How models begin that write what they think before the verdict. Some templates open the block for them.
THINKING = re.compile(
    r"\s*+(?:<(?:think|thinking|thought|reasoning)>|<\|channel\|>analysis|.{0,4000}?</think>)", re.DOTALL
)
MOST_RECENT = 4096


class Readings:
    """Reads replies, and caches the last `MOST_RECENT` complete verdicts without reasons by digest. The cache holds
    ratings and their positions, no text. For one event loop."""

    def __init__(self) -> None:
        self._known: FIFOCache[bytes, VerdictReading] = FIFOCache(MOST_RECENT)

    def read(self, reply: Reply, question: Question) -> VerdictReading:
        """The same as `read_reply`."""
        whole = reply.completion and reply.finish_reason == "stop" and not reply.refusal
        if not whole or question.options.explain or reply.content is None:
            return read_reply(reply, question)
        # The fixed part's digest stands for the aspects with their scales, the language, the format and the canary.
        asked = question.prompt(structured=reply.structured).prefix_digest
        key = blake2b(
            f"{asked}{question.lenient}{reply.content}".encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()
        known = self._known.get(key)
        if known is None:
            known = read_reply(reply, question)
            if known.complete:
                self._known[key] = known
        return known


def read_reply(reply: Reply, question: Question) -> VerdictReading:
    """A reply's ratings of the question's aspects, with an explanation for each aspect that is unrated."""
    if not reply.completion:
        why = "judge-reply-too-large" if reply.finish_reason == OVERSIZE else "reply-no-completion"
        return rate_nothing(question.aspects, "unparseable", Message(why))
    prompt = question.prompt(structured=reply.structured)
    read = (
        partial(read_verdict, explain=question.options.explain, turns=question.turns, kinds=question.kinds)
        if question.words is None
        else partial(read_pair_verdict, values=question.words)
    )
    reading = read(
        reply.content,
        aspects=question.aspects,
        language=question.language,
        structured=reply.structured,
        finish_reason=reply.finish_reason,
        refusal=reply.refusal,
        canary=prompt.canary,
        screen=prompt.screen,
        lenient=question.lenient,
    )
    if reading.complete or reading.leaked or reply.refusal:
        return reading
    if (cause := find_hint(reply)) is None:
        return reading
    ratings = {
        aspect_id: rating.model_copy(update={"detail": f"{rating.detail}; {cause}"})
        if isinstance(rating, Unrated)
        else rating
        for aspect_id, rating in reading.ratings.items()
    }
    return replace(reading, ratings=MappingProxyType(ratings))


def find_hint(reply: Reply) -> str | None:
    """Why the endpoint, rather than the model, may be at fault, and what to do."""
    thought = THINKING.match(reply.content or "") is not None
    if reply.finish_reason == "length":
        reasoned = thought or reply.reasoned
        return f"it was still reasoning: raise judge.max_tokens, or {NO_THINKING}" if reasoned else None
    if thought:
        return f"it begins with the model's reasoning: have the endpoint keep that apart, or {NO_THINKING}"
    if reply.finish_reason != "stop":
        return None
    if reply.reasoned and not (reply.content or "").strip():
        return f"only its reasoning came: {NO_THINKING}"
    # A reply that was held to the schema could not be like this.
    return "the endpoint probably ignored `response_format`" if reply.structured else None


def filtered(words: str) -> dict[str, Any]:
    """The fields of the reply that stands for a call which a provider's filter stopped. `words` are the provider's."""
    return {"content": None, "finish_reason": FILTERED, "refusal": words[:FILTER_CHARACTERS] or None}


def oversize() -> dict[str, Any]:
    """The fields of the reply that stands for one with more bytes than any verdict."""
    return {**read_completion(b""), "finish_reason": OVERSIZE}


@dataclass(frozen=True)
class SampleAnswer:
    """One reply with what it says. `hit` is True where no call was made for it. `price_share` is the share of the
    ordinary price that the call cost."""

    question: Question
    reply: Reply
    reading: VerdictReading
    hit: bool
    price_share: float = 1.0

    @property
    def final(self) -> bool:
        """Whether to ask again is of no use: the verdict is complete, or a filter does not let the dialogue pass."""
        return self.reading.complete or (self.reply.content is None and self.reply.finish_reason == FILTERED)

    def expect(self, aspect: Aspect) -> Expectation | None:
        """The aspect's expectation at its value in this reply; None where it cannot be had."""
        span = self.reading.spans.get(aspect.id)
        if span is None or self.reply.content is None:
            return None
        return expect(self.reply.token_records, self.reply.content, span, self.question.words or aspect.values)


def summarize(
    samples: Sequence[Sequence[SampleAnswer]], task: JudgingTask, *, kind: str, endpoint: str, prices: Prices
) -> Judgement:
    """Combines the samples into a judgement. A sample is the first answer, and those that were asked for because it did
    not rate every aspect; of these the one that validly rates most aspects counts, the first of equals. Answers are
    never mixed."""
    answers = [answer for sample in samples for answer in sample]
    kept = [max(sample, key=lambda answer: answer.reading.rated) for sample in samples]
    verdicts = {aspect.id: conclude(aspect, kept) for aspect in task.aspects}
    if task.rubric.kinds and task.shown is None and len(samples) > 1:
        agreed = agree_on_faults([answer.reading.faults for answer in kept])
        verdicts = {
            name: replace(verdict, turns=(agreed[name],)) if name in agreed else verdict
            for name, verdict in verdicts.items()
        }
    return Judgement(
        verdicts=verdicts,
        provenance=trace_origin(answers, kind=kind, endpoint=endpoint),
        usage=reduce(add, (price_answer(answer, prices) for answer in answers)),
        cached=all(answer.hit for answer in answers),
        trace=tuple(map(trace_call, answers)),
        warnings=(*warn_of_replies(answers), *(warn_of_missing(verdicts) if task.options.expected else ())),
    )


def conclude(aspect: Aspect, answers: Sequence[SampleAnswer]) -> Verdict:
    """One aspect's verdict over the samples' answers that count. `expected` is the mean of the rated samples'
    expectations, and only where each of them has one; `reason` is that of the first sample with the lower median, which
    is the rating shown."""
    kept = [answer for answer in answers if aspect.id in answer.reading.ratings]
    if len(kept) == 1 and not kept[0].question.options.expected:
        reading = kept[0].reading
        rating, reason = reading.ratings[aspect.id], reading.reasons.get(aspect.id)
        if isinstance(rating, int) and reason is None:
            return bare(rating)
        return Verdict((rating,), reason=reason, turns=list_faults(aspect, [reading]))
    readings = [answer.reading for answer in kept]
    ratings = [reading.ratings[aspect.id] for reading in readings]
    rated = [answer for answer, rating in zip(kept, ratings, strict=True) if isinstance(rating, int)]
    valid = [rating for rating in ratings if isinstance(rating, int)]
    shown = readings[ratings.index(median_low(valid))] if valid else None
    expectations = [answer.expect(aspect) for answer in rated if answer.question.options.expected]
    found = [expectation for expectation in expectations if expectation is not None]
    whole = bool(found) and len(found) == len(rated)
    return Verdict(
        samples=tuple(ratings),
        expected=fmean(one.mean for one in found) if whole else None,
        off_scale_mass=fmean(one.off_scale_mass for one in found) if whole else None,
        reason=shown.reasons.get(aspect.id) if shown else None,
        turns=list_faults(aspect, readings),
    )


def list_faults(aspect: Aspect, readings: Sequence[VerdictReading]) -> tuple[FaultyTurnsRead, ...]:
    """The faulty turns that each verdict on a conversation names for the aspect."""
    return tuple(reading.faults[aspect.id] for reading in readings if aspect.id in reading.faults)


@lru_cache(maxsize=256)
def bare(rating: int) -> Verdict:
    """The verdict of one sample without a reason: the same for every aspect and dialogue."""
    return Verdict((rating,))


def price_answer(answer: SampleAnswer, prices: Prices) -> Usage:
    """The usage of one answer; empty if it came from the cache."""
    if answer.hit:
        return Usage()
    usage = price_reply(answer.reply, answer.question.model, prices)
    if usage.cost_usd is None or answer.price_share == 1:
        return usage
    return usage.model_copy(update={"cost_usd": answer.price_share * usage.cost_usd})


def price_reply(reply: Reply, asked_model: str, prices: Prices) -> Usage:
    """The usage of one call at the ordinary price, which is that of the model that was asked if the endpoint names one
    without a price."""
    model = reply.model if reply.model and prices.find(reply.model) else asked_model
    spent = {
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
    }
    cost_usd = prices.cost(model, **spent, written_tokens=reply.written_tokens)
    return Usage(judge_calls=1, cost_usd=cost_usd, **spent)


def trace_call(answer: SampleAnswer) -> CallTrace:
    """The trace of one call."""
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


def trace_origin(answers: Sequence[SampleAnswer], *, kind: str, endpoint: str) -> JudgeProvenance:
    """The judge's provenance. If several models or fingerprints answered to one name, all are listed."""
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
        lenient=any(answer.question.lenient for answer in answers),
    )


def distinct(texts: Iterable[str]) -> list[str]:
    """Each text once, in the order of first appearance."""
    return list(dict.fromkeys(texts))


def merge_parameters(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The parameters of all calls; one that was not the same in every call is `mixed`."""
    if len(found) == 1:
        return found[0]
    absent = object()
    merged: dict[str, Any] = {}
    for name in distinct(name for parameters in found for name in parameters):
        first, *others = [parameters.get(name, absent) for parameters in found]
        merged[name] = first if all(value == first for value in others) else "mixed"
    return merged


def warn_of_replies(answers: Sequence[SampleAnswer]) -> list[Warned]:
    """Warnings if a reply held the canary, also where the judge was asked again and then rated, or if a verdict says
    that a text addresses its evaluator."""
    leaked = sum(answer.reading.leaked for answer in answers)
    addressed = sum(answer.reading.addressed for answer in answers)
    warned = []
    if leaked:
        detail = Message("replies-leaked", count=leaked, total=len(answers))
        warned.append(Warned(code="prompt-leaked", where="judge", **in_english(detail)))
    if addressed:
        detail = Message("replies-addressed", count=addressed, total=len(answers))
        warned.append(Warned(code=CODE, where="verdict", **in_english(detail)))
    return warned


def warn_of_missing(verdicts: dict[str, Verdict]) -> tuple[Warned, ...]:
    """A warning that names the rated aspects whose expectation could not be had."""
    missing = [
        aspect_id
        for aspect_id, verdict in verdicts.items()
        if verdict.expected is None and any(isinstance(sample, int) for sample in verdict.samples)
    ]
    if not missing:
        return ()
    detail = Message("expected-value-missing", names=", ".join(missing))
    return (Warned(code="expected-unavailable", where="judge", **in_english(detail)),)
