"""What one request to DeepL holds and how it fails: passages with their context, packed, and failures as errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from saiten.core.messages import Message
from saiten_server.core import errors
from saiten_server.core.dialogue import Dialogue

MESSAGE_CHARACTERS = 100  # Most of DeepL's own words that a detail quotes; a detail has at most 200 characters


class DeepLFailure(Exception):
    """One request that failed: `error` for the caller, `transient` where the same request may succeed later."""

    def __init__(self, error: errors.UpstreamError, *, transient: bool = False) -> None:
        super().__init__(error.detail)
        self.error = error
        self.transient = transient


def quote_message(message: str, secret: str) -> str:
    """DeepL's own words on one line, cut, and without the key whatever they are."""
    line = " ".join(message.replace(secret, "…").split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def fail(what: Message, *, transient: bool = False) -> DeepLFailure:
    """The failure if DeepL gave no usable answer; `what` goes on after its name."""
    return DeepLFailure(errors.TranslatorUnavailable(Message("deepl-failed", what=what)), transient=transient)


def fail_by_status(status: int, message: str, retry_after_seconds: float | None) -> DeepLFailure:
    """The failure that an HTTP status means. `message` is quoted, so it must have gone through `quote_message`."""
    if status in (401, 403):
        return DeepLFailure(errors.TranslatorUnauthorized(Message("deepl-key-refused"), said=message))
    if status == 456:
        return DeepLFailure(errors.TranslatorQuotaExhausted(Message("deepl-quota")))
    if status == 429 or status >= 500:
        detail = Message("deepl-busy", status=status)
        return DeepLFailure(
            errors.TranslatorUnavailable(detail, retry_after_seconds=retry_after_seconds, said=message), transient=True
        )
    return DeepLFailure(errors.TranslatorRefusedRequest(Message("deepl-refused", status=status), said=message))


TARGET_LANGUAGE = "EN-US"
REQUEST_TEXTS = 50  # Most texts of a request that DeepL takes
REQUEST_BYTES = 96 * 1024  # Most bytes of a request's body. DeepL refuses 128 KiB, its own mock server already 100 KiB.
# Most bytes of `context`: about 4,000 Japanese characters. More would not fit beside a text of 8,000.
CONTEXT_BYTES = 24 * 1024
# Utterances of a list: few enough that a growing dialogue pays little twice, enough for one request in most cases
BLOCK_UTTERANCES = 10


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
    if not utterances:  # a conversation of a single turn
        return [TranslationPassage(dialogue.response, None)]
    passages: list[TranslationPassage] = []
    for start in range(0, len(utterances), BLOCK_UTTERANCES):
        before = utterances[: start + BLOCK_UTTERANCES]
        texts = [*before[start:], *([dialogue.response] if len(before) == len(utterances) else [])]
        whole = keep_recent(before, CONTEXT_BYTES)
        for text in texts:
            room = REQUEST_BYTES - measure_body([text], "", source_language)
            fits = whole is None or measure_text(whole) <= room
            passages.append(TranslationPassage(text, whole if fits else keep_recent(before, room)))
    return passages


def keep_recent(utterances: Sequence[str], limit_bytes: int) -> str | None:
    """The newest utterances that fit into `limit_bytes` (≥ 0 or not), one per line, oldest dropped. If not even the
    newest fits, its end is kept; None if not one code point does."""
    kept: list[str] = []
    room = limit_bytes
    for utterance in reversed(utterances):
        room -= measure_text(utterance) + (len("\\n") if kept else 0)
        if room < 0:
            break
        kept.append(utterance)
    if kept:
        return "\n".join(reversed(kept))
    text, room = utterances[-1], limit_bytes
    start = len(text)
    while start > 0 and (room := room - measure_text(text[start - 1])) >= 0:
        start -= 1
    return text[start:] or None


def pack_passages(passages: Sequence[TranslationPassage], source_language: str) -> list[list[TranslationPassage]]:
    """Passages as requests, order kept: one context each, at most `REQUEST_TEXTS` texts and `REQUEST_BYTES` bytes. A
    longer text goes alone."""
    requests: list[list[TranslationPassage]] = []
    room = 0
    for passage in passages:
        cost = measure_text(passage.text) + len('"", ')
        last = requests[-1] if requests else None
        if last and last[0].context == passage.context and len(last) < REQUEST_TEXTS and cost <= room:
            last.append(passage)
            room -= cost
        else:
            requests.append([passage])
            room = REQUEST_BYTES - measure_body([passage.text], passage.context, source_language)
    return requests
