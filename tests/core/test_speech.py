"""How signs become a register, and whose earlier utterances a response is held against."""

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.speech import Register, Sign, agreed_register, combine_signs, own_utterances


@pytest.mark.parametrize(
    ("signs", "register"),
    [
        ([], Register.NONE),
        ([Sign.POLITE], Register.POLITE),
        ([Sign.PLAIN, Sign.PLAIN], Register.PLAIN),
        ([Sign.POLITE, Sign.PLAIN], Register.MIXED),
        ([Sign.POLITE, Sign.WEAKLY_PLAIN], Register.POLITE),
        ([Sign.WEAKLY_POLITE, Sign.PLAIN], Register.PLAIN),
        ([Sign.WEAKLY_PLAIN], Register.PLAIN),
        ([Sign.WEAKLY_POLITE], Register.POLITE),
        ([Sign.WEAKLY_POLITE, Sign.WEAKLY_PLAIN], Register.NONE),
        ([Sign.POLITE, Sign.PLAIN, Sign.WEAKLY_PLAIN], Register.MIXED),
    ],
)
def test_weak_signs_count_only_where_no_strong_one_is(signs: list[Sign], register: Register) -> None:
    assert combine_signs(signs) is register


@pytest.mark.parametrize(
    ("earlier", "register"),
    [
        ([], Register.NONE),
        ([Register.NONE], Register.NONE),
        ([Register.POLITE, Register.NONE, Register.POLITE], Register.POLITE),
        ([Register.PLAIN], Register.PLAIN),
        ([Register.POLITE, Register.PLAIN], Register.NONE),
        ([Register.POLITE, Register.MIXED], Register.NONE),
        ([Register.MIXED], Register.NONE),
    ],
)
def test_earlier_utterances_must_agree(earlier: list[Register], register: Register) -> None:
    assert agreed_register(earlier) is register


def dialogue(speakers: str) -> Dialogue:
    context = tuple(Utterance(speaker=name, text=f"{name}{place}") for place, name in enumerate(speakers))
    return Dialogue(context=context, response="r")


@pytest.mark.parametrize(
    ("speakers", "own"),
    [
        ("ABAB", ["A0", "A2"]),
        ("BAB", ["A1"]),
        ("ABABABAB", ["A4", "A6"]),
        ("AABB", ["A0", "A1"]),
        ("A", []),
        ("AAA", []),
        ("ABC", []),
    ],
)
def test_own_utterances_are_those_of_who_did_not_speak_last(speakers: str, own: list[str]) -> None:
    assert list(own_utterances(dialogue(speakers), 2)) == own
