"""What replies say, told again where the same words come again: most verdicts of a run are a few hundred."""

from __future__ import annotations

from hashlib import blake2b

from app.adapters.openai.parameters import Question
from app.adapters.openai.reply import Reply
from app.domain.verdict import Reading, rate_nothing, read_verdict

NO_COMPLETION = "the endpoint's answer is no chat completion; check OPENAI_BASE_URL"

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
    """What a reply says of the aspects it was asked about."""
    if not reply.completion:
        return rate_nothing(question.aspects, "unparseable", NO_COMPLETION)
    prompt = question.prompt(structured=reply.structured)
    return read_verdict(
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
