"""Earlier utterances are read once in a while, and the same is said of them."""

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.text import speech_check
from saiten_server.text.recent import MOST_RECENT
from saiten_server.text.speech_check import SpeechChecks


def answer(response: str, earlier: str) -> Dialogue:
    """A said `earlier`, B spoke last, and A is to answer."""
    said = (Utterance(speaker="A", text=earlier), Utterance(speaker="B", text="うん"))
    return Dialogue(context=said, response=response)


def test_what_is_remembered_says_the_same() -> None:
    checks = SpeechChecks()
    shifted, steady = answer("知らないよ。", "元気ですか？"), answer("知りません。", "元気ですか？")
    first = [checks.check(one, "ja") for one in (shifted, steady)]
    assert [[warned.code for warned in found] for found in first] == [["register-shift"], []]
    assert [checks.check(one, "ja") for one in (shifted, steady)] == first
    assert [SpeechChecks().check(one, "ja") for one in (shifted, steady)] == first


def test_a_text_is_remembered_by_language() -> None:
    checks = SpeechChecks()
    earlier = "잘 지내세요?"
    assert checks.check(answer("知らないよ。", earlier), "ja") == ()
    assert [warned.code for warned in checks.check(answer("몰라.", earlier), "ko")] == ["register-shift"]


def test_no_text_is_kept_and_not_too_many_are_known() -> None:
    checks = SpeechChecks()
    for number in range(MOST_RECENT + 10):
        checks.check(answer("몰라.", f"{number}번 잘 지내세요?"), "ko")
    held = checks.__dict__["_registers"]
    assert len(held) == MOST_RECENT
    assert all(isinstance(key, bytes) and len(key) == 16 for key in held)
    held = checks.__dict__["_found"]
    assert len(held) == MOST_RECENT
    assert all(isinstance(key, bytes) and len(key) == 16 for key in held)


def test_a_dialogue_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = SpeechChecks()
    first = checks.check(answer("知らないよ。", "元気ですか？"), "ja")
    assert first
    monkeypatch.setattr(speech_check, "read_scripts", lambda _: pytest.fail("read again"))
    assert checks.check(answer("知らないよ。", "元気ですか？"), "ja") == first


def test_what_is_remembered_is_of_one_dialogue_in_one_language() -> None:
    checks = SpeechChecks()
    dialogues = [
        answer("知らないよ。", "元気ですか？"),
        answer("知らないよ。", "元気？"),
        answer("知りません。", "元気ですか？"),
        answer("I do not know.", "元気ですか？"),
        Dialogue(context=(Utterance(speaker="B", text="元気ですか？"),), response="知らないよ。"),
    ]
    for _ in range(2):
        for language in ("ja", "ko", "en", "zh"):
            for one in dialogues:
                assert checks.check(one, language) == SpeechChecks().check(one, language)
