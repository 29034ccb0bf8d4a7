"""What the tagger's lines hold, beside what fugashi makes of the same analysis."""

import pytest

from saiten_server.text.japanese import JapaneseTagger

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
