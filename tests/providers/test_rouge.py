"""ROUGE against the published package, and by hand for the languages whose words are ours."""

import subprocess
import sys
import unicodedata
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.providers.ports import MetricUnavailable, Rouge
from saiten_server.providers.rouge import open_overlap, open_words

installed = pytest.mark.skipif(find_spec("rouge_score") is None, reason="the metrics extra is not installed")

ENGLISH = st.lists(
    st.sampled_from(["the", "cat", "Cat's", "sat", "running", "runs", "on", "3.5", "mat.", "—", "\n"]), max_size=12
).map(" ".join)


@installed
@settings(deadline=None)  # the first example imports rouge-score
@given(st.lists(ENGLISH.filter(lambda text: any(c.isalnum() for c in text)), min_size=1, max_size=3), ENGLISH)
def test_english_equals_the_published_package(references: list[str], response: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    alone = [scorer.score(reference, response) for reference in references]
    best = [max(one[name].fmeasure for one in alone) for name in ("rouge1", "rouge2", "rougeL")]
    assert open_overlap("en").compare(references, response) == Rouge(*best)


@installed
def test_japanese_by_hand() -> None:
    # 猫|が|好き|です against 犬|が|好き|です: three of four words on either side, F = 0.75; two of three pairs
    # (が好き, 好きです), F = 2/3; the longest common run of words in order is three, F = 0.75.
    found = open_overlap("ja").compare(["犬が好きです"], "猫が好きです")
    assert (found.rouge1, found.rouge2, found.rougeL) == pytest.approx((0.75, 2 / 3, 0.75))


@installed
def test_korean_by_hand() -> None:
    # 저는 고양이를 좋아해요 against 저는 개를 좋아해요!: two of three words, F = 2/3; no pair; two in order.
    found = open_overlap("ko").compare(["저는 개를 좋아해요!"], "저는 고양이를 좋아해요.")
    assert (found.rouge1, found.rouge2, found.rougeL) == pytest.approx((2 / 3, 0.0, 2 / 3))
    assert open_overlap("ko").compare(["AI는"], "ai는") == Rouge(1.0, 0.0, 1.0)


@installed
def test_each_figure_takes_its_own_best_reference() -> None:
    # Against `c b a`: b and a of three words, F = 2/3; `b a` of two pairs, F = 1/2; in order `b a`, F = 2/3.
    # Against `d a b`: all three words, F = 1; no pair; in order one word, F = 1/3.
    found = open_overlap("en").compare(["c b a", "d a b"], "b a d")
    assert (found.rouge1, found.rouge2, found.rougeL) == pytest.approx((1.0, 0.5, 2 / 3))


@installed
@pytest.mark.parametrize(("language", "text"), [("ja", "がんばって、ぱぱ"), ("ko", "안녕하세요 여러분")])
def test_composed_and_decomposed_texts_are_the_same(language: str, text: str) -> None:
    decomposed = unicodedata.normalize("NFD", text)
    assert decomposed != text
    assert open_overlap(language).compare([text], decomposed) == Rouge(1.0, 1.0, 1.0)
    assert open_words(language).count(decomposed) == open_words(language).count(text)


@installed
@pytest.mark.parametrize(("language", "text"), [("en", "今日は雨です。"), ("ko", "……!"), ("en", "?")])
def test_a_reference_without_words_gives_no_zero(language: str, text: str) -> None:
    with pytest.raises(MetricUnavailable, match="no reference has a word"):
        open_overlap(language).compare([text, text], "the rain 비")


@installed
def test_a_response_without_words_shares_none() -> None:
    assert open_overlap("en").compare(["the rain"], "…") == Rouge(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "It's  3.5 km,\nno?", 4),
        ("ko", "오늘은 비가 와요.", 3),
        # 今日|は|雨|です|。 and はい; neither the wide space nor the line's end is a word.
        ("ja", "今日は　雨です。\r\nはい", 6),
    ],
)
def test_len_counts_words(language: str, text: str, words: int) -> None:
    assert open_words(language).count(text) == words


@installed
def test_identities_name_what_decides_the_figures() -> None:
    identities = {open_overlap(language).identity for language in ("ja", "ko", "en")}
    assert len(identities) == 3
    assert all(identity.startswith("rouge-score-") for identity in identities)
    assert "unidic-lite-" in open_words("ja").identity


SCRIPT = """
import sys
sys.modules["rouge_score"] = None  # as if it were not installed
from saiten_server.providers.rouge import open_overlap, open_words
from saiten_server.providers.ports import MetricUnavailable
try:
    open_overlap("ja")
except MetricUnavailable as error:
    print(error)
print(open_words("ja").count("猫です"))
"""


def test_without_the_extra_it_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["install saiten-server[metrics] for ROUGE (rouge_score not installed)", "2"], (
        done.stderr
    )
