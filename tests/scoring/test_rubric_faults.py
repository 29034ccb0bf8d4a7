"""Faults in words."""

from saiten_server.scoring.rubrics.files import RubricFault, known_fields, printable, quoted
from tests.support.faults import words


def test_a_report_is_one_line_that_steers_no_terminal():
    report = RubricFault(2, "/\x1b[31m", words("is odd:\n\ud800")).report("a.yaml")
    assert report == r"a.yaml:2: /\x1b[31m: is odd:\n\ud800"


def test_a_report_leaves_out_what_is_not_known():
    assert RubricFault(None, "", words("is empty")).report("a.yaml") == "a.yaml: is empty"
    assert RubricFault(3, "", words("is empty")).report("a.yaml") == "a.yaml:3: is empty"


def test_printable_leaves_text_of_all_languages_alone():
    assert printable("自然さ / 합리성 é 👍") == "自然さ / 합리성 é 👍"


def test_long_values_are_cut():
    assert quoted("x" * 100) == "'" + "x" * 56 + "..."
    assert quoted("x" * 58) == "'" + "x" * 58 + "'"


def test_known_fields_are_those_of_every_part_of_the_format():
    assert {"aspects", "levels", "one_shot", "speaker", "intercept", "absolute", "of"} <= set(known_fields())
    assert "digest" not in known_fields()
