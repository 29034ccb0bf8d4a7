"""What DeepL is asked for, and what its refusals mean.

| status | error | tried again |
|---|---|---|
| 401, 403 | TranslatorUnauthorized | no |
| 456 | TranslatorQuotaExhausted | no |
| 429, 5xx, no answer | TranslatorUnavailable | yes, after `Retry-After` |
| anything else | TranslatorRefusedRequest, with what DeepL said | no |

DeepL takes one `context` a request, shared by all texts of its list, and looks at nothing else: a text's neighbours in
the list do not count (DeepL's documentation, "Translation context"). Japanese and Korean leave out subject and object,
so a text alone ("好きです。") cannot be put into English well, and one request a text would be no list. Therefore:

- A dialogue context is cut from its start into blocks of `BLOCK_UTTERANCES`. A block is one list whose `context` is
  every utterance up to the block's end, newest kept: each text comes with all that precedes it. (Its own block's later
  utterances are in it too, the response never: nothing of the response can leak into what it is judged against.)
- The response comes with the whole dialogue context, which is what the last block comes with, so both ride in one
  request. A dialogue of up to `BLOCK_UTTERANCES` utterances is one request.
- A text's context depends on nothing but the dialogue up to its block's end. So several responses to one dialogue
  context share its translation, and a dialogue that grows pays again for its open block at most, not for all of it.

Characters in `context` are not billed. All sizes are those of the JSON body as the SDK sends it: ASCII with escapes, so
a Japanese or Korean character is six bytes, one beyond the Basic Multilingual Plane twelve.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.dialogue import Dialogue
from app.domain.errors import (
    TranslatorQuotaExhausted,
    TranslatorRefusedRequest,
    TranslatorUnauthorized,
    TranslatorUnavailable,
    UpstreamError,
)

MESSAGE_CHARACTERS = 100  # Most of DeepL's own words that a detail quotes; a detail has at most 200 characters


class DeepLFailure(Exception):
    """One request that failed: `error` for the caller, `transient` where the same request may succeed later."""

    def __init__(self, error: UpstreamError, *, transient: bool = False) -> None:
        super().__init__(error.detail)
        self.error = error
        self.transient = transient


def quote_message(message: str, secret: str) -> str:
    """DeepL's own words on one line, cut, and without the key whatever they are."""
    line = re.sub(r"\s+", " ", message.replace(secret, "…")).strip()
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def fail(what: str, *, transient: bool = False) -> DeepLFailure:
    """The failure of a DeepL that gave no usable answer; `what` goes on after its name."""
    return DeepLFailure(TranslatorUnavailable(f"DeepL {what}."), transient=transient)


def fail_by_status(status: int, message: str, retry_after_seconds: float | None) -> DeepLFailure:
    """The failure that an HTTP status means. `message` is quoted, so it must have gone through `quote_message`."""
    if status in (401, 403):
        return DeepLFailure(TranslatorUnauthorized("DeepL refused the key; check DEEPL_API_KEY", said=message))
    if status == 456:
        return DeepLFailure(TranslatorQuotaExhausted("DeepL's quota for this billing period is used up (HTTP 456)."))
    if status == 429 or status >= 500:
        detail = f"DeepL is busy or broken (HTTP {status})"
        return DeepLFailure(
            TranslatorUnavailable(detail, retry_after_seconds=retry_after_seconds, said=message), transient=True
        )
    return DeepLFailure(
        TranslatorRefusedRequest(f"DeepL refused the request, and would again (HTTP {status})", said=message)
    )


TARGET_LANGUAGE = "EN-US"
REQUEST_TEXTS = 50  # Most texts of a request that DeepL takes
REQUEST_BYTES = 96 * 1024  # Most bytes of a request's body. DeepL refuses 128 KiB, its own mock server already 100 KiB.
CONTEXT_BYTES = 24 * 1024
"""Most bytes of `context`: about 4,000 Japanese characters. More would not fit beside a text of 8,000."""
BLOCK_UTTERANCES = 10
"""Utterances of a list: few enough that a growing dialogue pays little twice, enough for one request in most cases."""

SEPARATOR_BYTES = len(", ")
NEWLINE_BYTES = len("\\n")


@dataclass(frozen=True)
class TranslationPassage:
    """One text to be translated, with what precedes it (None where nothing of it fits beside the text)."""

    text: str
    context: str | None


def measure_text(text: str) -> int:
    """Bytes of `text` within the JSON body, without its quotation marks."""
    return len(json.dumps(text)) - 2


def measure_body(texts: Sequence[str], context: str | None, source_language: str) -> int:
    """Bytes of the request's body as the SDK sends it."""
    body: dict[str, object] = {
        "target_lang": TARGET_LANGUAGE,
        "source_lang": source_language,
        "text": list(texts),
        "show_billed_characters": True,
    }
    return len(json.dumps(body if context is None else body | {"context": context}))


def plan_passages(dialogue: Dialogue, source_language: str) -> list[TranslationPassage]:
    """The dialogue context's utterances in order, then the response: each with the context that it is sent with."""
    utterances = [utterance.text for utterance in dialogue.context]
    passages: list[TranslationPassage] = []
    for start in range(0, len(utterances), BLOCK_UTTERANCES):
        before = utterances[: start + BLOCK_UTTERANCES]
        texts = before[start:]
        if len(before) == len(utterances):
            texts = [*texts, dialogue.response]
        whole = keep_recent(before, CONTEXT_BYTES)
        passages += [TranslationPassage(text, _fit_context(text, whole, before, source_language)) for text in texts]
    return passages


def _fit_context(text: str, whole: str | None, before: Sequence[str], source_language: str) -> str | None:
    """`whole`, or what is left of it where `text` is so long that both do not fit into one request."""
    room = REQUEST_BYTES - measure_body([text], "", source_language)
    return whole if whole is None or measure_text(whole) <= room else keep_recent(before, room)


def keep_recent(utterances: Sequence[str], limit_bytes: int) -> str | None:
    """The newest utterances that fit into `limit_bytes` (≥ 0 or not), one a line, oldest dropped.

    Where not even the newest fits, its end is kept; None where not one code point does.
    """
    kept: list[str] = []
    room = limit_bytes
    for utterance in reversed(utterances):
        room -= measure_text(utterance) + (NEWLINE_BYTES if kept else 0)
        if room < 0:
            break
        kept.append(utterance)
    return "\n".join(reversed(kept)) if kept else _keep_end(utterances[-1], limit_bytes)


def _keep_end(text: str, limit_bytes: int) -> str | None:
    start, room = len(text), limit_bytes
    while start > 0 and (room := room - measure_text(text[start - 1])) >= 0:
        start -= 1
    return text[start:] or None


def pack_passages(passages: Sequence[TranslationPassage], source_language: str) -> list[list[TranslationPassage]]:
    """Passages as requests, order kept: one context each, at most `REQUEST_TEXTS` texts and `REQUEST_BYTES` bytes.

    A text that alone passes `REQUEST_BYTES` goes alone.
    """
    requests: list[list[TranslationPassage]] = []
    room = 0
    for passage in passages:
        cost = measure_text(passage.text) + len('""') + SEPARATOR_BYTES
        last = requests[-1] if requests else None
        if last and last[0].context == passage.context and len(last) < REQUEST_TEXTS and cost <= room:
            last.append(passage)
            room -= cost
        else:
            requests.append([passage])
            room = REQUEST_BYTES - measure_body([passage.text], passage.context, source_language)
    return requests
