"""The encoder against bert-score itself, asked about each pair alone, over three kinds of tokenizer and two more."""

import logging
import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.providers.bertscore.encoder import (
    BertScoreEncoder,
    EncoderChoice,
    Precision,
    choose_default,
    load_encoder,
)
from saiten_server.providers.bertscore.similarity import LoadedEncoder
from saiten_server.providers.ports import EncoderUnavailable
from tests.support.encoders import KINDS, MAX_TOKENS, WORDS, edit_config, save_wordpiece

pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("torch", "transformers", "bert_score")),
    reason="the bertscore extra is not installed",
)

LAYER = 2
Folders = dict[str, Path]

PAIRS = [
    ("今日は雨ですね。", "駅まで濡れてしまいました。"),
    ("昨日の映画はどうでしたか？", "最後の場面で泣いてしまいました。"),
    ("犬を飼っていますか", "はい、二匹います"),
    ("電車が止まったらしいよ", "え、じゃあ今日は家で仕事しようかな"),
    ("猫", "犬"),
    ("そうですか。", "そうですか。"),
    ("ラーメンが食べたいなあ", "この前できた店、行ってみる？"),
    ("明日の散歩は何時にしますか。", "六時に公園の入り口で待っています。"),
    ("コーヒーは好き？", "紅茶のほうが好きです！"),
    ("最近よく眠れなくて……", "それはつらいですね。何か心配事がありますか。"),
    ("오늘은 비가 와요.", "우산을 꼭 챙기세요."),
    ("어제 본 영화는 어땠어요?", "생각보다 훨씬 재미있었어요."),
    ("강아지 산책 갔어요", "고양이는 집에 있어요"),
    ("배고파요", "저녁에 뭐 먹을까요?"),
    ("기차를 놓쳤어요", "다음 기차는 언제예요?"),
    ("네", "아니요"),
    ("시험이 끝나서 마음이 가벼워요", "고생 많았어요, 오늘은 푹 쉬어요."),
    ("the cat sat on a mat", "a cat sat today"),
    ("Good morning! Coffee?", "yes, coffee, please."),
    ("we went to see a film", "the train was late, so we missed it"),
    ("a", "z"),
    ("the", "the the the the the the"),
    ("It rained all night.", "今日も雨です。"),
    ("映画", "영화"),
    ("😀😀", "😭"),
    ("😀 good night", "good night 😀"),
    ("鸚鵡 躑躅", "檸檬 薔薇"),
    ("ﾊﾝｶｸ ｶﾅ", "ハンカク カナ"),
    ("  今日 は  ", "今日は"),
    ("\u200b", "the cat"),
    ("[SEP] the [CLS]", "the cat"),
    ("<s> the </s>", "the <unk> cat"),
    ("it's 3.5 km, no?", "1 2 3 4 5"),
    ("猫" * 200, "猫が好き"),
    ("the cat sat on a mat and " * 30, "we went to see the film and " * 30),
    ("今日は雨で電車が止まって駅で待っていました。" * 10, "오늘은 비가 와서 기차가 멈췄어요. " * 10),
]


@pytest.fixture(scope="module", autouse=True)
def single_thread() -> None:
    """More threads than one only get in each other's way on encoders this small, and beside other test processes."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("encoders")
    return {kind: save(root / f"tiny-{kind}") for kind, save in KINDS.items()}


def build(folder: Path, **settings) -> BertScoreEncoder:
    return BertScoreEncoder(
        **{"encoder": str(folder), "layers": {str(folder): LAYER}, "device": "cpu", "threads": 1, **settings}
    )


def score(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """What bert-score says in one run: a response is the candidate, a last utterance the reference."""
    import bert_score

    responses, last_utterances = [response for _, response in pairs], [last_utterance for last_utterance, _ in pairs]
    settings = {"model_type": str(folder), "num_layers": LAYER, "idf": False, "rescale_with_baseline": False}
    _, _, f1 = bert_score.score(responses, last_utterances, device="cpu", **settings)
    return [float(value) for value in f1]


def score_alone(folder: Path, pair: tuple[str, str]) -> float:
    return score(folder, [pair])[0]


@pytest.mark.parametrize("kind", KINDS)
async def test_equals_bert_score_alone_whatever_is_beside_it(kind: str, folders: Folders) -> None:
    alone = {pair: score_alone(folders[kind], pair) for pair in PAIRS}
    # The encoder has the negative similarities that bert-score's padding hides; else this would show nothing.
    assert max(abs(one - alone[pair]) for one, pair in zip(score(folders[kind], PAIRS), PAIRS, strict=True)) > 1e-4
    for seed, max_batch_tokens in enumerate((1, 100, 4096)):
        encoder = build(folders[kind], max_batch_tokens=max_batch_tokens)
        shuffled = random.Random(seed).sample(PAIRS, len(PAIRS))
        similarities = await encoder.compare("ja", shuffled)
        assert [one.f1 for one in similarities] == pytest.approx([alone[pair] for pair in shuffled], abs=2e-6)
        await encoder.close()


class SkippingClock:
    """A clock that can be made to jump over all that is kept."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def skip(self) -> None:
        self.seconds += 3600.0


def load(folder: Path, clock: SkippingClock, max_batch_tokens: int | None) -> LoadedEncoder:
    choice = EncoderChoice(
        name=str(folder), layer=LAYER, device="cpu", threads=1, max_batch_tokens=max_batch_tokens, hub_timeout_seconds=1
    )
    return load_encoder(choice, clock)


TEXTS = st.one_of(
    st.sampled_from(["", " \u3000", "猫", "😀", "the cat"]),
    st.lists(st.sampled_from([*WORDS, "…", "鸚鵡"]), min_size=1, max_size=12).map("".join),
    st.lists(st.sampled_from([*WORDS, "xyz"]), min_size=20, max_size=90).map(" ".join),
)


@st.composite
def draw_pairs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Of few texts, so that some come twice."""
    texts = st.sampled_from(draw(st.lists(TEXTS, min_size=1, max_size=8)))
    return draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=8))


@pytest.mark.parametrize("kind", KINDS)
def test_no_pair_s_score_depends_on_its_company_or_on_what_came_before(kind: str, folders: Folders) -> None:
    from bert_score import BERTScorer

    scorer = BERTScorer(model_type=str(folders[kind]), num_layers=LAYER, device="cpu")
    clock = SkippingClock()
    encoders = [load(folders[kind], clock, max_batch_tokens) for max_batch_tokens in (40, None)]

    def ask_alone(last_utterance: str, response: str) -> float:
        if not last_utterance.strip() or not response.strip():
            return 0.0
        return float(scorer.score([response], [last_utterance])[2])

    @settings(max_examples=6, deadline=None)
    @given(draw_pairs())
    def check(pairs: list[tuple[str, str]]) -> None:
        alone = [ask_alone(*pair) for pair in pairs]
        for encoder in encoders:
            clock.skip()
            at_once = [one.f1 for one in encoder.compare(pairs)]
            kept = [encoder.compare([pair])[0].f1 for pair in reversed(pairs)][::-1]
            clock.skip()
            one_by_one = [encoder.compare([pair])[0].f1 for pair in pairs]
            for found in (at_once, kept, one_by_one):
                assert found == pytest.approx(alone, abs=1e-5)

    check()


async def test_bfloat16_is_named_in_the_identity_and_near_float32(
    folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(precision: Precision) -> tuple[str, list[float]]:
        encoder = build(folders["mecab"], precision=precision)
        found = [one.f1 for one in await encoder.compare("ja", PAIRS[:10])]
        identity = await encoder.identify("ja")
        await encoder.close()
        return identity, found

    with caplog.at_level(logging.WARNING):
        whole_identity, whole = await ask("float32")
        assert caplog.messages == []
        half_identity, half = await ask("bfloat16")
    assert half_identity == f"{whole_identity}_bfloat16"
    assert half == pytest.approx(whole, abs=0.05)
    # No rounding of the same figures: the passes really ran in half precision.
    assert max(abs(one - other) for one, other in zip(half, whole, strict=True)) > 1e-5
    (message,) = caplog.messages
    assert message.startswith("encoder tiny-mecab runs in bfloat16 on a CPU")


@pytest.mark.parametrize("kind", KINDS)
async def test_identical_texts_give_one(kind: str, folders: Folders) -> None:
    encoder = build(folders[kind])
    texts = [text for pair in PAIRS for text in pair if text != "\u200b"] + ["\ud800 lone surrogate"]
    similarities = await encoder.compare("ja", [(text, text) for text in texts])
    assert [one.f1 for one in similarities] == pytest.approx([1.0] * len(texts), abs=1e-6)
    await encoder.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_blank_text_has_no_similarity_and_does_not_crash(kind: str, folders: Folders) -> None:
    encoder = build(folders[kind])
    blanks = [("", ""), (" \n\u3000", "今日は雨です"), ("the cat", "")]
    similarities = await encoder.compare("ja", [*blanks, ("the cat", "the cat")])
    assert [one.f1 for one in similarities] == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-6)
    assert [one.unknown_token_share for one in similarities[:3]] == [1.0, 1.0, 1.0]
    await encoder.close()


@pytest.mark.parametrize("kind", ["wordpiece", "mecab", "sentencepiece"])
async def test_reports_unknown_tokens(kind: str, folders: Folders) -> None:
    encoder = build(folders[kind])
    known, unknown, mixed = await encoder.compare(
        "ja", [("the cat", "a cat"), ("the cat", "😀 鸚鵡"), ("the cat 😀 鸚", "a cat")]
    )
    # mixed: of "the", "cat", "😀", "鸚" the last two are unknown.
    assert [one.unknown_token_share for one in (known, unknown, mixed)] == [0.0, 1.0, 0.5]
    await encoder.close()


@pytest.mark.parametrize("kind", ["wordpiece", "mecab", "sentencepiece", "t5"])
async def test_flags_a_text_that_is_cut(kind: str, folders: Folders) -> None:
    """Texts of one-token words: `room` words fit beside the special tokens, one more does not."""
    encoder = build(folders[kind])
    room = MAX_TOKENS - 2  # [CLS] and [SEP], <s> and </s>; the tiny T5 shares XLM-RoBERTa's tokenizer
    full, cut = " ".join(["the"] * room), " ".join(["the"] * (room + 1))
    fits, passes, differs_after = await encoder.compare("en", [("a", full), (cut, "a"), (full + " cat", full + " mat")])
    assert [one.truncated for one in (fits, passes, differs_after)] == [False, True, True]
    assert differs_after.f1 == pytest.approx(1.0, abs=1e-6)
    await encoder.close()


async def test_takes_a_text_no_longer_than_the_model_has_positions(folders: Folders, tmp_path: Path) -> None:
    """A tokenizer that states no length makes bert-score fail; the model's positions are what counts."""
    folder = shutil.copytree(folders["sentencepiece"], tmp_path / "unlimited")
    edit_config(folder, "tokenizer_config.json", model_max_length=None)
    encoder = build(folder)
    (similarity,) = await encoder.compare("ja", [PAIRS[-2]])
    assert similarity.truncated
    assert similarity.f1 == pytest.approx(score_alone(folders["sentencepiece"], PAIRS[-2]), abs=2e-6)
    await encoder.close()


async def test_identity_names_encoder_layer_libraries_and_files(folders: Folders) -> None:
    from importlib.metadata import version

    encoder = build(folders["mecab"])
    identity = await encoder.identify("ja")
    libraries = f"version={version('bert-score')}(hug_trans={version('transformers')})"
    assert identity.startswith(f"tiny-mecab_L{LAYER}_no-idf_{libraries}_rev=")
    assert identity.endswith(f"_mecab=unidic_lite-{version('unidic_lite')}")
    assert str(folders["mecab"].parent) not in identity
    await encoder.close()


async def test_identity_follows_what_changes_similarities(folders: Folders, tmp_path: Path) -> None:
    async def identify(folder: Path, layer: int = LAYER) -> str:
        encoder = build(folder, layers={str(folder): layer})
        identity = await encoder.identify("ja")
        await encoder.close()
        return identity

    def copy(place: str) -> Path:
        return shutil.copytree(folders["wordpiece"], tmp_path / place / "tiny-wordpiece")

    original = await identify(folders["wordpiece"])
    assert await identify(copy("moved")) == original
    described = copy("described")
    (described / "README.md").write_text("about it", encoding="utf-8")
    assert await identify(described) == original

    other_weights = save_wordpiece(tmp_path / "weights" / "tiny-wordpiece", seed=99)
    other_tokenizer = copy("tokenizer")
    edit_config(other_tokenizer, "tokenizer_config.json", do_lower_case=True)
    identities = {
        original,
        await identify(folders["wordpiece"], layer=1),
        await identify(other_weights),
        await identify(other_tokenizer),
    }
    assert len(identities) == 4


async def test_takes_the_last_layer_where_none_is_known(folders: Folders) -> None:
    encoder = build(folders["wordpiece"], layers={})
    assert "_L3_" in await encoder.identify("ja")
    await encoder.close()


async def test_languages_with_one_encoder_share_it(folders: Folders) -> None:
    encoder = build(folders["wordpiece"], encoders={"ja": str(folders["mecab"])})
    japanese, korean, regional = [await encoder.identify(language) for language in ("ja", "ko", "ja-JP")]
    assert japanese == regional
    assert korean != japanese
    assert korean.startswith("tiny-wordpiece_")
    await encoder.close()


async def test_explains_what_is_wrong_with_a_folder(folders: Folders, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    broken_tokenizer = shutil.copytree(folders["wordpiece"], tmp_path / "broken-tokenizer")
    (broken_tokenizer / "tokenizer.json").write_text("{", encoding="utf-8")
    no_weights = shutil.copytree(folders["wordpiece"], tmp_path / "no-weights")
    (no_weights / "model.safetensors").unlink()
    cut_weights = shutil.copytree(folders["wordpiece"], tmp_path / "cut-weights")
    (cut_weights / "model.safetensors").write_bytes((folders["wordpiece"] / "model.safetensors").read_bytes()[:9000])
    more_layers = shutil.copytree(folders["wordpiece"], tmp_path / "more-layers")
    edit_config(more_layers, "config.json", num_hidden_layers=4)
    reasons = {
        tmp_path / "absent": "the encoder's folder absent does not exist",
        empty: "encoder empty could not be loaded",
        broken_tokenizer: "encoder broken-tokenizer could not be loaded",
        no_weights: "encoder no-weights could not be loaded",
        cut_weights: "encoder cut-weights could not be loaded",
        more_layers: "the files of encoder more-layers lack 16 of its weights",
    }
    for folder, reason in reasons.items():
        encoder = build(folder, layers={str(folder): 4} if folder == more_layers else {})
        with pytest.raises(EncoderUnavailable, match=reason) as raised:
            await encoder.compare("ja", PAIRS)
        assert str(tmp_path) not in str(raised.value)
        assert "\n" not in str(raised.value)
        await encoder.close()


async def test_code_that_comes_with_an_encoder_is_not_run(folders: Folders, tmp_path: Path) -> None:
    folder, ran = shutil.copytree(folders["wordpiece"], tmp_path / "coded"), tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')", encoding="utf-8")
    edit_config(folder, "config.json", model_type="own", auto_map={"AutoConfig": "own.A", "AutoModel": "own.B"})
    encoder = build(folder)
    with pytest.raises(EncoderUnavailable, match="encoder coded could not be loaded"):
        await encoder.identify("ja")
    assert not ran.exists()
    await encoder.close()


async def test_refuses_a_name_that_is_none() -> None:
    encoder = build(Path("no name!"))
    with pytest.raises(EncoderUnavailable, match=r"^encoder no name! is neither a folder nor a Hugging Face name$"):
        await encoder.identify("ja")
    await encoder.close()


async def test_weights_that_lie_after_the_layer_may_be_missing(folders: Folders, tmp_path: Path) -> None:
    more_layers = shutil.copytree(folders["wordpiece"], tmp_path / "more-layers")
    edit_config(more_layers, "config.json", num_hidden_layers=4)
    encoder = build(more_layers, layers={str(more_layers): LAYER})
    (similarity,) = await encoder.compare("ja", PAIRS[:1])
    assert similarity.f1 == pytest.approx(score_alone(folders["wordpiece"], PAIRS[0]), abs=2e-6)
    await encoder.close()


async def test_refuses_a_layer_that_the_encoder_has_not(folders: Folders) -> None:
    folder = folders["wordpiece"]
    encoder = build(folder, layers={str(folder): 7})
    with pytest.raises(EncoderUnavailable, match="encoder tiny-wordpiece has layers 0 to 3, not 7"):
        await encoder.identify("ja")
    await encoder.close()


async def test_hub_out_of_reach_is_said_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens on port 9 of this machine, so the hub is unreachable and the answer comes at once."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    encoder = build(Path("no-such-owner/no-such-encoder"))
    for _ in range(2):
        with pytest.raises(EncoderUnavailable, match="not in the cache, and the Hugging Face hub is not reachable"):
            await encoder.compare("ja", PAIRS)
    await encoder.close()


async def test_takes_what_the_hub_s_cache_holds_without_asking_the_hub(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants
    import transformers.utils.hub

    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some-owner--tiny-wordpiece"
    shutil.copytree(folders["wordpiece"], repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    encoder = build(Path("some-owner/tiny-wordpiece"))
    identity = await encoder.identify("ja")
    assert identity.startswith("some-owner/tiny-wordpiece_L2_")
    assert identity.endswith("_rev=0123456789ab")
    await encoder.close()


@pytest.mark.parametrize(
    ("language", "name"),
    [("ja", "bert-base-multilingual-cased"), ("ko-KR", "bert-base-multilingual-cased"), ("EN-us", "roberta-large")],
)
def test_takes_bert_score_s_default_for_a_language(language: str, name: str) -> None:
    assert choose_default(language) == name


def test_the_defaults_are_those_of_bert_score() -> None:
    from bert_score.utils import lang2model

    assert {language: choose_default(language) for language in (*lang2model, "ja", "ko")} == {
        language: lang2model[language.split("-")[0]] for language in (*lang2model, "ja", "ko")
    }
