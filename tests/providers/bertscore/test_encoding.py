"""What is encoded, how often, and how long it is kept."""

import math
from importlib.util import find_spec
from typing import Any

import pytest

from saiten_server.providers.bertscore.similarity import MAX_AGE_SECONDS, LoadedEncoder, PassLimits, Tokens
from saiten_server.providers.ports import EncoderUnavailable


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


class BrokenModel(OneHotModel):
    """Has the same value everywhere, as damaged weights may have."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def __call__(self, ids, attention_mask):
        return (super().__call__(ids, attention_mask)[0] * 0 + self.value,)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def build(model: OneHotModel, clock: Clock | None = None, **settings: int) -> LoadedEncoder:
    tokenizing: Any = WordTokenizing()
    limits = PassLimits(max_tokens=100, max_padding=100)
    return LoadedEncoder(
        model, tokenizing, identity="", device="cpu", limits=limits, clock=clock or Clock(), **settings
    )


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

    @pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
    def test_vectors_without_a_direction_are_no_similarity_of_0(self, value: float) -> None:
        with pytest.raises(EncoderUnavailable) as caught:
            build(BrokenModel(value)).compare([("1 2", "1 3")])
        assert caught.value.message.id == "encoder-no-number"

    def test_a_context_is_encoded_once_for_candidates_that_come_one_after_another(self) -> None:
        model = OneHotModel()
        encoder = build(model)
        together = build(OneHotModel()).compare([("1 2", "1 3"), ("1 2", "2 2 2")])
        one_by_one = [encoder.compare([pair])[0] for pair in (("1 2", "1 3"), ("1 2", "2 2 2"), ("1 2", "1 3"))]
        assert one_by_one == [*together, together[0]]
        assert model.shapes == [(2, 2), (1, 3)]

    def test_what_is_kept_is_no_view_of_its_batch(self) -> None:
        encoder = build(OneHotModel(size=64))
        encoder.compare([("1 2 3", "4")])
        kept = [one.vectors for one, _, _ in encoder._embedded._entries.values()]
        assert sorted(one.untyped_storage().nbytes() for one in kept) == [1 * 64 * 4, 3 * 64 * 4]

    def test_forgets_a_text_so_many_seconds_after_it_was_first_read_however_often_it_comes(self) -> None:
        model, clock = OneHotModel(), Clock()
        encoder = build(model, clock)
        assert encoder.forget() is None
        encoder.compare([("1 2", "1 3")])
        clock.seconds = MAX_AGE_SECONDS - 1
        encoder.compare([("1 2", "1 3")])
        assert encoder.forget() == pytest.approx(1)
        assert model.shapes == [(2, 2)]
        clock.seconds = MAX_AGE_SECONDS
        assert encoder.forget() is None
        assert (len(encoder._tokens), len(encoder._embedded)) == (0, 0)
        encoder.compare([("1 2", "1 3")])
        assert model.shapes == [(2, 2), (2, 2)]

    def test_nothing_older_is_used_or_left_by_a_run_either(self) -> None:
        model, clock = OneHotModel(), Clock()
        encoder = build(model, clock)
        encoder.compare([("1 2", "1 2")])
        clock.seconds = MAX_AGE_SECONDS
        encoder.compare([("3", "3")])
        assert list(encoder._embedded._entries) == [(3,)]
        assert model.shapes == [(1, 2), (1, 1)]
