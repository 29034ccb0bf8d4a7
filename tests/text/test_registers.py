"""The register of one utterance, by kind of sentence end."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.core.speech import Misuse, PolitenessLevel, Register
from saiten_server.text.japanese import JapaneseRegister
from saiten_server.text.korean import read_korean, read_korean_level, read_korean_misuse

JAPANESE = JapaneseRegister()

JA = {
    "polite": [
        "行きません",
        "明日は雨っす。",
        "お待ちください",
        "ごめんなさい",
        "彼は「行くよ。絶対行く。」と言っていました。",
        "すごいですね、その話！",
        "すごい！私も行きたいです。",
        "映画見たいんですけど、時間がなくて…",
        "治りますように",
        "今日はいい天気です ね",
        "お土産をいただきました(笑)",
        "了解デス！",
        "よろしおすなあ",
        "まずは休みましょう。疲れているので。",
        "「そうですね」",
        "ホントだった！？のコーナーが好きです",
        "何だったかな。思い出しました。",
        "以下をお試しください。\n\n1. **再起動**する\n2. 設定を開く\n- 更新を確認する",
        "**大丈夫です**",
        "やった！嬉しいです",
    ],
    "plain": [
        "知らんけど",
        "ええやん",
        "できひんよ",
        "明日来るんだって",
        "やばｗｗｗ",
        "「ありがとうございます」って言われたよ",
        "早く寝なさい",
        "待ってね",
        "行ったのに",
        "それでいいでしょ？",
        "吾輩は猫である。",
        "楽しそう",
        "そうかも",
        "しなきゃ",
        "面倒くさいもん",
        "いいよ〜😊",
        "怒られちゃった(´；ω；`)",
    ],
    "mixed": ["そうなんですね。俺も行くよ。", "そうだね、私も行きます。", "私は行きますけど、君は来なくていいよ。"],
    "none": [
        "了解",
        "はい",
        "ありがとう",
        "明日の午後三時に渋谷で",
        "あの有名な？",
        "雨か……",
        "東京タワー！",
        "この高さ",
        "めっちゃ",
        "いまだに",
        "楽しいクリスマス",
        "大変",
        "",
        "OK",
    ],
}
KO = {
    "polite": [
        "네",
        "저도 갈래요~",
        '그는 "싫어"라고 했어요.',
        "가요 라고 말했습니다",
        "엄마가 빨리 오라고 했어요",
        "하셨슴다",
        "했어염",
        "뭐해여?",
        "그쵸?",
        "어서 오십시오.",
        "아 그렇구나. 저는 몰랐어요.",
        "네 감사합니다 내일 봐요ㅎㅎ",
        "남편이 괜찮대요.",
        "저는 짜장면!",
        "아뇨",
        "수고하셨습니당",
        "확인해 보세요.\n1. 재부팅한다\n2. 설정을 연다",
    ],
    "plain": [
        "응",
        "밥 먹었어?",
        "오늘 너무 추워ㅠㅠ",
        '"가요"라고 했어',
        "뭐하냐",
        "잘 자",
        "그치?",
        "비 온대",
        "하지 마",
        "만든 거지?",
        "얼른 일어나라",
        "킹받네 진짜",
        "孝道하는 것이 道理다.",
        "좋았엉",
        "나도!",
    ],
    "mixed": ["제가 할게요. 걱정하지 마.", "어제 좋았어 다음에 또 가요", "맛있었겠네. 저도 데려가 주세요."],
    "none": [
        "영어",
        "바다",
        "여자",
        "강아지",
        "우리 동네",
        "필요",
        "따뜻한 담요",
        "ㅋㅋㅋㅋ",
        "ㅇㅋ",
        "밥 먹음",
        "정말?",
        "집까지",
        "",
    ],
}


@pytest.mark.parametrize("register", JA)
def test_japanese_is_read_by_its_last_predicate(register: str) -> None:
    assert {text: found for text in JA[register] if (found := JAPANESE.read(text)) is not Register(register)} == {}


@pytest.mark.parametrize("register", KO)
def test_korean_is_read_by_its_endings(register: str) -> None:
    assert {text: found for text in KO[register] if (found := read_korean(text)) is not Register(register)} == {}


@settings(max_examples=200)
@given(
    st.text(
        alphabet=st.sampled_from(
            "です。ますだねよ、「」!?…wー っぁ笑かの行く私が参り召上になお한요다네ㅋ제가계세드려'\"~ 　A1😊"
        ),
        max_size=60,
    )
)
def test_no_text_is_too_odd_to_read(text: str) -> None:
    assert JAPANESE.read(text) in Register
    assert read_korean(text) in Register
    assert read_korean_level(text) in PolitenessLevel
    for found in (JAPANESE.find_misuse(text), read_korean_misuse(text)):
        assert found is None or found in Misuse


def test_threads_may_share_a_reader() -> None:
    reader = JapaneseRegister()
    texts = [text for texts in JA.values() for text in texts] * 20
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(reader.read, texts))
    assert read == [JAPANESE.read(text) for text in texts]
