"""The language model against its own loss, whatever is read beside it; what it does with texts that are too long."""

import json
import random
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.providers.causal_lm import CausalLM, LanguageModelChoice, LoadedModel, fit_window
from saiten_server.providers.huggingface import find_window
from saiten_server.providers.ports import Likelihood, MetricUnavailable, Passage
from tests.support.encoders import edit_config
from tests.support.faults import words
from tests.support.tiny_lm import START, WINDOW, save_gpt2, save_llama, save_masked

needs_torch = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("torch", "transformers")), reason="the bertscore extra is absent"
)

PASSAGES = [
    Passage("the cat sat on the mat."),
    Passage("the cat sat on the mat.", "where is the cat?"),
    Passage("はい、好きです。", "猫は好き？\n私は好き"),
    Passage("네, 좋아해요", "고양이 좋아해요?"),
    Passage("a", "b"),
    Passage("at"),
    Passage("  the\n\tthe  "),
    Passage("the " * 20, "in the"),
]
KINDS = ["gpt2", "llama", "no-bos"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import torch

    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("models")
    return {
        "gpt2": save_gpt2(root / "tiny-gpt2"),
        "llama": save_llama(root / "tiny-llama"),
        "no-bos": save_gpt2(root / "tiny-no-bos", bos=False),
        "masked": save_masked(root / "tiny-masked"),
    }


def build(folder: Path | str, **settings: Any) -> CausalLM:
    return CausalLM(str(folder), **{"device": "cpu", "threads": 1, **settings})


def load_plainly(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def loss_of(model: Any, context: list[int], response: list[int]) -> float:
    """The model's own mean loss of the response's tokens: the context's labels are -100, which its loss leaves out."""
    import torch

    ids = torch.tensor([context + response])
    labels = torch.tensor([[-100] * len(context) + response])
    with torch.inference_mode():
        return float(model(input_ids=ids, labels=labels).loss)


def tokenize(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


@needs_torch
@pytest.mark.parametrize("kind", KINDS)
async def test_equals_the_models_own_loss_whatever_is_beside_it(kind: str, folders: dict[str, Path]) -> None:
    model, tokenizer = load_plainly(folders[kind])
    start = [] if kind == "no-bos" else [0]
    expected = {}
    for passage in PASSAGES:
        asked = [] if passage.question is None else tokenize(tokenizer, passage.question + "\n")
        expected[passage] = loss_of(model, start + asked, tokenize(tokenizer, passage.response))
    for seed in range(2):
        lm = build(folders[kind])
        for passage in random.Random(seed).sample(PASSAGES, len(PASSAGES)):
            if kind == "no-bos" and passage == Passage("at"):
                with pytest.raises(MetricUnavailable, match="one token"):
                    await lm.read(passage)
                continue
            found = await lm.read(passage)
            assert found.nats == pytest.approx(expected[passage], rel=1e-5)
            assert not found.truncated
        await lm.close()


@needs_torch
async def test_the_question_counts_and_its_tokens_do_not(folders: dict[str, Path]) -> None:
    lm = build(folders["gpt2"])
    alone, after, other = [await lm.read(Passage("the cat.", asked)) for asked in (None, "cat?", "the the the?")]
    # `the`, Ġ, c, at and the full stop; `the` at the very beginning is t and he.
    assert alone.tokens == after.tokens == other.tokens == 6
    assert len({alone.nats, after.nats, other.nats}) == 3
    await lm.close()


@needs_torch
async def test_without_a_beginning_the_first_token_is_not_scored(folders: dict[str, Path]) -> None:
    lm = build(folders["no-bos"])
    alone, after = await lm.read(Passage("the cat.")), await lm.read(Passage("the cat.", "cat?"))
    assert (alone.tokens, after.tokens) == (5, 6)
    assert "no-bos" in await lm.identify()
    await lm.close()


@needs_torch
async def test_too_long_loses_the_questions_beginning_then_the_responses_end(folders: dict[str, Path]) -> None:
    model, tokenizer = load_plainly(folders["gpt2"])
    lm = build(folders["gpt2"])
    question, response = "0123456789" * 7, "abcdefghij" * 3
    asked, said = tokenize(tokenizer, question + "\n"), tokenize(tokenizer, response)
    found = await lm.read(Passage(response, question))
    kept = asked[-(WINDOW - 1 - len(said)) :]
    assert (found.tokens, found.truncated) == (len(said), True)
    assert found.nats == pytest.approx(loss_of(model, [0, *kept], said), rel=1e-5)
    found = await lm.read(Passage(response * 4, question))
    said = tokenize(tokenizer, response * 4)[: WINDOW - 1]
    assert (found.tokens, found.truncated) == (WINDOW - 1, True)
    assert found.nats == pytest.approx(loss_of(model, [0], said), rel=1e-5)
    await lm.close()


@needs_torch
async def test_a_text_cannot_spell_special_tokens(folders: dict[str, Path]) -> None:
    lm = build(folders["gpt2"])
    found = await lm.read(Passage(START))
    assert found.tokens == len(START)  # no merge applies within its letters
    await lm.close()


class WholeLogits:
    """A model whose `forward` takes the tokens and nothing else."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def forward(self, ids: Any) -> Any:
        return self._model(ids)

    __call__ = forward


@needs_torch
def test_a_model_that_gives_all_logits_gives_the_same(folders: dict[str, Path]) -> None:
    model, tokenizer = load_plainly(folders["gpt2"])
    settings: dict[str, Any] = {"identity": "", "device": "cpu", "window": WINDOW}
    whole, kept = (LoadedModel(one, tokenizer, **settings) for one in (WholeLogits(model), model))
    for passage in PASSAGES:
        assert whole.read(passage).nats == pytest.approx(kept.read(passage).nats, rel=1e-6)


@needs_torch
async def test_the_identity_is_of_the_content_not_of_the_place(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["gpt2"], tmp_path / "tiny-gpt2"))
    one, other = build(folders["gpt2"]), build(copy)
    assert await one.identify() == await other.identify()
    assert str(tmp_path) not in await other.identify()
    changed = build(save_gpt2(tmp_path / "again" / "tiny-gpt2", seed=9))
    shorter = build(copy, max_tokens=32)
    assert len({await lm.identify() for lm in (one, changed, shorter)}) == 3
    for lm in (one, other, changed, shorter):
        await lm.close()


async def refused(lm: CausalLM) -> str:
    """Why it cannot be used; the same is said to who identifies it and to who reads."""
    with pytest.raises(MetricUnavailable) as first:
        await lm.identify()
    with pytest.raises(MetricUnavailable) as second:
        await lm.read(Passage("a b"))
    await lm.close()
    assert str(first.value) == str(second.value)
    return str(first.value)


@needs_torch
async def test_a_model_that_reads_ahead_is_refused(folders: dict[str, Path]) -> None:
    assert await refused(build(folders["masked"])) == "tiny-masked is no causal language model: it reads ahead"


@needs_torch
async def test_weights_that_are_missing_are_not_made_up(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    copy = Path(shutil.copytree(folders["gpt2"], tmp_path / "lacking"))
    weights = load_file(copy / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert await refused(build(copy)) == "the files of language model lacking lack 1 of its weights"


@needs_torch
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/nowhere/at-all", "the language model's folder at-all does not exist"),
        ("some/model", "not reachable"),
        ("no name!", "neither a folder nor a Hugging Face name"),
    ],
)
async def test_a_name_that_leads_nowhere_says_so(name: str, words: str) -> None:
    assert words in await refused(build(name))


@needs_torch
async def test_a_broken_folder_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["gpt2"], tmp_path / "broken"))
    (copy / "tokenizer.json").write_text("{", encoding="utf-8")
    assert "language model broken could not be loaded" in await refused(build(copy))


@needs_torch
async def test_code_that_comes_with_a_model_is_not_run(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folders["gpt2"], tmp_path / "coded"))
    ran = tmp_path / "ran"
    (copy / "own.py").write_text(f"open({str(ran)!r}, 'w')", encoding="utf-8")
    edit_config(
        copy, "config.json", model_type="own", auto_map={"AutoConfig": "own.A", "AutoModelForCausalLM": "own.B"}
    )
    assert "could not be loaded" in await refused(build(copy))
    assert not ran.exists()


class Counting:
    """Loads nothing, and fails as often as it is asked."""

    def __init__(self, reason: str | None) -> None:
        self.reason = reason
        self.loads = 0
        self.identity = "counted"

    def load(self, choice: LanguageModelChoice) -> "Counting":
        self.loads += 1
        if self.reason is not None:
            raise MetricUnavailable(words(self.reason))
        return self

    def read(self, passage: Passage) -> Likelihood:
        return Likelihood(1.0, len(passage.response), truncated=False)


async def test_loads_once_and_at_the_first_use() -> None:
    counting = Counting(None)
    lm = CausalLM("m", load=counting.load)
    assert counting.loads == 0
    assert (await lm.read(Passage("ab"))).tokens == 2
    assert await lm.identify() == "counted"
    assert counting.loads == 1
    await lm.close()


async def test_a_failed_load_is_remembered() -> None:
    counting = Counting("down")
    assert await refused(CausalLM("m", load=counting.load)) == "down"
    assert counting.loads == 1


async def test_closed_it_refuses() -> None:
    lm = CausalLM("m", load=Counting(None).load)
    await lm.close()
    assert await refused(lm) == "the language model is closed"


Ids = st.lists(st.integers(10, 99), max_size=30)


@given(st.booleans(), Ids, Ids.filter(bool), st.integers(2, 40))
def test_placed_tokens_fit_and_lose_the_least(bos: bool, question: list[int], response: list[int], window: int) -> None:
    start = (0,) if bos else ()
    try:
        found = fit_window(start, question, response, window)
    except MetricUnavailable:
        # Only where the response's one token has nothing before it.
        assert not bos
        assert min(len(response), window) == 1 or not question
        return
    assert len(found.ids) == min(window, len(start) + len(question) + len(response))
    assert found.ids[: len(start)] == start
    assert found.truncated == (len(start) + len(question) + len(response) > window)
    scored = found.ids[found.first :]
    said = response[: window - len(start)]
    first_is_lost = not bos and len(found.ids) == len(said)
    assert list(scored) == (said[1:] if first_is_lost else said)
    asked = list(found.ids[len(start) : found.first]) if not first_is_lost else []
    assert asked == question[len(question) - len(asked) :]


def test_a_response_without_tokens_has_no_likelihood() -> None:
    with pytest.raises(MetricUnavailable, match="no token that the language model knows"):
        fit_window((0,), (5, 6), (), 10)


@pytest.mark.parametrize(
    ("stated", "window"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"max_position_embeddings": 131072}, 2048),
        ({"n_positions": 1024}, 1024),
        ({"seq_length": 1000}, 1000),
        ({}, 700),
    ],
)
def test_the_window_is_the_models_within_the_bound(stated: dict[str, int], window: int) -> None:
    inner = SimpleNamespace(**stated)
    config = SimpleNamespace(get_text_config=lambda: inner)
    assert find_window(config, SimpleNamespace(model_max_length=700), 2048) == window
    unbounded = SimpleNamespace(model_max_length=int(1e30))
    assert find_window(config, unbounded, 2048) == (window if stated else 2048)


SCRIPT = """
import asyncio, json, sys
for package in ("torch", "transformers"):
    sys.modules[package] = None  # as if it were not installed
from saiten_server.providers.causal_lm import CausalLM
from tests.support.faults import words
from saiten_server.providers.ports import MetricUnavailable, Passage

async def ask(lm):
    for question in (lm.identify(), lm.read(Passage("a"))):
        try:
            await question
        except MetricUnavailable as error:
            print(json.dumps(str(error)))
    await lm.close()

asyncio.run(ask(CausalLM("some/model")))
"""


def test_without_the_extra_it_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    reason = "install saiten-server[bertscore] for perplexities (torch, transformers not installed)"
    assert [json.loads(line) for line in done.stdout.splitlines()] == [reason] * 2, done.stderr
