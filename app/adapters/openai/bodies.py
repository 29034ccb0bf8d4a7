"""Request bodies as bytes. Tens of kilobytes of each are the same for all dialogues, and are written once."""

from __future__ import annotations

import json
from typing import Any

from app.adapters.openai.parameters import Question

KEPT = 256
"""Beginnings and ends kept at most: one a model, rubric, format, sample and attempt."""

PLACE = "\ue000"
"""Stands where the dialogue goes. A private-use character, which no prompt of ours holds."""

Way = tuple[object, ...]


class Bodies:
    """Writes questions as the endpoint is to be sent them. Keeps what is fixed of the last ways of asking."""

    def __init__(self) -> None:
        self._kept: dict[Way, tuple[bytes, bytes]] = {}

    def write(self, question: Question, conceded: tuple[str, ...]) -> bytes:
        """`question.body(conceded)` as JSON in UTF-8."""
        prompt = question.prompt(structured="response_format" not in conceded)
        which = (question.sample, question.attempt, question.max_output_tokens, question.marked)
        way = (question.model, question.options, prompt.prefix_digest, conceded, *which)
        around = self._kept.get(way)
        if around is None:
            around = self._kept[way] = self._cut(question, conceded)
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        beginning, end = around
        return beginning + dump(prompt.user) + end

    def _cut(self, question: Question, conceded: tuple[str, ...]) -> tuple[bytes, bytes]:
        body = question.body(conceded)
        *fixed, asked = body["messages"]
        beginning, _, end = dump(body | {"messages": [*fixed, asked | {"content": PLACE}]}).partition(dump(PLACE))
        return beginning, end


def dump(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
