"""The lines of a provider batch's files: what is asked, and what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Literal

from app.adapters.openai.parameters import find_refused, name_dropped
from app.adapters.openai.reply import FILTER_CODES, Reply, member, read_completion, text_member
from app.domain.provider_batch import Part
from app.provider_ports import DeferredCall, ProviderAnswer

CHAT_PATH: Literal["/v1/chat/completions"] = "/v1/chat/completions"
FILTERED = {"content": None, "finish_reason": "content_filter"}


def write_line(call: DeferredCall) -> bytes:
    """One call as a line of a file."""
    line = {"custom_id": call.key, "method": "POST", "url": CHAT_PATH, "body": call.body}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read_line(line: bytes, part: Part) -> ProviderAnswer | None:
    """One line of a file of answers; None where it cannot be read or does not say which call it answers."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = text_member(told, "custom_id")
    if key is None:
        return None
    response = member(told, "response", dict)
    status, body = member(response, "status_code", int), member(response, "body", dict)
    if status == HTTPStatus.OK:
        # As it would have come over the wire, so that one reader bounds and cleans both.
        answer = read_completion(json.dumps(body).encode())
        return ProviderAnswer(key, write_entry(key, part, answer) if answer["completion"] else None)
    return read_error(key, part, status, member(body, "error", dict))


def read_error(key: str, part: Part, status: int | None, error: dict[str, Any] | None) -> ProviderAnswer:
    """A call that failed. One that a content filter stopped is a reply, as it is in a live call."""
    code = text_member(error, "code")
    if code in FILTER_CODES:
        return ProviderAnswer(key, write_entry(key, part, FILTERED))
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return ProviderAnswer(key, None)
    message, param = text_member(error, "message") or "", text_member(error, "param")
    return ProviderAnswer(key, None, find_refused(list_sent(part.parameters), message, param, code))


def write_entry(key: str, part: Part, answer: Mapping[str, Any]) -> bytes:
    """The reply as the call cache would keep it."""
    reply = Reply(
        key=key,
        structured="response_format" not in part.conceded,
        parameters=dict(part.parameters),
        dropped=name_dropped(part.conceded),
        **answer,
    )
    return reply.model_dump_json().encode()


def list_sent(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as they stood in the body: `logprobs` goes with `top_logprobs`, and `text` is not spelt out."""
    sent = dict(parameters)
    if "top_logprobs" in sent:
        sent["logprobs"] = True
    if sent.get("response_format") == "text":
        del sent["response_format"]
    return sent


async def split_lines(pieces: AsyncIterator[bytes], longest_bytes: int) -> AsyncGenerator[bytes]:
    """The lines of a stream. One that is longer than allowed is passed over, and never held whole."""
    held, passing = bytearray(), False
    async for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            if not passing and len(held) + len(end) <= longest_bytes:
                yield bytes(held + end)
            held.clear()
            passing = False
        passing = passing or len(held) + len(rest) > longest_bytes
        if passing:
            held.clear()
        else:
            held += rest
    if held:
        yield bytes(held)
