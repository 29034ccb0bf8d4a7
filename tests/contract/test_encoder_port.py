"""What every Encoder promises, over the fake and the real one on a tiny model."""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from saiten_server.providers.bertscore.encoder import BertScoreEncoder
from saiten_server.providers.ports import Encoder, EncoderUnavailable
from tests.support.encoders import save_wordpiece
from tests.support.fake_encoder import FakeEncoder, compare_bigrams

PAIRS = [
    ("今日は雨が降りますか。", "はい、夕方から降るそうです。"),
    ("오늘은 비가 와요", "우산을 가지고 가요"),
    ("Shall we see the film?", "Yes, after the coffee."),
    ("猫が好きです", "猫が好きです"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_wordpiece(tmp_path_factory.mktemp("contract") / "tiny-contract")


@pytest.fixture(params=["fake", "bertscore"])
async def encoder(request: pytest.FixtureRequest):
    if request.param == "fake":
        made: Encoder = FakeEncoder()
    elif find_spec("bert_score") is None or find_spec("torch") is None:
        pytest.skip("the bertscore extra is not installed")
    else:
        made = BertScoreEncoder(encoder=str(request.getfixturevalue("folder")), device="cpu", threads=1)
    yield made
    await made.close()


async def test_answers_a_similarity_a_pair_in_order(encoder: Encoder) -> None:
    together = await encoder.compare("ja", PAIRS)
    alone = [(await encoder.compare("ja", [pair]))[0] for pair in PAIRS]
    assert [one.f1 for one in together] == pytest.approx([one.f1 for one in alone], abs=1e-6)
    assert len({round(one.f1, 4) for one in together}) > 1


async def test_identical_texts_give_one(encoder: Encoder) -> None:
    (same,) = await encoder.compare("ja", [PAIRS[3]])
    assert same.f1 == pytest.approx(1.0, abs=1e-6)


async def test_stays_in_range(encoder: Encoder) -> None:
    for similarity in await encoder.compare("ko", PAIRS):
        assert -1 <= similarity.f1 <= 1
        assert 0 <= similarity.unknown_token_share <= 1


async def test_says_where_a_text_was_cut(encoder: Encoder) -> None:
    short, long = await encoder.compare("en", [("the cat", "a mat"), ("the cat", "the cat sat " * 200)])
    assert (short.truncated, long.truncated) == (False, True)


async def test_no_pairs_no_similarities(encoder: Encoder) -> None:
    assert await encoder.compare("ja", []) == []


async def test_answers_concurrent_calls_each_its_own(encoder: Encoder) -> None:
    answers = await asyncio.gather(*(encoder.compare("ja", [pair, PAIRS[3]]) for pair in PAIRS))
    alone = [(await encoder.compare("ja", [pair]))[0].f1 for pair in PAIRS]
    assert [answer[0].f1 for answer in answers] == pytest.approx(alone, abs=1e-6)
    assert [answer[1].f1 for answer in answers] == pytest.approx([1.0] * 4, abs=1e-6)


async def test_identifies_itself_the_same_each_time(encoder: Encoder) -> None:
    identity = await encoder.identify("ja")
    assert identity == await encoder.identify("ja")
    assert "_L" in identity


async def test_is_unavailable_once_closed(encoder: Encoder) -> None:
    await encoder.close()
    await encoder.close()
    with pytest.raises(EncoderUnavailable, match="closed"):
        await encoder.compare("ja", PAIRS)
    with pytest.raises(EncoderUnavailable, match="closed"):
        await encoder.identify("ja")


async def test_fake_tells_its_reason_until_it_is_cleared() -> None:
    encoder = FakeEncoder(unavailable="no model here")
    with pytest.raises(EncoderUnavailable, match=r"^no model here$"):
        await encoder.compare("ja", PAIRS)
    encoder.unavailable = None
    assert len(await encoder.compare("ja", PAIRS)) == 4
    assert encoder.compared == [("ja", PAIRS)]


async def test_fake_counts_unknown_characters() -> None:
    # "ab?" against "ab": one of three characters is not in "ab".
    (similarity,) = await FakeEncoder(known="ab").compare("en", [("ab?", "ab")])
    assert similarity.unknown_token_share == pytest.approx(1 / 3)


def test_fake_similarity_is_dice_of_bigrams() -> None:
    # "abc": ab bc; "abd": ab bd; one shared of four: 2 · 1 / 4.
    assert compare_bigrams("abc", "abd") == 0.5
    assert compare_bigrams("a", "a") == 1.0
    assert compare_bigrams("a", "b") == 0.0
