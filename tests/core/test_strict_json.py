"""What Python's JSON parser lets through and Saiten does not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten.core.strict_json import StrictJSONError, parse_strict_json, read_strict_json

REFUSED = {
    "empty": b"",
    "plain text": "こんにちは".encode(),
    "truncated": '{"response":"おは'.encode(),
    "two documents": b'{"a":1}{"b":2}',
    "byte order mark": b'\xef\xbb\xbf{"a":1}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "EUC-KR": '{"a":"안녕"}'.encode("euc-kr"),
    "same key twice": b'{"a":1,"a":2}',
    "same key twice, written differently": b'{"a":1,"\\u0061":2}',
    "same key twice, deep inside": b'[{"x":{"a":1,"a":1}}]',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "overflow": b'{"a":1e999}',
    "10,000 digits": b'{"a":' + b"9" * 10_000 + b"}",
    "lone surrogate": b'{"a":"\\ud800"}',
    "lone surrogate in a list": b'{"a":[["\\udc00"]]}',
    "lone surrogate in a key": b'{"\\udfff":1}',
    "lone surrogate in a key, in capitals": b'[{"a":{"\\uDBFF":1}}]',
    "lone surrogate in a top-level array": b'["a","\\ud800"]',
    "lone surrogate at the top": b'"\\uDc00"',
    "surrogates in the wrong order": b'"\\ude46\\ud83d"',
    "100,000 open brackets": b"[" * 100_000,
    "5,000 deep": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "raw control character": b'{"a":"\x07"}',
    "single quotes": b"{'a':1}",
    "trailing comma": b'{"a":1,}',
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(body: bytes) -> None:
    with pytest.raises(StrictJSONError) as caught:
        parse_strict_json(body)
    assert len(str(caught.value)) < 120


def test_a_surrogate_pair_is_a_character() -> None:
    assert parse_strict_json(b'{"a":"\\ud83d\\ude46"}') == {"a": "🙆"}


def test_the_words_of_an_escape_are_no_surrogate() -> None:
    assert parse_strict_json(rb'{"a":["\\ud800"]}') == {"a": ["\\ud800"]}


def test_surrogates_are_found_as_deep_as_the_parser_goes() -> None:
    with pytest.raises(StrictJSONError):
        parse_strict_json(b"[" * 600 + rb'"\ud800"' + b"]" * 600)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":{"b":1,"b":1}}', "same key twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":1e999}', "too large"),
        ('{"a":123456789012345678901}', "too large"),
        ("[" * 100_000, "nested"),
        ('{"a":1} x', "line 1 column 9"),
    ],
)
def test_a_text_is_read_as_strictly(text: str, says: str) -> None:
    with pytest.raises(StrictJSONError, match=says):
        read_strict_json(text)


def test_a_text_may_keep_its_integers_and_its_surrogates() -> None:
    text = r'{"a":-0,"b":[9999999999999999999999999],"c":1.5,"d":"\ud800"}'
    found = read_strict_json(text, parse_int=str)
    assert found == {"a": "-0", "b": ["9999999999999999999999999"], "c": 1.5, "d": "\ud800"}


def test_twenty_digits_are_the_longest_integer() -> None:
    assert parse_strict_json(b"9" * 20) == 10**20 - 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_takes_all_proper_json(value: object) -> None:
    assert parse_strict_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_one_kind_of_error(body: bytes) -> None:
    try:
        parse_strict_json(body)
    except StrictJSONError as error:
        assert str(error)
