"""What the tagger's lines hold, beside what fugashi makes of the same analysis."""

import time

import pytest

from saiten_server.text.japanese import JapaneseTagger, cut_long_runs

TAGGER = JapaneseTagger()


@pytest.mark.parametrize(
    "text",
    [
        "すみません、駅まで二十分で行けますか。",  # で has fields with commas, in quotation marks
        'リゾートで "spa" に行った、2,000円。',
        "ｗｗｗ 草\u3000생겼다 🙂\t\n終わり",
        "",
    ],
)
def test_a_token_has_the_fields_of_its_node(text: str) -> None:
    nodes = [(node.surface, *list(node.feature)[:3], node.is_unk) for node in TAGGER._tagger(text)]
    tokens = TAGGER.split(text)
    assert [(one.surface, one.pos1, one.pos2, one.pos3, one.unknown) for one in tokens] == nodes


def test_an_unknown_words_lemma_is_its_surface_and_a_gloss_is_left_out() -> None:
    assert [word.lemma for word in TAGGER.split("리조트リゾート")] == ["리조트", "リゾート"]


def test_a_nul_ends_a_text() -> None:
    assert TAGGER.split("\x16\x00です") == TAGGER.split("\x16") != []


@pytest.mark.parametrize("character", ["ア", "ー", "<", "1", "、", "\u3000", "🙂"])
def test_a_run_of_one_kind_is_read_in_time_that_grows_with_its_length(character: str) -> None:
    text = character * 32_000
    begun = time.thread_time()
    tokens = TAGGER.split(text)
    assert time.thread_time() - begun < 1.5, "it took 2 to 5 s, in which no other thread worked"
    assert "".join(token.surface for token in tokens) == text


def test_only_what_nobody_writes_is_read_in_pieces() -> None:
    for text in ("", "ア" * 499, "コーヒーとパン。" * 1000, "東京、大阪、" * 1000, "hello world " * 1000):
        assert [*cut_long_runs(text)] == [text]
    assert [*map(len, cut_long_runs("はい" + "ア" * 1200 + "です"))] == [502, 500, 202]
