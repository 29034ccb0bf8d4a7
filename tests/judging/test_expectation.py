"""The expected rating, with its arithmetic."""

import math

import pytest

from saiten_server.judging.expectation import Expectation, Token, expect


def choice(text: str, probability: float) -> tuple[bytes, float]:
    return text.encode(), math.log(probability)


def certain(text: str) -> Token:
    return Token(text=text.encode(), choices=(choice(text, 1.0),))


def token(text: str, *choices: tuple[str, float]) -> Token:
    return Token(text=text.encode(), choices=tuple(choice(*one) for one in choices))


def spell(*tokens: Token) -> str:
    return b"".join(one.text for one in tokens).decode()


def at(content: str, value: str) -> tuple[int, int]:
    start = content.rindex(value)
    return start, start + len(value)


def close(found: Expectation | None, mean: float, off_scale_mass: float) -> bool:
    return found is not None and (found.mean, found.off_scale_mass) == pytest.approx((mean, off_scale_mass), abs=1e-12)


def test_the_mean_is_over_legal_values_only_and_the_rest_is_reported():
    # Legal: 1 with 0.1, 2 with 0.3, 3 with 0.5; 7 and a word share 0.1.
    # Mean (0.1·1 + 0.3·2 + 0.5·3) / 0.9 = 2.2 / 0.9 = 22/9; off the scale 1 − 0.9 = 0.1.
    value = token("3", ("3", 0.5), ("2", 0.3), ("1", 0.1), ("7", 0.06), ("three", 0.04))
    tokens = [certain('{"'), certain("naturalness"), certain('":'), value, certain("}")]
    content = spell(*tokens)
    assert content == '{"naturalness":3}'
    assert close(expect(tokens, content, at(content, "3"), (1, 2, 3)), 22 / 9, 0.1)


@pytest.mark.parametrize("form", ["{} ", " {}", '"{}', "{},", "{}}}", "「{}」", " {}\n"])
def test_punctuation_that_is_merged_with_the_value_does_not_hide_it(form):
    # 0.75·1 + 0.25·0 = 0.75, with nothing off the scale; "1" alone and "1" merged are the same value.
    merged = form.format("1")
    value = token(merged, (merged, 0.5), ("1", 0.25), (form.format("0"), 0.25))
    tokens = [certain("x"), value]
    content = spell(*tokens)
    start = content.index("1")
    assert close(expect(tokens, content, (start, start + 1), (0, 1)), 0.75, 0.0)


def test_wide_digits_are_the_same_values():
    value = token("３", ("３", 0.6), ("2", 0.4))
    assert close(expect([value], "３", (0, 1), (1, 2, 3)), 0.6 * 3 + 0.4 * 2, 0.0)


def test_a_minus_of_its_own_stands_for_the_only_negative_value():
    # Chosen: 0. P(−) = 0.2 means −1; P(0) = 0.5, P(1) = 0.25: mean 0.05 / 0.95, off the scale 0.05.
    value = token("0", ("0", 0.5), ("1", 0.25), ("-", 0.2), ("9", 0.05))
    assert close(expect([value], "0", (0, 1), (-1, 0, 1)), 0.05 / 0.95, 0.05)


def test_a_minus_and_its_digit_multiply():
    # P(−)·P(1 | −) = 0.8·0.9 = 0.72 for −1; P(0) = 0.1, P(1) = 0.05. Sum 0.87; mean (−0.72 + 0.05) / 0.87.
    tokens = [token(" -", (" -", 0.8), (" 0", 0.1), ("1", 0.05)), token("1", ("1", 0.9), ("2", 0.1)), certain("}")]
    content = spell(*tokens)
    assert close(expect(tokens, content, at(content, "-1"), (-1, 0, 1)), -0.67 / 0.87, 0.13)


def test_a_merged_negative_is_a_value():
    value = token("-1", ("-1", 0.7), ("0", 0.3))
    assert close(expect([value], "-1", (0, 2), (-1, 0, 1)), -0.7, 0.0)


def test_a_lone_minus_is_ambiguous_among_several_negative_values():
    value = token("0", ("0", 0.5), ("-", 0.5))
    assert expect([value], "0", (0, 1), (-2, -1, 0, 1, 2)) is None


def test_bytes_count_not_characters():
    # One Japanese character in two tokens: neither half is text.
    tokens = [
        Token(text=b"\xe8\x87", choices=((b"\xe8\x87", 0.0),)),
        Token(text=b"\xaa", choices=((b"\xaa", 0.0),)),
        certain(": 「"),
    ]
    tokens += [token("2", ("2", 0.5), ("3", 0.5)), certain("」")]
    content = spell(*tokens)
    assert close(expect(tokens, content, at(content, "2"), (1, 2, 3)), 2.5, 0.0)


@pytest.mark.parametrize(
    ("tokens", "content", "values"),
    [
        ([], "3", (1, 2, 3)),
        ([certain("{"), token("3", ("3", 0.5), ("2", 0.5))], "3", (1, 2, 3)),
        ([token("3", ("3", 0.9))], "3", (1, 2, 3)),
        ([token("3", ("7", 0.5), ("8", 0.5))], "3", (1, 2, 3)),
        ([token("1", ("1", 0.5), ("2", 0.5)), certain("0")], "10", tuple(range(1, 11))),
        ([token("1", ("1", 0.5), ("2", 0.5))], "1", tuple(range(1, 11))),
        ([token("1", ("1", 0.5), ("2", 0.5)), certain("2")], "12", tuple(range(11, 14))),
    ],
    ids=["no tokens", "other text", "nothing to weigh", "no legal mass", "two digits", "a prefix", "split digits"],
)
def test_there_is_no_expectation_where_it_cannot_be_had(tokens, content, values):
    assert expect(tokens, content, (0, len(content)), values) is None


def test_a_certain_judge_needs_no_alternatives():
    assert close(expect([certain("3")], "3", (0, 1), (1, 2, 3)), 3.0, 0.0)


def test_rounding_never_leaves_the_unit_interval():
    value = Token(text=b"3", choices=((b"3", 1e-9), (b"2", -0.0)))
    found = expect([value], "3", (0, 1), (1, 2, 3))
    assert found is not None
    assert found.off_scale_mass == 0.0
