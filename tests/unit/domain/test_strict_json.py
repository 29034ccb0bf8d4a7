"""What Python's JSON parser lets through and Saiten does not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.strict_json import StrictJSONError, parse_strict_json

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
