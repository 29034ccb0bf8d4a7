"""Which tokens a model reads of a question and a response, and how many it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.metric_ports import MetricUnavailable

LENGTHS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "n_ctx")
"""Where configurations say how many positions there are, in the order in which they are believed."""

Ids = Sequence[int]


@dataclass(frozen=True)
class Reading:
    """`ids` as the model reads them; those from `first` on are the response's and are scored. `first` is at least 1:
    nothing predicts the first token."""

    ids: tuple[int, ...]
    first: int
    truncated: bool


def place(start: Ids, question: Ids, response: Ids, window: int) -> Reading:
    """Start, question and response in at most `window` tokens.

    What is too long loses the question's beginning first, to the last token, and then the response's end.

    Raises:
        MetricUnavailable: no token of the response has one before it.
    """
    kept = response[: window - len(start)]
    room = window - len(start) - len(kept)
    asked = question[len(question) - min(room, len(question)) :]
    ids = (*start, *asked, *kept)
    first = max(1, len(start) + len(asked))
    if not kept:
        raise MetricUnavailable("the response has no token that the language model knows")
    if first >= len(ids):
        raise MetricUnavailable("the response is one token, and the language model has none for the beginning")
    return Reading(ids, first, truncated=len(kept) < len(response) or len(asked) < len(question))


def find_window(config: Any, tokenizer: Any, max_tokens: int) -> int:
    """How many tokens are read at most: the model's positions, else what the tokenizer states; never above
    `max_tokens`, which bounds the memory that one text takes."""
    inner = config.get_text_config()
    positions = (getattr(inner, name, None) for name in LENGTHS)
    stated = next((number for number in positions if isinstance(number, int) and number > 0), None)
    # transformers writes 1e30 where a tokenizer states no length.
    return int(min(stated or tokenizer.model_max_length, max_tokens))
