"""A batch's document, read in pieces of any size: what it takes, what it refuses and where it points."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from saiten.core.strict_json import StrictJSONError
from saiten_server.core.batch import BatchOptions
from saiten_server.core.dialogue import DEFAULT_LIMITS, Limits
from saiten_server.core.model import RUBRIC_PATTERN
from saiten_server.core.validation import InvalidDocument
from saiten_server.runs.document import BatchReader
from tests.support.faults import said

ITEM = {"id": "甲-1", "context": [{"speaker": "甲", "text": "今日はいい天気ですね🙆"}], "response": "そうですね"}
SEVERAL = {"context": ITEM["context"], "responses": ["はい", "いいえ"], "reference": "ええ", "metadata": {"a": "b"}}
OPTIONS = {"name": "夜の分", "budget_usd": 1.5, "judge": {"samples": 2}}

Answer = tuple[BatchOptions, list[Any]]


def read(body: bytes, *, ndjson: bool = False, size: int = 1 << 20, limits: Limits = DEFAULT_LIMITS) -> Answer:
    reader = BatchReader(limits, ndjson=ndjson)
    found = [item for start in range(0, len(body), size) for item in reader.feed(body[start : start + size])]
    found += reader.close()
    return reader.options, found


def faults(value: Any, *, ndjson: bool = False, limits: Limits = DEFAULT_LIMITS) -> list[tuple[str, str]]:
    body = value if isinstance(value, bytes) else lines(*value) if ndjson else dumped(value)
    with pytest.raises(InvalidDocument) as caught:
        read(body, ndjson=ndjson, limits=limits)
    return said(caught.value.faults)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def lines(*values: Any) -> bytes:
    return b"".join(dumped(value) + b"\n" for value in values)


WHOLE = {
    "items first": dumped({"items": [ITEM, SEVERAL], **OPTIONS}),
    "items last": dumped({**OPTIONS, "items": [ITEM, SEVERAL]}),
    "indented": json.dumps(
        {"name": "夜の分", "items": [ITEM, SEVERAL], "budget_usd": 1.5, "judge": {"samples": 2}}, indent=1
    ).encode(),
    "escaped": json.dumps({**OPTIONS, "items": [ITEM, SEVERAL]}).encode() + b" \r\n\t",
}
LINES = {
    "LF": lines(OPTIONS, ITEM, SEVERAL),
    "CRLF": lines(OPTIONS, ITEM, SEVERAL).replace(b"\n", b"\r\n"),
    "no last line end": lines(OPTIONS, ITEM, SEVERAL)[:-1],
    "blank lines": b"\n" + lines(OPTIONS) + b" \t\r\n\n" + lines(ITEM, SEVERAL) + b"\n",
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE.keys())
def test_a_document_is_the_same_in_pieces_of_any_size(body: bytes, size: int) -> None:
    check_whole(*read(body, size=size))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("body", LINES.values(), ids=LINES.keys())
def test_so_are_lines(body: bytes, size: int) -> None:
    check_whole(*read(body, ndjson=True, size=size))


def check_whole(options: BatchOptions, found: list[Any]) -> None:
    assert (options.name, options.budget_usd, options.judge.samples) == ("夜の分", 1.5, 2)
    assert [item.id for item in found] == ["甲-1", None]
    first, second = found
    assert (first.context[0].text, first.response) == ("今日はいい天気ですね🙆", "そうですね")
    assert (second.responses, second.reference, second.metadata) == (("はい", "いいえ"), ("ええ",), {"a": "b"})


def test_it_may_be_cut_anywhere() -> None:
    body = WHOLE["escaped"]
    for at in range(0, len(body), 5):
        reader = BatchReader(DEFAULT_LIMITS, ndjson=False)
        found = [*reader.feed(body[:at]), *reader.feed(body[at:]), *reader.close()]
        check_whole(reader.options, found)


def test_items_come_out_while_the_document_still_arrives() -> None:
    reader = BatchReader(DEFAULT_LIMITS, ndjson=False)
    body = dumped({"items": [ITEM] * 3})
    assert len(reader.feed(body[: len(body) // 2])) == 1
    with pytest.raises(LookupError):
        reader.options.model_dump()


ONE = dumped(ITEM)
NO_JSON = {
    "empty": b"",
    "blank": b" \n",
    "a text": b'"items"',
    "no comma": b'{"items":[' + ONE + ONE + b"]}",
    "trailing comma": b'{"items":[' + ONE + b",]}",
    "trailing comma of the object": b'{"items":[' + ONE + b"],}",
    "no colon": b'{"items" [' + ONE + b"]}",
    "a key without quotes": b"{items:[]}",
    "a number as key": b"{1:[]}",
    "trailing garbage": b'{"items":[' + ONE + b"]} x",
    "two documents": (b'{"items":[' + ONE + b"]}") * 2,
    "items twice": b'{"items":[' + ONE + b'],"items":[' + ONE + b"]}",
    "a key twice": b'{"name":"a","name":"a","items":[' + ONE + b"]}",
    "a key twice, written differently": b'{"name":"a","n\\u0061me":"a","items":[' + ONE + b"]}",
    "a key twice in an item": b'{"items":[{"id":"a","id":"a"}]}',
    "NaN": b'{"budget_usd":NaN,"items":[]}',
    "infinity": b'{"budget_usd":-Infinity,"items":[]}',
    "overflow": b'{"budget_usd":1e999,"items":[]}',
    "a number in two parts": b'{"budget_usd":1 .5,"items":[]}',
    "a lone surrogate": b'{"items":[{"id":"\\ud83d"}]}',
    "surrogates in the wrong order": b'{"name":"\\ude46\\ud83d","items":[]}',
    "a lone surrogate as key": b'{"\\ud83d":1,"items":[]}',
    "byte order mark": b"\xef\xbb\xbf" + dumped({"items": [ITEM]}),
    "UTF-16": json.dumps({"items": [ITEM]}).encode("utf-16"),
    "half a character at the end": b'{"items":[]}\xe3\x81',
    "EUC-JP": '{"name":"夜","items":[]}'.encode("euc-jp"),
    "a surrogate in UTF-8": b'{"name":"\xed\xa0\xbd","items":[]}',
    "too deep": b'{"items":[' + b"[" * 100_000,
    "a raw control character": b'{"name":"\x07","items":[]}',
    "a large integer": b'{"budget_usd":' + b"9" * 21 + b',"items":[]}',
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON.keys())
def test_what_is_no_json_is_refused(body: bytes) -> None:
    for size in (1, 5, 1 << 20):
        with pytest.raises(StrictJSONError) as caught:
            read(body, size=size if len(body) < 1000 else 4096)
        assert len(str(caught.value)) < 120


def test_a_document_that_breaks_off_is_refused() -> None:
    body = WHOLE["items first"]
    assert [at for at in range(len(body) - 1) if is_read(body[:at])] == []


def is_read(body: bytes) -> bool:
    """Whether it is taken for a document."""
    try:
        read(body)
    except StrictJSONError:
        return False
    return True


@pytest.mark.parametrize("size", [1, 9, 1 << 20])
def test_an_error_says_where_in_the_whole_document(size: int) -> None:
    body = '{\n "name": "夜",\n "items": [\n  '.encode() + ONE + b",\n  {'id': 1}, 2, 3, 4, 5, 6, 7, 8\n]}"
    with pytest.raises(StrictJSONError, match=r"at line 5 column 4$"):
        read(body, size=size)
    with pytest.raises(StrictJSONError, match=r"\(byte 31\)$"):
        read('{"name":"夜","items":[          '.encode()[:31] + b"\xff", size=size)


def test_a_pair_of_surrogates_may_be_cut() -> None:
    body = b'{"name":"\\ud83d\\ude46","items":[' + ONE + b"]}"
    assert {read(body, size=size)[0].name for size in range(1, 40)} == {"🙆"}


POINTED: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "no items": ({}, [("/items", "is missing")]),
    "items alone": ([ITEM], [("", "must be an object that holds `items`, not a list")]),
    "an empty list": ({"items": []}, [("/items", "must hold at least 1")]),
    "an object": ({"items": {"a": 1}}, [("/items", "must be a list")]),
    "null": ({"items": None}, [("/items", "must be a list")]),
    "an item that is a text": ({"items": ["a"]}, [("/items/0", "must be an object")]),
    "no response": (
        {"items": [ITEM, {"context": ITEM["context"]}]},
        [("/items/1", "must have either `response` or `responses`")],
    ),
    "an unknown field": ({"items": [{**ITEM, "a/b": 1}]}, [("/items/0/a~1b", "is not a field that is known here")]),
    "an unknown option": (
        {"itemz": 1, "items": [ITEM]},
        [("/itemz", "is not a field that is known here; did you mean 'items'?")],
    ),
    "an option": ({"items": [ITEM], "path": 1}, [("/path", "must be one of 'source', 'english', 'both'")]),
    "several": (
        {"items": [{**ITEM, "response": 1}, ITEM, {**ITEM, "response": " "}], "rubric": "../x"},
        [
            ("/items/0/response", "must be a text"),
            ("/items/2/response", "is blank or holds only invisible characters"),
            ("/rubric", f"must match {RUBRIC_PATTERN}"),
        ],
    ),
}


@pytest.mark.parametrize(("value", "expected"), POINTED.values(), ids=POINTED.keys())
def test_each_fault_has_its_pointer(value: Any, expected: list[tuple[str, str]]) -> None:
    assert faults(value) == expected


def test_in_lines_it_has_its_line_too() -> None:
    body = lines({"rubric": "../x"}) + b"\n" + lines(ITEM, {**ITEM, "response": 1})
    assert faults(body, ndjson=True) == [
        ("/rubric", f"must match {RUBRIC_PATTERN}"),
        ("/items/1/response", "line 4: must be a text"),
    ]
    assert faults([OPTIONS], ndjson=True) == [("/items", "must hold at least 1")]
    assert faults([[], ITEM], ndjson=True) == [("", "must be an object")]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the document is empty"),
        (b"\n \n", "the document is empty"),
        (lines({}, ITEM) + b"{", "^line 3: the document is not valid JSON: .* at column 2$"),
        (lines({}) + dumped(ITEM) * 2, "^line 2: the document is not valid JSON: Extra data"),
        (lines({}) + b'{"id":"\\ud800"}', "^line 2: a string holds a lone surrogate$"),
        (lines({}) + b'{"id":"a","id":"b"}', "^line 2: an object holds the same key twice$"),
        (b"\xef\xbb\xbf" + lines({}, ITEM), "^line 1: the document starts with a byte order mark"),
        (lines({}) + b"\xff", "^line 2: the document is not UTF-8"),
    ],
)
def test_lines_that_are_no_json_are_refused(body: bytes, says: str) -> None:
    with pytest.raises(StrictJSONError, match=says):
        read(body, ndjson=True)


@pytest.mark.parametrize("ndjson", [False, True])
def test_after_twenty_faults_the_rest_is_not_read(ndjson: bool) -> None:
    reader = BatchReader(DEFAULT_LIMITS, ndjson=ndjson)
    bad = [{**ITEM, "response": 1}] * 30
    body = lines({}, *bad) if ndjson else dumped({"items": bad})
    with pytest.raises(InvalidDocument) as caught:
        reader.feed(body[:-1])
    assert [where for where, _ in caught.value.faults] == [f"/items/{number}/response" for number in range(20)]


@pytest.mark.parametrize("ndjson", [False, True])
def test_the_limit_of_candidates_is_noticed_at_once(ndjson: bool) -> None:
    limits = Limits(batch_items=3)
    reader = BatchReader(limits, ndjson=ndjson)
    items = [ITEM, SEVERAL, ITEM]
    body = lines({}, *items) if ndjson else dumped({"items": items})[:-1]
    with pytest.raises(InvalidDocument, match="/items: a batch may have at most 3 candidates"):
        reader.feed(body)
    assert len(read(dumped({"items": [ITEM, SEVERAL]}), limits=limits)[1]) == 2


def test_an_item_has_a_largest_size_to_the_byte() -> None:
    item = {"context": ITEM["context"], "response": "はい", "metadata": {"pad": ""}}
    room = 1024 - len(dumped(item))
    item["metadata"] = {"pad": "x" * room}
    limits = Limits(body_bytes=1024, metadata_characters=2000)
    for body, ndjson in ((dumped({"items": [ITEM, item]}), False), (lines({}, ITEM, item), True)):
        for size in (1, 1 << 20):
            assert len(read(body, ndjson=ndjson, size=size, limits=limits)[1]) == 2
    item["metadata"] = {"pad": "x" * (room + 1)}
    assert faults({"items": [ITEM, item]}, limits=limits) == [("/items/1", "may have at most 1024 bytes")]
    assert faults([{}, ITEM, item], ndjson=True, limits=limits) == [("/items/1", "line 3: may have at most 1024 bytes")]


@pytest.mark.parametrize(
    ("start", "where"),
    [
        (b'{"items":[{"id":"', "/items/0"),
        (b'{"name":"', "/name"),
        (b'{"items":"', "/items"),
        (b'{"', ""),
        (b'{"items":[' + ONE + b'],"name":"', "/name"),
    ],
)
def test_a_value_without_end_is_not_waited_for(start: bytes, where: str) -> None:
    reader = BatchReader(Limits(body_bytes=1024), ndjson=False)
    reader.feed(start)
    pieces = [b"x" * 100] * 40
    with pytest.raises(InvalidDocument) as caught:
        list(map(reader.feed, pieces))
    assert said(caught.value.faults) == [(where, "may have at most 1024 bytes")]


def test_the_whole_has_a_largest_size() -> None:
    reader = BatchReader(Limits(batch_bytes=1024), ndjson=False)
    reader.feed(b" " * 1024)
    with pytest.raises(InvalidDocument, match="at most 1024 bytes"):
        reader.feed(b" ")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-999, 999)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["items", "name", "id", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, st.booleans(), st.integers(1, 9), st.binary(max_size=3))
def test_pieces_never_change_the_answer(value: Any, ascii_only: bool, size: int, more: bytes) -> None:
    # A list is refused at its first character, whatever comes after it.
    assume(not isinstance(value, list))
    body = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass") + more

    def outcome(size: int) -> Any:
        try:
            return read(body, size=size)
        except InvalidDocument as error:
            return error.faults
        except StrictJSONError:
            return "no JSON"

    assert outcome(size) == outcome(1 << 20)


MEMORY = """
import resource, sys
from saiten_server.runs.document import BatchReader
from saiten_server.core.dialogue import DEFAULT_LIMITS

ndjson = sys.argv[1] == "ndjson"
item = '{"context":[{"speaker":"U","text":"%s"}],"response":"%s"}' % ("やあ" * 100, "はい" * 100)
reader = BatchReader(DEFAULT_LIMITS, ndjson=ndjson)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
count = len(reader.feed(b"{}\\n" if ndjson else b'{"items":['))
for number in range(30_000):
    between = "\\n" if ndjson else "," * (number > 0)
    count += len(reader.feed((between + item).encode()))
reader.feed(b"" if ndjson else b"]}")
count += len(reader.close())
print(count, (peak() - before) // 1024)
"""


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_thirty_thousand_items_take_little_memory(form: str) -> None:
    command = [sys.executable, "-c", MEMORY, form]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    count, mebibytes = map(int, found.stdout.split())
    assert count == 30_000  # of more than a kilobyte each
    assert mebibytes < 20
