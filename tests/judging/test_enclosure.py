"""The JSON that a dialogue is put into stands as Python would indent it: its bytes decide digests."""

import json
import re
import sys
from types import FrameType
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.judging.prompt import UNSUSPICIOUS, encode_untrusted, find_joined, is_harmful, write_indented_json

TEXTS = st.text(st.characters() | st.sampled_from(['"', "\\", "\n", "\u2028", "\x7f", "\ud800", "é", "文"]), max_size=8)
VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)


@settings(deadline=None)
@given(VALUES)
def test_it_is_laid_out_as_python_does_it(value: Any) -> None:
    assert write_indented_json(value) == json.dumps(value, ensure_ascii=False, indent=1)


def test_what_counts_as_plain_is_never_suspect() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    assert not [character for character in characters if UNSUSPICIOUS.fullmatch(character) and is_suspect(character)]


def is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def is_suspect(character: str) -> bool:
    return is_harmful(character) or is_selector(character) or character == "\u200d"


def escape_one(text: str, place: int) -> str:
    """What stands for one character of the text, by its neighbours."""
    character, before, after = text[place], text[place - 1], text[place + 1 : place + 2] or "\n"
    if is_selector(character):
        harmful = is_selector(before)
    elif character == "\u200d":
        joins = before in "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff\u20e3\ufe0f" or category(before) == "So"
        harmful = not (joins and category(after) == "So")
    elif character == "[":
        harmful = re.match(r"\[[/|]?[A-Za-z_]{2,32}\|?\]", text[place:]) is not None
    else:
        harmful = character == "<" or (character > "~" and category(character) in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
    if not harmful:
        return character
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


PIECES = [
    "<",
    "[INST]",
    "[|user|]",
    "[",
    "\ufe0f",
    "\ufe00",
    "\U000e0101",
    "\u200d",
    "\u200b",
    "☺",
    "👩",
    "🏽",
    "\u20e3",
]
PIECES += ["\ue000", "\U000f0000", "\U000e0041", "\u2028", "\x9f", "\ud800", "あ", "a"]
MIXED = st.lists(st.sampled_from(PIECES)).map("".join)


@settings(deadline=None)
@given(st.lists(MIXED, max_size=3), st.sampled_from([None, 1]))
def test_each_character_is_escaped_by_its_neighbours(texts: list[str], indent: int | None) -> None:
    plain = json.dumps(texts, ensure_ascii=False, indent=indent)
    assert encode_untrusted(texts, indent=indent) == "".join(escape_one(plain, place) for place in range(len(plain)))


def test_symbols_are_known_in_all_planes() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    text = "☺\u200d".join(["", *characters])
    joined = {text[match.end()] for match in find_joined().finditer(text)}
    assert joined == {character for character in characters if category(character) == "So"}


@pytest.mark.parametrize(
    "character", ["<", "<あ", "\ue000", "\u200b", "\u202e", "\u200d", "☺\u200d", "\ufe0f", "\U000e0041"]
)
def test_no_function_is_called_for_each_character(character: str) -> None:
    encode_untrusted(character)  # what it knows of the characters is made once
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        encode_untrusted([character * 4000] * 2)
    finally:
        sys.setprofile(None)
    assert calls < 200


@settings(deadline=None)
@given(VALUES, st.sampled_from(["", "<", "\u200b", "\u202e", "\ue000", "😀\ufe0f", "[INST]", "한국어", "日本語。"]))
def test_a_short_cut_past_plain_texts_changes_nothing(value: Any, more: str) -> None:
    text = json.dumps([value, more], ensure_ascii=False)
    escaped = encode_untrusted([value, more])
    assert json.loads(escaped) == json.loads(text)
    assert not any(character == "<" or character in "\u200b\u202e\ue000" for character in escaped)
