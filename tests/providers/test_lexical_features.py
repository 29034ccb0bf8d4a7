"""Golden feature values; each expectation shows its arithmetic."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.providers.lexical.english import EnglishReader
from saiten_server.providers.lexical.features import (
    Features,
    TextReader,
    bigrams_of,
    jaccard,
    letters_of,
    redundancy_of,
)
from saiten_server.providers.lexical.japanese import JapaneseReader
from saiten_server.providers.lexical.judge import MOST_READ_CHARACTERS, MOST_UTTERANCES, read_dialogue
from saiten_server.providers.lexical.korean import KoreanReader, stem_of

JA = JapaneseReader()
KO = KoreanReader()
EN = EnglishReader()
LN = math.log1p
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=60),
    st.text("猫がすき。？ですかのを", min_size=1, max_size=40),
    st.text("고양이가 좋아요?ㅋㅠ네", min_size=1, max_size=40),
    st.text(" 👍🏽\ufe0f\u200d。!?：\"',\t\n", min_size=1, max_size=20),
)


def describe(reader: TextReader, *texts: str) -> Features:
    """The last text is the response, the one before it the partner's, and so on in turn."""
    *context, response = texts
    count = len(context)
    said = (Utterance(speaker="US"[(count - place) % 2 == 0], text=text) for place, text in enumerate(context))
    return read_dialogue(Dialogue(context=tuple(said), response=response), reader)


class TestText:
    def test_letters_leave_out_marks_spaces_and_emoji(self):
        assert letters_of("そう、ですね! OK 👍🏽\ufe0f 3") == "そうですねok3"

    @pytest.mark.parametrize(("text", "bigrams"), [("", set()), ("あ", {"あ"}), ("あいう", {"あい", "いう"})])
    def test_bigrams(self, text, bigrams):
        assert bigrams_of(text) == bigrams

    def test_jaccard(self):
        assert jaccard({"a", "b", "c"}, {"b", "c", "d"}) == 2 / 4
        assert jaccard(set(), set()) == 0

    def test_redundancy_counts_runs_of_four(self):
        # abcdabcd: abcd bcda cdab dabc abcd: 4 distinct of 5
        assert redundancy_of("abcdabcd") == pytest.approx(1 - 4 / 5)
        assert redundancy_of("abc") == 0


class TestJapaneseProfile:
    def test_content_words_are_lemmas_without_particles_and_empty_words(self):
        assert JA.read("昨日は公園を走ったことがある。").content == ("昨日", "公園", "走る")

    @pytest.mark.parametrize("text", ["どこへ行くの？", "行きますか", "何時だっけ", "そうかな"])
    def test_questions(self, text):
        assert JA.read(text).asks

    def test_statement_asks_nothing(self):
        assert not JA.read("公園へ行きました。").asks

    @pytest.mark.parametrize(
        ("question", "kind"),
        [("どこに住んでいますか", "place"), ("誰と行きましたか", "person"), ("なぜ遅れたのですか", "reason")],
    )
    def test_question_words_want_a_kind_of_answer(self, question, kind):
        assert kind in JA.read(question).wanted

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [("京都に住んでいます", "place"), ("昨日です", "time"), ("電車が止まったからです", "reason")],
    )
    def test_answers_offer_a_kind(self, answer, kind):
        assert kind in JA.read(answer).offered

    @pytest.mark.parametrize(
        ("text", "polite"), [("走ります", True), ("走るよ", False), ("犬と猫", None), ("：", None)]
    )
    def test_politeness(self, text, polite):
        assert JA.read(text).polite is polite

    @pytest.mark.parametrize("text", ["公園で犬を", "明日は雨が"])
    def test_an_ending_on_a_case_particle_is_broken(self, text):
        assert JA.read(text).broken

    @pytest.mark.parametrize("text", ["公園へ行った。", "行ってみて", "雨だったけど", "犬"])
    def test_casual_endings_are_whole(self, text):
        assert not JA.read(text).broken

    def test_impossible_neighbours_are_counted(self):
        assert JA.read("元気ですかは元気です").oddities == 1
        assert JA.read("元気ですか、はい、元気です").oddities == 0

    @pytest.mark.parametrize("text", ["そうですね", "なるほど！", "へえー、すごいですね"])
    def test_generic_replies(self, text):
        assert JA.read(text).generic

    @pytest.mark.parametrize("part", ["え", "へえ", "すごー", "すごいい", "ね", "そうえ"])
    def test_a_long_drawn_reply_is_not_split_in_every_way(self, part):
        # With two ways to read each part, this would still be running when the tests are stopped.
        assert not JA.read("うん" + part * 500 + "町").generic
        assert JA.read("うん" + part * 500).generic

    def test_unknown_share_is_over_words(self):
        # UniDic lite lacks Latin words: zzxq of zzxq が 好き です
        assert JA.read("zzxqが好きです").unknown_share == pytest.approx(1 / 4)

    def test_foreign_share_is_over_letters(self):
        # 4 Latin letters of 8
        assert JA.read("zzxqが好きだ").foreign_share == pytest.approx(4 / 8)


class TestKoreanProfile:
    @pytest.mark.parametrize(
        ("word", "stem"), [("프린터가", "프린"), ("떡볶이를", "떡볶"), ("빵이", "빵"), ("먹었어요", "먹"), ("나", "나")]
    )
    def test_stems_drop_particles_and_endings(self, word, stem):
        assert stem_of(word) == stem

    @pytest.mark.parametrize(
        ("text", "polite"),
        [("밥을 먹었어요.", True), ("갑니다!", True), ("밥 먹었어.", False), ("그래 ㅋㅋ", False), ("123", None)],
    )
    def test_politeness_by_ending(self, text, polite):
        assert KO.read(text).polite is polite

    @pytest.mark.parametrize("text", ["어디 가?", "괜찮을까", "언제 오시나요"])
    def test_questions(self, text):
        assert KO.read(text).asks

    def test_decomposed_hangul_reads_like_composed(self):
        import unicodedata

        text = "바다에 다녀왔어요. 정말 즐거웠어요!"
        assert KO.read(unicodedata.normalize("NFD", text)) == KO.read(text)

    @pytest.mark.parametrize(
        ("text", "feeling"), [("너무 속상해", "sad"), ("정말 행복해요", "glad"), ("안 좋아", "sad")]
    )
    def test_feelings(self, text, feeling):
        assert KO.read(text).feelings == {feeling}

    def test_stacked_particles_are_odd(self):
        assert KO.read("빵을를 먹었어").oddities == 1

    def test_laughter_has_no_content(self):
        assert KO.read("ㅋㅋㅋㅋ").content == ()


class TestEnglishProfile:
    def test_content_words(self):
        assert EN.read("I was cooking two cats' dinners.").content == ("cook", "two", "cat", "dinner")

    def test_question_and_negation(self):
        profile = EN.read("Why don't you sleep?")
        assert profile.asks
        assert profile.negated
        assert profile.wanted == {"reason"}

    @pytest.mark.parametrize(
        ("text", "feeling"), [("My cat passed away.", "sad"), ("I passed the test!", "glad"), ("I kept crying.", "sad")]
    )
    def test_feelings(self, text, feeling):
        assert EN.read(text).feelings == {feeling}


class TestFeatures:
    def test_japanese_overlap(self):
        # response {公園, 犬, 走る}, last {昨日, 公園, 犬}: shared 2, smaller set 3
        found = describe(JA, "昨日、公園に犬がいた。", "公園で犬が走る。")
        assert found["shares_last"] == pytest.approx(2 / 3)
        assert found["shares_context"] == pytest.approx(2 / 3)
        assert found["new_words"] == pytest.approx(LN(1))
        assert found["content_words"] == pytest.approx(LN(3))
        assert found["shares_nothing"] == 0

    def test_korean_overlap(self):
        # response {바다, 파도}, last {바다, 다녀}: 바다를, 바다에 → 바다
        found = describe(KO, "바다에 다녀왔어.", "바다를 파도가")
        assert found["shares_last"] == pytest.approx(1 / 2)
        assert found["new_words"] == pytest.approx(LN(1))

    def test_overlap_decays_with_each_step_back(self):
        # 公園 stands two steps before the last utterance: 0.7² · 1/1
        found = describe(JA, "公園が好きだ。", "なるほど。", "昨日は雨だった。", "公園。")
        assert found["shares_context"] == pytest.approx(0.7**2)
        assert found["shares_nothing"] == 1

    def test_left_topic_grows_with_new_content(self):
        # 4 content words, nothing shared: ln(1 + 4) / ln(1 + 20)
        found = describe(JA, "カレーを作る。", "昨日、野球の試合が始まる。")
        assert found["leaves_topic"] == pytest.approx(math.log(5) / math.log(21))

    def test_unanswered_question(self):
        assert describe(JA, "どこに住んでいますか？", "カレーが好きです。")["unanswered"] == 1
        found = describe(JA, "どこに住んでいますか？", "京都です。")
        assert (found["unanswered"], found["unanswered_kind"], found["answers"]) == (0, 0, 1)
        assert describe(KO, "어디에서 만날까?", "학교 앞에서 봐.")["answers"] == 1

    def test_yes_answers_a_yes_no_question(self):
        assert describe(JA, "犬は好きですか？", "はい、そうです。")["answers"] == 1
        assert describe(KO, "영화 봤어?", "응, 봤어.")["answers"] == 1
        assert describe(JA, "犬は好きですか？", "明日は雨でしょう。")["unanswered_yes_no"] == 1

    def test_repetition_of_own_utterances(self):
        found = describe(JA, "カレーを作ります。", "そうなんですか。", "カレーを作ります!")
        assert (found["repeats_verbatim"], found["repeats_itself"], found["echoes_verbatim"]) == (1, 1, 0)

    def test_near_repetition_is_what_passes_one_half(self):
        # バスで行く: バス スで で行 行く (4), バスで来る: バス スで で来 来る: J = 2/6 → below one half
        assert describe(JA, "バスで行く", "へえ", "バスで来る")["repeats_itself"] == 0
        # abcdef has 5 bigrams, abcdefg 6: J = 5/6 → (5/6 − 1/2) / (1/2)
        assert describe(EN, "abcdef", "oh", "abcdefg")["repeats_itself"] == pytest.approx((5 / 6 - 1 / 2) * 2)

    def test_echo_of_the_last_utterance_and_of_a_greeting(self):
        assert describe(JA, "カレーを作ります。", "カレーを作ります。")["echoes_verbatim"] == 1
        assert describe(JA, "おはようございます。", "おはようございます。")["echoes_verbatim"] == 0

    def test_politeness_switch_is_against_the_systems_own_utterances(self):
        assert describe(JA, "走ります。", "へえ。", "また走るよ。")["switches_politeness"] == 1
        assert describe(JA, "走ります。", "へえ。", "また走ります。")["switches_politeness"] == 0
        assert describe(KO, "달렸어요.", "그래.", "또 달렸어.")["switches_politeness"] == 1
        assert describe(JA, "走るよ。", "また走ります。")["switches_politeness"] == 0

    def test_reversal_of_an_own_statement(self):
        said = ("毎朝コーヒーを飲みます。", "いいですね。")
        assert describe(JA, *said, "朝はコーヒーを飲まない。")["reverses"] == 1
        assert describe(JA, *said, "朝はコーヒーを飲みます。")["reverses"] == 0

    def test_feelings_are_met_or_missed(self):
        sad = "시험을 망쳐서 속상해요."
        assert describe(KO, sad, "많이 속상했겠어요.")["meets_feeling"] == 1
        assert describe(KO, sad, "저는 행복해요!")["misses_feeling"] == 1
        assert describe(KO, sad, "힘내세요!")["stock_comfort"] == 1

    def test_symbols_hold_no_words(self):
        assert all(describe(reader, "hello", "：")["wordless"] == 1 for reader in (JA, KO, EN))

    def test_only_the_bounded_part_of_a_context_is_read(self):
        # The word 公園 lies before the bound in the one case, inside it in the other.
        filler = ["なるほど。"] * (MOST_UTTERANCES - 1)
        assert describe(JA, "公園へ行く。", *filler, "雨だ。", "公園。")["new_words"] == pytest.approx(LN(1))
        assert describe(JA, "公園へ行く。", *filler, "公園。")["new_words"] == 0
        assert describe(JA, "。" * MOST_READ_CHARACTERS + "公園", "公園。")["shares_last"] == 0

    @given(context=st.lists(TEXTS, min_size=1, max_size=4), response=TEXTS)
    @settings(max_examples=150, deadline=None)
    def test_every_feature_is_bounded_for_any_text(self, context, response):
        said = tuple(
            Utterance.model_construct(speaker="SU"[place % 2], text=text) for place, text in enumerate(context)
        )
        dialogue = Dialogue.model_construct(context=said, response=response)
        for reader in (JA, KO, EN):
            found = read_dialogue(dialogue, reader)
            assert all(math.isfinite(value) and 0 <= value <= 4 for value in found.values()), found

    @pytest.mark.parametrize(
        "text", ["あ" * 8000, "word " * 1600, "👍" * 8000, "가" * 8000, "ｗ" * 8000, "\n\t漢" * 2666]
    )
    def test_the_longest_texts_are_read(self, text):
        for reader in (JA, KO, EN):
            assert all(0 <= value <= 4 for value in describe(reader, text, text).values())
