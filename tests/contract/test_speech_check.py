"""Warnings about language, register and honorifics."""

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.text.speech_check import MOST_OWN_UTTERANCES, SpeechChecks


@pytest.fixture(scope="module")
def check() -> SpeechChecks:
    return SpeechChecks()


def dialogue(response: str, *texts: str, speakers: str = "BA") -> Dialogue:
    """A context in which B speaks last and A is to answer; the latest text last."""
    count = len(texts)
    named = [speakers[(count - 1 - place) % len(speakers)] for place in range(count)]
    context = tuple(Utterance(speaker=name, text=text) for name, text in zip(named, texts, strict=True))
    return Dialogue(context=context, response=response)


FORMAL = ("확인되었습니다.", "네.", "환불이 가능합니다.", "네.")
INFORMAL = ("저는 부산에서 자랐어요.", "네.", "병원에서 일하고 있어요.", "네.")

CASES = [
    ("ja", dialogue("你好，我也喜歡。", "元気ですか？", "うん"), ["language-mismatch"]),
    ("ja", dialogue("네, 좋아요.", "うん"), ["language-mismatch"]),
    ("ja", dialogue("I am fine, thank you.", "うん"), ["language-mismatch"]),
    ("ja", dialogue("知らないよ。", "元気ですか？", "うん"), ["register-shift"]),
    ("ja", dialogue("知りません。", "元気だった？", "はい、元気です。"), ["register-shift"]),
    ("ja", dialogue("そうなんですね。俺も行くよ。", "元気ですか？", "うん"), ["register-mixed"]),
    ("ja", dialogue("知りません。", "元気ですか？", "うん"), []),
    ("ja", dialogue("了解", "元気ですか？", "うん"), []),
    ("ja", dialogue("知らないよ。", "うん"), []),
    ("ja", dialogue("知らないよ。", "元気ですか？", "うん", "はい", speakers="B"), []),
    ("ja", dialogue("知らないよ。", "元気ですか？", "はい", "うん", speakers="BAC"), []),
    ("ja", dialogue("知らないよ。", "元気ですか？", "うん", "俺も元気だよ", "そう"), []),
    ("ja", dialogue("iPhone 15 Pro 😀 https://example.com", "元気ですか？", "うん"), []),
    ("ko", dialogue("I am fine, thank you.", "응"), ["language-mismatch"]),
    ("ko", dialogue("몰라.", "잘 지내세요?", "응"), ["register-shift"]),
    ("ko", dialogue("제가 할게요. 걱정하지 마.", "잘 지내세요?", "응"), ["register-mixed"]),
    ("ko", dialogue("몰라요.", "잘 지내세요?", "응"), []),
    # 합쇼체 and 해요체: two earlier utterances of one level, and a response that leaves it.
    ("ko", dialogue("상자에 넣어 주시면 돼요.", *FORMAL), ["register-mix"]),
    ("ko", dialogue("좋은 생각입니다. 숫자가 있으면 훨씬 쉬워집니다.", *INFORMAL), ["register-mix"]),
    ("ko", dialogue("좋은 생각입니다. 숫자가 있으면 훨씬 쉬워요.", *INFORMAL), ["register-mix"]),
    ("ko", dialogue("확인됐습니다 이제 괜찮아질 거예요", *FORMAL), ["register-mix"]),
    ("ko", dialogue("내일 오후에 방문합니다.", *FORMAL), []),
    ("ko", dialogue("내일 오후에 방문해요.", *INFORMAL), []),
    ("ko", dialogue("네, 알겠습니다. 감사합니다!", *INFORMAL), []),
    ("ko", dialogue("안녕하십니까, 반갑습니다.", *INFORMAL), []),
    ("ko", dialogue("오늘도 고생 많으셨습니다. 좋은 하루 보내시기 바랍니다.", *INFORMAL), []),
    ("ko", dialogue("썰어 드시기 바랍니다.", *INFORMAL), ["register-mix"]),
    ("ko", dialogue("네. 그럼 내일 뵐게요.", *FORMAL), []),
    ("ko", dialogue("아닙니다. 제가 도와드리겠습니다.", *INFORMAL), []),
    ("ko", dialogue("맞아요. 잠시만 기다려 주세요. 더 필요하신 것이 있나요?", *FORMAL), []),
    ("ko", dialogue('표지에 "감사해요, 또 와요"라고 적습니다.', *FORMAL), []),
    ("ko", dialogue("상자에 넣어 주시면 돼요.", *FORMAL[:2]), []),
    ("ko", dialogue("상자에 넣어 주시면 돼요.", *FORMAL, "저도 가요.", "네."), []),
    ("ko", dialogue("상자에 넣어 주시면 돼요.", *FORMAL, "저도 가요. 같이 갑니다.", "네."), []),
    # Honorific and humble verbs, with or without earlier utterances.
    ("ja", dialogue("私が先に召し上がります。", "うん"), ["honorific-misuse"]),
    ("ja", dialogue("お客様が参りましたら、お知らせします。", "うん"), ["honorific-misuse"]),
    ("ja", dialogue("私がおっしゃったよ。", "元気ですか？", "うん"), ["register-shift", "honorific-misuse"]),
    ("ja", dialogue("お客様は私がご案内いたします。先生がくださった本です。", "うん"), []),
    ("ja", dialogue("私はいらっしゃるのを楽しみにしています。", "うん"), []),
    ("ko", dialogue("제가 먼저 드시겠습니다.", "응"), ["honorific-misuse"]),
    ("ko", dialogue("저한테 여쭤봐 주세요.", "응"), ["honorific-misuse"]),
    ("ko", dialogue("제가 끓인 차를 드시겠어요? 제가 가져다드릴게요.", "응"), []),
    ("ko", dialogue("저에게 드린 보상이 적었나요? 앉아 계세요.", "응"), []),
    ("en", dialogue("元気です。", "Hello"), ["language-mismatch"]),
    ("en", dialogue("Bonjour, comment ça va ?", "Hello"), []),
    ("fr", dialogue("元気です。", "Bonjour"), []),
]


@pytest.mark.parametrize(("language", "given", "codes"), CASES)
def test_what_is_warned_of(check: SpeechChecks, language: str, given: Dialogue, codes: list[str]) -> None:
    found = check.check(given, language)
    assert [warned.code for warned in found] == codes
    assert {warned.where for warned in found} <= {"response"}


def test_the_detail_says_what_it_looks_like_and_never_quotes(check: SpeechChecks) -> None:
    (warned,) = check.check(dialogue("你好，我也喜歡。", "うん"), "ja")
    assert warned.detail == "The response looks like Chinese, not Japanese."
    # Thirteen syllables beside four kana: 13 / 17.
    (warned,) = check.check(dialogue("정말 재미있었어요 감사합니다 ありがと", "うん"), "ja")
    assert warned.detail == "The response looks like Korean (about 76% of the text), not Japanese."
    (warned,) = check.check(dialogue("知らないよ。", "元気ですか？", "うん"), "ja")
    assert warned.detail == "The response is plain; this speaker's earlier utterances are polite."
    (warned,) = check.check(dialogue("상자에 넣어 주시면 돼요.", *FORMAL), "ko")
    assert warned.detail == "The response is in 해요체; this speaker's earlier utterances keep 합쇼체."
    (warned,) = check.check(dialogue("제가 먼저 드시겠습니다.", "응"), "ko")
    assert warned.detail == "In the response an honorific verb is used for what the speaker does."


def test_only_the_latest_utterances_count(check: SpeechChecks) -> None:
    forgotten = ("元気だよ", "はい") + ("元気です", "はい") * MOST_OWN_UTTERANCES
    remembered = ("元気です", "はい") + ("元気だよ", "はい") + ("元気です", "はい") * (MOST_OWN_UTTERANCES - 1)
    assert [warned.code for warned in check.check(dialogue("知らないよ。", *forgotten), "ja")] == ["register-shift"]
    assert check.check(dialogue("知らないよ。", *remembered), "ja") == ()


def test_the_same_dialogue_gives_the_same_warnings(check: SpeechChecks) -> None:
    given = dialogue("知らないよ。", "元気ですか？", "うん")
    assert check.check(given, "ja") == check.check(given, "ja") == SpeechChecks().check(given, "ja")
