"""What a text of others becomes before a terminal or a drawing has it."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten.core.plain_text import escape_controls, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("自然さ / 합리성 é 👍", "自然さ / 합리성 é 👍"),
        ("two\nlines\tand\u3000wide", "two lines and wide"),
        ("\x1b[31m", "\ufffd[31m"),
        ("\x9b31m\x7f", "\ufffd31m\ufffd"),
        ("a\u202eb", "a\ufffdb"),
    ],
)
def test_a_text_is_one_line_without_controls(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_an_escape_is_lower_case_and_four_digits_long() -> None:
    assert escape_controls('{"a\x7f": "\x9b31m \\\\\x85 é 猫"}') == '{"a\\u007f": "\\u009b31m \\\\\\u0085 é 猫"}'


@given(st.text(st.one_of(st.characters(max_codepoint=0x100), st.characters(exclude_categories=["Cs"]))))
def test_json_keeps_its_meaning_and_loses_its_controls(text: str) -> None:
    written = escape_controls(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}
    assert not any(unicodedata.category(character) == "Cc" for character in written)
