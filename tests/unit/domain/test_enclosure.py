"""The JSON that a dialogue is put into stands as Python would indent it: its bytes decide digests."""

from __future__ import annotations

import json
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.prompt import PLAIN, encode_untrusted, is_suspect, lay_out

TEXTS = st.text(st.characters() | st.sampled_from(['"', "\\", "\n", "\u2028", "\x7f", "\ud800", "é", "文"]), max_size=8)
VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)


@settings(deadline=None)
@given(VALUES)
def test_it_is_laid_out_as_python_does_it(value: Any) -> None:
    assert lay_out(value) == json.dumps(value, ensure_ascii=False, indent=1)


def test_what_counts_as_plain_is_never_suspect() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    assert not [character for character in characters if PLAIN.fullmatch(character) and is_suspect(character)]


@settings(deadline=None)
@given(VALUES, st.sampled_from(["", "<", "\u200b", "\u202e", "\ue000", "😀\ufe0f", "[INST]", "한국어", "日本語。"]))
def test_a_short_cut_past_plain_texts_changes_nothing(value: Any, more: str) -> None:
    text = json.dumps([value, more], ensure_ascii=False)
    escaped = encode_untrusted([value, more])
    assert json.loads(escaped) == json.loads(text)
    assert not any(character == "<" or character in "\u200b\u202e\ue000" for character in escaped)
