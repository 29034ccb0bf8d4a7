"""Whether a response is a comment on a Korean text, such as a diary entry, rather than a turn of a chat."""

from __future__ import annotations

from typing import Any

TEXT_NAMES = frozenset({"일기", "글", "게시글", "게시물", "본문", "diary", "post"})
"""Names that a context gives to a text in place of a speaker."""


def is_comment(context: Any) -> bool:
    """Whether the context, as items have it, is one text whose speaker is called a diary or a post."""
    if not isinstance(context, list) or len(context) != 1 or not isinstance(context[0], dict):
        return False
    return str(context[0].get("speaker", "")).strip().casefold() in TEXT_NAMES
