"""Plain data out of YAML, with lines."""

from typing import Any

import pytest

from saiten_server.scoring.rubrics.files import MAX_DEPTH, MAX_PARTS, PlainLoader, Unreadable, YAMLDocument


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),
        ("On", "On"),
        ("12", 12),
        ("-1", -1),
        ("010", 10),
        ("0o10", "0o10"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2.5", 2.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"null"', "null"),
        ("=", "="),
        ("自然さ", "自然さ"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(written: str, value: Any):
    data = YAMLDocument(f"a: {written}\n").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_merge_keys_are_ordinary_keys():
    assert YAMLDocument("<<: {a: 1}\nb: 2\n").data == {"<<": {"a": 1}, "b": 2}


def test_every_part_knows_its_line():
    document = YAMLDocument("a:\n  - x\n  - b: |\n      one\n      two\n    c: {d: 1,\n      e: 2}\n")
    expected = {(): 1, ("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ("a", 1, "c"): 6}
    assert {place: document.line(place) for place in expected} == expected
    assert [document.line(("a", 1, "c", key)) for key in "de"] == [6, 7]


def test_what_is_not_there_has_the_line_of_what_encloses_it():
    assert YAMLDocument("a:\n  b:\n    c: 1\n").line(("a", "b", "x", 3)) == 2


def test_a_path_is_found_without_the_tags_that_a_validator_adds():
    document = YAMLDocument("composites:\n  - kind: mean\n    of: [a]\n")
    assert document.locate(("composites", 0, "mean", "of", 0), missing=False) == ("composites", 0, "of", 0)
    assert document.locate(("composites", 0, "mean", "id"), missing=True) == ("composites", 0, "id")
    assert document.locate(("composites", 0, "kind", "[key]"), missing=False) == ("composites", 0, "kind")
    assert document.locate(("composites", 7), missing=False) == ("composites",)


def test_the_first_of_two_equal_keys_stays_and_the_second_is_a_fault():
    document = YAMLDocument("a: 1\nb: 2\na: 3\n")
    assert document.data == {"a": 1, "b": 2}
    assert [(fault.line, fault.field) for fault in document.faults] == [(3, "/a")]


def test_a_pointer_escapes_what_a_key_may_hold():
    assert [fault.field for fault in YAMLDocument("'a/b~': 1\n'a/b~': 2\n").faults] == ["/a~1b~0"]


def test_nesting_is_taken_up_to_its_limit():
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert YAMLDocument(deepest).data
    with pytest.raises(Unreadable):
        YAMLDocument(f"[{deepest}]")


def test_an_error_within_braces_says_what_to_do():
    with pytest.raises(Unreadable) as caught:
        YAMLDocument('a: 1\nb: {en: Is it warm?, ja: "はい"}\n')
    assert caught.value.fault.line == 2
    assert "in quotes" in caught.value.fault.detail


@pytest.mark.parametrize("opening", ["[", "{", "[{", "[a, ["])
def test_the_scanner_does_not_look_ahead_into_what_is_too_deep(opening: str) -> None:
    """It goes over everything open at each character: 500 brackets took half a second, within half a kilobyte."""
    loader = PlainLoader(opening * 500)
    with pytest.raises(Unreadable, match="nested more than"):
        loader.get_single_node()
    assert loader.flow_level <= MAX_DEPTH


@pytest.mark.parametrize("line", ["k:\n", "- a\n"])
def test_a_file_of_small_parts_alone_is_refused_before_all_of_them_are_read(line: str) -> None:
    with pytest.raises(Unreadable, match="parts") as refused:
        YAMLDocument(line * MAX_PARTS)
    assert refused.value.fault.line is not None
    assert refused.value.fault.line <= MAX_PARTS
    few = MAX_PARTS // 2 - 1
    assert YAMLDocument("".join(f"k{number}:\n" for number in range(few))).data
