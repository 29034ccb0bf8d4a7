"""How texts are put into batches."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from app.adapters.bertscore.encoding import LoadedEncoder, batch_by_length
from app.adapters.bertscore.tokens import Tokens
from app.ports import EncoderUnavailable


class WordTokenizing:
    """One token a word: the word's number."""

    unweighted_ids: frozenset[int] = frozenset()
    pad_id = 0

    def read(self, text: str) -> Tokens:
        if text == "poison":
            raise ValueError("cannot be tokenized")
        return Tokens(tuple(int(word) for word in text.split()), truncated=False, unknown_share=0.0)


class OneHotModel:
    """Embeds token n as the n-th unit vector, and keeps the shape of each forward pass."""

    def __init__(self, size: int = 64) -> None:
        self.size = size
        self.shapes: list[tuple[int, int]] = []

    def __call__(self, ids, attention_mask):
        import torch

        self.shapes.append(tuple(ids.shape))
        return (torch.nn.functional.one_hot(ids, self.size).float(),)


def build(model: OneHotModel, **limits: int) -> LoadedEncoder:
    tokenizing: Any = WordTokenizing()
    return LoadedEncoder(model, tokenizing, identity="", device="cpu", **{"max_batch_tokens": 100, **limits})


def test_batches_hold_like_lengths_and_no_more_than_allowed() -> None:
    texts = [(1,) * length for length in (1, 9, 2, 8, 3, 30)]
    batches = list(batch_by_length(texts, 20))
    # 30 is over the limit and goes alone; 2 · 9 fits, 3 · 9 does not; 3 · 3 fits.
    assert [[len(ids) for ids in batch] for batch in batches] == [[30], [9, 8], [3, 2, 1]]


@pytest.mark.skipif(find_spec("torch") is None, reason="the bertscore extra is not installed")
class TestLoadedEncoder:
    def test_encodes_a_text_once_however_often_it_is_named(self) -> None:
        model = OneHotModel()
        similarities = build(model).compare([("1 2", "1 3"), ("1 2", "1 2"), ("1 3", "1 2")])
        # "1" meets itself, "2" and "3" nothing: P = R = F1 = 1/2.
        assert [one.f1 for one in similarities] == pytest.approx([0.5, 1.0, 0.5])
        assert model.shapes == [(2, 2)]

    def test_holds_no_more_embeddings_than_allowed(self) -> None:
        model = OneHotModel()
        texts = ["1 1", "2 2", "3 3", "4 4", "5 5"]
        similarities = build(model, max_held_tokens=5).compare([(text, text) for text in texts])
        assert [one.f1 for one in similarities] == pytest.approx([1.0] * 5)
        # Two texts of two tokens fit in five.
        assert model.shapes == [(2, 2), (2, 2), (1, 2)]

    def test_says_what_failed_and_not_on_which_text(self) -> None:
        with pytest.raises(EncoderUnavailable, match=r"^the encoder failed on this text \(ValueError\)$"):
            build(OneHotModel()).compare([("1", "poison")])
