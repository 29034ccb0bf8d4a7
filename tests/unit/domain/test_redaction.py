"""What takes the place of texts."""

from __future__ import annotations

import hashlib
import hmac

from app.domain.batch import Candidate
from app.domain.dialogue import Utterance
from app.domain.redaction import DROPPED, ERASED, drop, hash_with, kind_of_text, redact_asked, rekey_context

SALT = "s" * 64


def test_a_hash_is_the_hmac_of_the_text_under_the_salt() -> None:
    expected = hmac.new(SALT.encode(), "はい".encode(), hashlib.sha256).hexdigest()
    assert hash_with(SALT)("はい") == f"hmac-sha256:{expected}"
    assert hash_with("other")("はい") != hash_with(SALT)("はい")


def test_covering_twice_changes_nothing() -> None:
    for cover in (drop, hash_with(SALT)):
        for text in ("はい", DROPPED, ERASED):
            assert cover(cover(text)) == cover(text)
    assert hash_with(SALT)(DROPPED) == DROPPED
    assert drop(hash_with(SALT)("はい")) == DROPPED


def test_what_stands_in_a_texts_place_is_told_from_a_text() -> None:
    kinds = [kind_of_text(text) for text in (hash_with(SALT)("はい"), DROPPED, ERASED, "はい", "hmac-sha256:はい")]
    assert kinds == ["hash", "drop", "erased", None, None]


def test_speakers_lose_their_names_and_stay_apart() -> None:
    said = [("山田", "はい"), ("鈴木", "いいえ"), ("山田", "はい")]
    asked = Candidate(context=tuple(Utterance(speaker=one, text=text) for one, text in said), response="え")
    covered = redact_asked(asked, drop)
    assert [one.speaker for one in covered.context] == ["A", "B", "A"]
    assert redact_asked(covered, drop) == covered


def test_context_digests_are_keyed_once() -> None:
    keyed = rekey_context("0123456789abcdef", SALT)
    assert keyed is not None
    assert keyed.startswith("hmac:")
    assert len(keyed) == len("hmac:") + 16
    assert rekey_context(keyed, SALT) == keyed
    assert rekey_context(None, SALT) is None
