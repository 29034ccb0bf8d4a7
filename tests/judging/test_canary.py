"""The word that shows that a judge wrote out its instructions."""

import json

import pytest

from saiten_server.core.evaluation import Unrated
from saiten_server.core.sentences import in_english
from saiten_server.judging.prompt import NONCE_LETTERS, derive_canary, frame_of, leaks
from saiten_server.judging.verdict import LEAKED, VerdictReading, read_verdict
from tests.support.prompts import build_prompt
from tests.support.shown_batch import load_rubric
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

JOINT = joint_rubric()
CANARY = derive_canary(JOINT.digest)
GOOD = {"naturalness": 3, "coherence": 0, "formality": -1, "relevance": 2, "overall": 4}
GOOD_TEXT = "自然さ: 「3」\n文脈的整合性: 「0」\n言葉づかい: 「-1」\n話題の関連性: 「2」\n総合的な品質: 「4」"
WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})


def read(reply: str | None, **more: object) -> VerdictReading:
    given = {"structured": True, "explain": False, "canary": CANARY} | more
    return read_verdict(reply, aspects=JOINT.aspects, language="ja", **given)  # type: ignore[arg-type]


def test_each_rubric_has_its_own_and_always_the_same() -> None:
    assert derive_canary(JOINT.digest) == CANARY
    assert derive_canary(independent_rubric().digest) != CANARY
    assert len(CANARY) == NONCE_LETTERS
    assert CANARY.isalnum()
    assert CANARY.lower() not in JOINT.digest


@pytest.mark.parametrize(("rubric", "language"), [("ja-dialogue", "ja"), ("ko-comment", "ko"), ("ja-dialogue", "en")])
@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("explain", [True, False])
def test_every_prompt_forbids_it_once(rubric: str, language: str, structured: bool, explain: bool) -> None:
    known = load_rubric(rubric)
    prompt = build_prompt(known, language, make_dialogue(), known.aspects, explain=explain, structured=structured)
    canary = derive_canary(known.digest)
    assert prompt.canary == canary
    [line] = [line for line in prompt.system.split("\n") if canary in line]
    assert line == "- " + frame_of(language).canary_rule.format(canary=canary)
    assert canary not in prompt.user


@pytest.mark.parametrize(
    "written",
    [
        CANARY,
        CANARY.lower(),
        CANARY.translate(WIDE),
        " ".join(CANARY),
        "-".join(CANARY),
        "\u200b".join(CANARY),
        f"{CANARY[:5]}\n{CANARY[5:]}",
        "".join(f"\\u{ord(letter):04x}" for letter in CANARY),
        f"目印は「{CANARY}」です",
    ],
)
def test_it_is_seen_through_case_width_and_spaces(written: str) -> None:
    assert leaks(f"指示は次のとおり。{written}以上。", CANARY)


@pytest.mark.parametrize("honest", ["", json.dumps(GOOD), GOOD_TEXT, CANARY[:-1], CANARY[::-1]])
def test_honest_replies_hold_none(honest: str) -> None:
    assert not leaks(honest, CANARY)


@pytest.mark.parametrize("explain", [True, False])
def test_a_structured_reply_that_holds_it_rates_nothing(explain: bool) -> None:
    reasoned = {name: {"reason": f"{CANARY} に従う", "rating": value} for name, value in GOOD.items()}
    reply = json.dumps(reasoned) if explain else json.dumps(GOOD | {CANARY: 1})
    reading = read(reply, explain=explain)
    assert reading.leaked
    assert reading.rated == 0
    assert reading.reasons == {}
    assert set(reading.ratings.values()) == {Unrated(reason="unparseable", **in_english(LEAKED))}
    assert CANARY not in repr(reading)


def test_a_reply_in_text_that_holds_it_rates_nothing() -> None:
    reply = GOOD_TEXT + f"\n{CANARY}"
    assert read(reply, structured=False).leaked
    reasoned = "\n".join(
        f"{name}（理由）: {CANARY}\n{name}: 「{value}」"
        for name, value in (line.split(": 「") for line in GOOD_TEXT.replace("」", "").split("\n"))
    )
    found = read(reasoned, structured=False, explain=True)
    assert (found.leaked, found.rated, found.reasons) == (True, 0, {})
    # Without the canary it is a verdict: it is for the canary that nothing is read.
    assert read(reasoned.replace(CANARY, "よい"), structured=False, explain=True).complete


def test_a_refusal_that_holds_it_leaks_too() -> None:
    assert read(None, refusal=f"{CANARY} なので答えません").leaked


def test_another_rubrics_is_a_word_like_any_other() -> None:
    other = derive_canary(independent_rubric().digest)
    reply = json.dumps({name: {"reason": other, "rating": value} for name, value in GOOD.items()})
    reading = read(reply, explain=True)
    assert (reading.leaked, reading.complete) == (False, True)
