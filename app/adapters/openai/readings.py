"""What replies say, told again where the same words come again: most verdicts of a run are a few hundred."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType

from app.adapters.openai.parameters import Question
from app.adapters.openai.reply import Reply
from app.domain.evaluation import Unrated
from app.domain.verdict import Rating, Reading, rate_nothing, read_verdict

NO_COMPLETION = "the endpoint's answer is no chat completion; check OPENAI_BASE_URL"

IGNORED = "the endpoint probably ignored `response_format`"
"""A reply that was held to the schema could not be like this."""
NO_THINKING = "switch its thinking off with SAITEN_JUDGE_EXTRA"
THINKING = re.compile(
    r"\s*+(?:<(?:think|thinking|thought|reasoning)>|<\|channel\|>analysis|.{0,4000}?</think>)", re.DOTALL
)
"""How models begin that write what they think before the verdict. Some templates open the block for them."""

MOST_RECENT = 4096


class Readings:
    """Reads replies. The last `MOST_RECENT` whole verdicts without reasons are remembered by their digests: what is
    kept of one is its ratings and where they stand, and no text. For one event loop."""

    def __init__(self) -> None:
        self._known: dict[bytes, Reading] = {}

    def read(self, reply: Reply, question: Question) -> Reading:
        """The same as `read_reply`."""
        whole = reply.completion and reply.finish_reason == "stop" and not reply.refusal
        if not whole or question.options.explain or reply.content is None:
            return read_reply(reply, question)
        # The fixed part's digest stands for the aspects with their scales, the language, the format and the canary.
        asked = question.prompt(structured=reply.structured).prefix_digest
        key = blake2b(f"{asked}{reply.content}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            known = read_reply(reply, question)
            if known.complete:
                self._remember(key, known)
        return known

    def _remember(self, key: bytes, reading: Reading) -> None:
        if len(self._known) >= MOST_RECENT:
            del self._known[next(iter(self._known))]
        self._known[key] = reading


def read_reply(reply: Reply, question: Question) -> Reading:
    """What a reply says of the aspects it was asked about; what it does not rate is explained."""
    if not reply.completion:
        return rate_nothing(question.aspects, "unparseable", NO_COMPLETION)
    prompt = question.prompt(structured=reply.structured)
    reading = read_verdict(
        reply.content,
        aspects=question.aspects,
        language=question.language,
        structured=reply.structured,
        explain=question.options.explain,
        finish_reason=reply.finish_reason,
        refusal=reply.refusal,
        canary=prompt.canary,
        screen=prompt.screen,
    )
    if reading.complete or reading.leaked or reply.refusal:
        return reading
    hint = find_hint(reply)
    return reading if hint is None else replace(reading, ratings=add_hint(reading.ratings, hint))


def find_hint(reply: Reply) -> str | None:
    """Why the endpoint, rather than the model, may be at fault, and what to do."""
    thought = THINKING.match(reply.content or "") is not None
    if reply.finish_reason == "length":
        return (
            f"it was still reasoning: raise judge.max_tokens, or {NO_THINKING}" if thought or reply.reasoned else None
        )
    if thought:
        return f"it begins with the model's reasoning: have the endpoint keep that apart, or {NO_THINKING}"
    if reply.finish_reason != "stop":
        return None
    if reply.reasoned and not (reply.content or "").strip():
        return f"only its reasoning came: {NO_THINKING}"
    return IGNORED if reply.structured else None


def add_hint(ratings: Mapping[str, Rating], hint: str) -> Mapping[str, Rating]:
    """The ratings, with the hint behind each detail of what is unrated."""
    return MappingProxyType(
        {
            aspect_id: rating.model_copy(update={"detail": f"{rating.detail}; {hint}"})
            if isinstance(rating, Unrated)
            else rating
            for aspect_id, rating in ratings.items()
        }
    )
