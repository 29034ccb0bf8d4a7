"""A judge's reply as it came over the wire, and as the call cache keeps it."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

from pydantic import Field

from app.domain.expectation import Token
from app.domain.model import Value, listed
from app.domain.plain_text import clean

LARGEST_COUNT = 2**31 - 1
FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})
"""An error with such a code is a reply: a content filter stopped the call."""

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Members of a message in which endpoints give what a model thought: vLLM and llama.cpp, Ollama and OpenRouter."""
REASONING_PARTS = frozenset({"thinking", "reasoning"})
TEXT_PARTS = frozenset({"text", "output_text"})

Choice = Annotated[tuple[str, float], Field(strict=False)]


class TokenRecord(Value):
    """A token and its alternatives. Bytes are in hexadecimal: a token may hold half a character."""

    text: str
    choices: Annotated[tuple[Choice, ...], listed()]


class Reply(Value):
    """What came back for one question. `key` is the question's own, so that an entry cannot stand in for another.

    `completion` is False where the answer was no chat completion at all, as from a wrong address. `reasoned` is whether
    the model's reasoning came beside the content. `cached_tokens` and
    `written_tokens` are those of the prompt that the provider read from its prompt cache and put there.
    """

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
    token_records: Annotated[tuple[TokenRecord, ...], listed()] = ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(
            Token(
                bytes.fromhex(record.text),
                tuple((bytes.fromhex(text), logprob) for text, logprob in record.choices),
            )
            for record in self.token_records
        )


def read_completion(payload: bytes) -> dict[str, Any]:
    """The fields of `Reply` that an endpoint's answer holds.

    Endpoints that only resemble OpenAI's leave things out or send other types; whatever is not of its type is read as
    absent, so that a broken answer becomes a reply without a verdict rather than a crash.
    """
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        answer = None
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
    """The content of a message, whether its reasoning came beside it, and a refusal.

    The content is a text, or a list of parts whose texts make it up; one with any part that is neither text nor
    reasoning nor refusal has no content.
    """
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
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    told = member(answer, "error", dict | str)
    return {"message": clean(told)} if isinstance(told, str) and told else told or None


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


def read_tokens(entries: list[Any] | None) -> tuple[TokenRecord, ...]:
    """The tokens with their alternatives; none where any entry is not what it should be."""
    records = []
    for entry in entries or ():
        chosen = read_choice(entry)
        if chosen is None:
            return ()
        alternatives = dict(filter(None, map(read_choice, member(entry, "top_logprobs", list) or ())))
        records.append(TokenRecord(text=chosen[0], choices=tuple(({chosen[0]: chosen[1]} | alternatives).items())))
    return tuple(records)


def read_choice(entry: Any) -> tuple[str, float] | None:
    """A token in hexadecimal with its log probability."""
    token, logprob = member(entry, "token", str), member(entry, "logprob", float | int)
    if token is None or logprob is None or not math.isfinite(logprob):
        return None
    try:
        text = bytes(member(entry, "bytes", list) or clean(token).encode())
    except (TypeError, ValueError):
        return None
    return text.hex(), float(logprob)
