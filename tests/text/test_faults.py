"""Rules beside the judge over whole conversations."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saiten.core.messages import Message
from saiten_server.core.conversation import Conversation, Finding
from saiten_server.core.sentences import tell_sentence
from saiten_server.text.fact_patterns import Lists, read_written_number
from saiten_server.text.facts import Claim, FactBook
from saiten_server.text.faults import LONGEST_TURN, find_faults, japanese_register

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "checks" / "conversations.jsonl"
CODES = {
    "register-shift",
    "register-mix",
    "wrong-language",
    "repetition",
    "self-contradiction",
    "persona-contradiction",
}
Case = tuple[str, str, Conversation, list[tuple[int, str]]]


def read_cases() -> Iterator[Case]:
    """Id, language, conversation and planted faults of tests/data/conversations.txt."""
    name, speakers, persona = "", ("", ""), None
    turns: list[dict[str, str]] = []
    for line in [*(ROOT / "tests/data/conversations.txt").read_text(encoding="utf-8").splitlines(), "@"]:
        if line.startswith("@"):
            if turns:
                yield name, name[:2], converse(turns, persona), []
            if line != "@":
                name, fields, *named = (part.strip() for part in line[1:].split("|"))
                speakers, turns = (named[0], named[1]), []
                persona = dict(field.split("=") for field in fields.split(";")) if fields else None
        elif line.startswith("~"):
            head, text = line[1:].split(": ", 1)
            variant, number, code = head.split()
            changed = [{**turn, "text": text} if place == int(number) else turn for place, turn in enumerate(turns)]
            yield f"{name}-{variant}", name[:2], converse(changed, persona), [(int(number), code)]
        elif line[:3] in {"U: ", "S: "}:
            own = line[0] == "S"
            turns = [*turns, {"speaker": speakers[own], "role": "system" if own else "user", "text": line[3:]}]


def converse(turns: list[dict[str, str]], persona: dict[str, Any] | None = None) -> Conversation:
    """A conversation of these turns."""
    return Conversation.model_validate({"turns": turns, "persona": persona})


def talk(*texts: str, persona: dict[str, Any] | None = None) -> Conversation:
    """A conversation in which the user begins."""
    roles = ("user", "system")
    turns = [{"speaker": roles[n % 2], "role": roles[n % 2], "text": text} for n, text in enumerate(texts)]
    return converse(turns, persona)


def codes_of(findings: tuple[Finding, ...]) -> list[tuple[int, str | None]]:
    """The turn and code of each finding."""
    return [(finding.turn, finding.code) for finding in findings]


CASES = list(read_cases())


@pytest.mark.parametrize(
    ("language", "conversation", "planted"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_planted_faults_are_found_and_nothing_else(
    language: str, conversation: Conversation, planted: list[tuple[int, str]]
) -> None:
    assert codes_of(find_faults(conversation, language)) == planted
    assert find_faults(conversation) == find_faults(conversation, language)


def test_the_shared_conversations() -> None:
    if not SHARED.exists():
        pytest.skip("../shared/checks/conversations.jsonl is absent")
    planted, found, false, turns = Counter[str](), Counter[str](), 0, 0
    for row in map(json.loads, SHARED.read_text(encoding="utf-8").splitlines()):
        conversation = converse(row["turns"], row["persona"])
        findings = find_faults(conversation, row["lang"])
        expected = [(fault["turn"], fault["code"]) for fault in row["expect"]]
        planted += Counter(code for _, code in expected)
        found += Counter(code for turn, code in expected if any(near(f, turn, code) for f in findings))
        false += sum(not any(near(finding, turn, code) for turn, code in expected) for finding in findings)
        turns += sum(turn.role == "system" for turn in conversation.turns)
    print({code: f"{found[code]} of {planted[code]}" for code in planted}, f"{false} false of {turns}")
    assert all(found[code] >= 0.9 * planted[code] for code in CODES)
    assert false <= 0.01 * turns


def near(finding: Finding, turn: int, code: str) -> bool:
    """Whether the finding is the planted fault. A wrong name for the user is planted as a forgotten fact."""
    same = finding.code == code or (code == "forgotten-user-fact" and finding.aspect == "memory")
    return same and abs(finding.turn - turn) <= 1


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 24], ids=lambda case: case[0])
def test_findings_depend_on_no_name_no_later_turn_and_no_order_of_fields(case: Case) -> None:
    _, language, conversation, _ = case
    findings = find_faults(conversation, language)
    turns = conversation.turns
    renamed = [turn.model_copy(update={"speaker": f"speaker {turn.role}"}) for turn in turns]
    assert find_faults(conversation.model_copy(update={"turns": tuple(renamed)}), language) == findings
    cut = conversation.model_copy(update={"turns": turns[:-2]})
    assert find_faults(cut, language) == tuple(f for f in findings if f.turn < len(turns) - 2)
    persona = dict(reversed((conversation.persona or {}).items())) or None
    assert find_faults(conversation.model_copy(update={"persona": persona}), language) == findings


ENCODINGS: dict[str, Callable[[str], str]] = {
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "zero-width spaces": lambda text: "\u200b".join(re.findall(".{1,3}", text)),
    "direction marks": lambda text: f"\ufeff\u200f{text}\u202c",
    "variation selectors": lambda text: f"{text}\ufe0f",
    "full width": lambda text: text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_findings_depend_on_no_encoding_of_what_a_reader_sees(encoding: str) -> None:
    encode = ENCODINGS[encoding]
    for name, language, conversation, planted in CASES[::5]:
        turns = [turn.model_copy(update={"text": encode(turn.text)}) for turn in conversation.turns]
        persona = {key: encode(str(value)) for key, value in (conversation.persona or {}).items()} or None
        encoded = conversation.model_copy(update={"turns": tuple(turns), "persona": persona})
        assert (name, codes_of(find_faults(encoded, language))) == (name, planted)


PERSONA = {
    "ja": {"age": 26, "hometown": "札幌生まれ、東京育ち", "residence": "福岡", "job": "看護師", "pet": "犬と猫"},
    "ko": {"age": 27, "hometown": "부산", "residence": "서울", "job": "디자이너", "pet": "고양이"},
}


def find_in_introduction(said: str) -> tuple[Finding, ...]:
    """What is found where somebody with the persona says this when asked who they are."""
    language = "ko" if re.search("[가-힣]", said) else "ja"
    asked = {"ja": "どんな人ですか。", "ko": "어떤 분이세요?"}[language]
    return find_faults(talk(asked, said, persona=PERSONA[language]), language)


@pytest.mark.parametrize(
    "said",
    [
        "弟が一人います。今年で二十歳になりました。",
        "親友がいます。大阪に住んでいて、うさぎを飼っています。",
        "母は元気です。北海道の出身で、昔は美容師でした。",
        "猫を飼っています。犬も飼っています。",
        "東京育ちです。",
        "うさぎは飼っていません。",
        "남동생이 하나 있어요. 스무 살이에요.",
        "여자친구가 있어요. 대구에서 살고 있어요.",
        "강아지는 안 키워요.",
    ],
)
def test_what_is_said_of_others_or_fits_the_persona_contradicts_nothing(said: str) -> None:
    assert find_in_introduction(said) == ()


@pytest.mark.parametrize(
    "said",
    [
        "弟が一人います。私は今年で三十五歳になりました。",
        "ふふ、よく聞かれます。三十五歳です。",
        "猫は飼っていません。",
        "남동생이 하나 있어요. 저는 서른다섯이에요.",
        "고양이는 안 키워요.",
        "고양이를 키우지는 않아요.",
    ],
)
def test_what_is_said_of_oneself_contradicts_the_persona(said: str) -> None:
    assert codes_of(find_in_introduction(said)) == [(1, "persona-contradiction")]


@pytest.mark.parametrize(
    ("first", "second"),
    [("猫を飼っています。", "実は猫は飼っていないんです。"), ("고양이는 안 키워요.", "고양이를 키우고 있어요.")],
)
def test_a_pet_is_kept_or_it_is_not(first: str, second: str) -> None:
    asked, language = ("ペットは？", "ja") if "猫" in first else ("동물은요?", "ko")
    assert codes_of(find_faults(talk(asked, first, asked, second), language)) == [(3, "self-contradiction")]


def test_no_sentence_with_a_fact_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {(case[1], turn.text) for case in CASES for turn in case[2].turns}

    def read() -> dict[tuple[str, str], list[Claim]]:
        books = {language: FactBook(language, None, japanese_register().split) for language in ("ja", "ko")}
        return {(language, text): [*books[language].read_claims(0, text)] for language, text in said}

    found = read()
    monkeypatch.setattr(Lists, "may_claim", lambda *_: True)
    assert read() == found
    assert len({claim.slot for claims in found.values() for claim in claims}) > 8


@pytest.mark.parametrize(
    "texts",
    [
        ("고양이 키워요?", "지금은 아무것도 안 키워요.", "키우고 싶어요?", "언젠가 강아지를 키우고 싶어요."),
        ("영업시간은요?", "점심은 두 시까지, 저녁은 열 시까지예요.", "일요일은요?", "일요일 저녁은 아홉 시까지예요."),
        ("결혼했어요?", "아직 미혼이에요.", "네", "언젠가 남편이랑 여행 다니고 싶어요."),
        ("형제는요?", "저는 외동이에요.", "네", "어릴 때는 언니가 있으면 좋겠다고 생각했어요."),
        ("서울 살아요?", "네, 서울에서 살아요.", "네", "부산에서 살아 보고 싶기도 해요."),
        ("結婚してる？", "まだ独身です。", "へえ", "いつか夫と旅をするのが夢なんです。"),
        ("시간은요?", "평소 여덟 시까지, 길면 아홉 시까지 열어요.", "네", "궁금한 점은 또 물어보세요."),
    ],
)
def test_wishes_and_several_hours_contradict_nothing(texts: tuple[str, ...]) -> None:
    assert find_faults(talk(*texts)) == ()


def test_every_detail_is_said_in_japanese_and_korean() -> None:
    found = [one for _, language, talk, _ in CASES for one in find_faults(talk, language)]
    assert len({one.message for one in found}) > 8
    for language in ("ja", "ko"):
        assert [one.detail for one in found if tell_sentence(one.sentence, language) == one.detail] == []
    assert {one.detail for one in found} == {tell_sentence(one.sentence) for one in found}
    quoting = Message("turn-plain-after-polite", said="「早く」", number=3, quoted="「はい is polite」")
    assert quoting.say("ja") == "「早く」は常体ですが、発話 3 は敬体です: 「はい is polite」"


def test_a_finding_quotes_its_span_and_names_the_earlier_turn() -> None:
    conversation = talk(
        "趣味は？", "釣りが好きです。", "へえ。", "毎朝早く起きて散歩しています。", "釣りは？", "釣りは苦手です。"
    )
    assert find_faults(conversation, "ja") == (
        Finding(
            turn=5,
            aspect="consistency",
            code="self-contradiction",
            by="rule",
            detail="「釣りは苦手です」, but turn 1 says 「釣りが好きです」.",
            kind="self-contradiction",
            message="turn-contradicts-turn",
            values={"said": "「釣りは苦手です」", "quoted": "「釣りが好きです」", "number": 1},
        ),
    )


def test_a_change_that_lasts_is_found_once() -> None:
    said = ["雨が降りましたね。", "傘を持っていきましょう。", "傘はいらないよ。", "もう晴れるから。", "外で遊ぼうぜ。"]
    conversation = talk(*(text for own in said for text in ("うん", own)))
    assert codes_of(find_faults(conversation, "ja")) == [(5, "register-shift")]


def test_a_correction_is_no_contradiction() -> None:
    persona = {"出身": "札幌"}
    assert codes_of(find_faults(talk("出身は？", "福岡の出身です。", persona=persona), "ja")) == [
        (1, "persona-contradiction")
    ]
    assert find_faults(talk("出身は？", "失礼しました、福岡の出身です。", persona=persona), "ja") == ()


def test_languages_without_rules_have_no_findings() -> None:
    assert find_faults(talk("Hello", "Hi there, how are you?", "Fine", "Hi there, how are you?")) == ()
    assert find_faults(talk("こんにちは", "早く寝ろよ。"), "en") == ()


def test_a_long_turn_is_read_at_its_beginning() -> None:
    told, filler = "저는 대구에서 태어났어요.", "오늘은 바람이 많이 불어요. "
    persona = {"hometown": "부산"}
    assert codes_of(find_faults(talk("고향은?", filler + told, persona=persona), "ko")) == [
        (1, "persona-contradiction")
    ]
    assert find_faults(talk("고향은?", filler * (LONGEST_TURN // 10) + told, persona=persona), "ko") == ()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("24", 24),
        ("二十四", 24),
        ("一万八千", 18_000),
        ("이십사", 24),
        ("삼십만", 300_000),
        ("스물네", 24),
        ("서른", 30),
        ("고양이", None),
    ],
)
def test_numbers_are_read(text: str, number: int | None) -> None:
    assert read_written_number(text) == number
