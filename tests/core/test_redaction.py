"""What takes the place of texts."""

import hashlib
import hmac

from saiten_server.core.batch import BatchConversation, Candidate, list_candidates
from saiten_server.core.conversation import Conversation
from saiten_server.core.dialogue import Utterance
from saiten_server.core.redaction import DROPPED, ERASED, drop, hash_with, kind_of_text, redact_asked, rekey_context
from saiten_server.scoring.store import read_candidate

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


def test_a_stored_conversation_keeps_its_roles_and_no_text() -> None:
    given = BatchConversation.model_validate({
        "turns": [
            {"speaker": "田中", "role": "user", "text": "予約したいです。"},
            {"speaker": "受付", "role": "system", "text": "承知しました。"},
        ],
        "persona": {"name": "佐藤", "age": 41},
        "goal": "金曜に予約する。",
    })  # fmt: skip
    ((_, candidate),) = list_candidates(given, 0, 0)
    assert candidate.conversation == Conversation(
        **{name: getattr(given, name) for name in ("turns", "persona", "goal")}
    )
    stored = read_candidate(candidate.model_dump_json())
    assert stored.conversation == candidate.conversation
    for cover in (drop, hash_with("salt")):
        covered = redact_asked(stored, cover)
        written = covered.model_dump_json()
        assert not any(text in written for text in ("田中", "受付", "予約", "承知", "佐藤", "name"))
        assert read_candidate(written) == redact_asked(covered, cover) == covered
        assert covered.roles == ("user", "system")
