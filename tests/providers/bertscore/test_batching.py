"""How texts are put into forward passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.providers.bertscore.similarity import PassLimits, Tokens, batch_by_length, limit_passes, slice_pairs

LENGTHS = st.lists(st.integers(1, 60), max_size=60)


def number_texts(lengths: list[int]) -> list[tuple[int, ...]]:
    """Texts of these lengths, no two the same."""
    return [(number, *[0] * (length - 1)) for number, length in enumerate(lengths)]


def batch(lengths: list[int], limits: PassLimits) -> list[list[int]]:
    return [[len(ids) for ids in one] for one in batch_by_length(number_texts(lengths), limits)]


def test_passes_hold_like_lengths_and_no_more_than_allowed() -> None:
    # 30 is over the limit and goes alone; 2 · 9 fits, 3 · 9 does not; 3 · 3 fits.
    assert batch([1, 9, 2, 8, 3, 30], PassLimits(20, 100)) == [[30], [9, 8], [3, 2, 1]]


def test_a_pass_begins_where_padding_would_cost_more() -> None:
    # Padding of [9, 8, 5]: 0 + 1 + 4 = 5, and 3 beside 9 would add 6; then 3 and 1: 2.
    assert batch([9, 8, 5, 3, 1], PassLimits(100, 5)) == [[9, 8, 5], [3, 1]]
    assert batch([9, 8, 5, 3, 1], PassLimits(100, 0)) == [[9], [8], [5], [3], [1]]
    assert batch([4, 4, 4], PassLimits(100, 0)) == [[4, 4, 4]]


@given(LENGTHS, st.integers(1, 200), st.integers(0, 100))
def test_every_text_is_in_one_pass_and_every_pass_within_both_limits(
    lengths: list[int], max_tokens: int, max_padding: int
) -> None:
    passes = batch(lengths, PassLimits(max_tokens, max_padding))
    assert [length for one in passes for length in one] == sorted(lengths, reverse=True)
    for one in passes:
        assert len(one) == 1 or len(one) * one[0] <= max_tokens
        assert len(one) * one[0] - sum(one) <= max_padding


@pytest.mark.parametrize(
    ("device", "threads", "max_tokens", "limits"),
    [
        ("cpu", 1, None, PassLimits(1024, 32)),
        ("cpu", 4, None, PassLimits(1024, 80)),
        ("cpu", 8, None, PassLimits(2048, 144)),
        ("cpu", 64, None, PassLimits(4096, 256)),
        ("cpu:0", 1, 100, PassLimits(100, 32)),
        ("cuda", 4, None, PassLimits(4096, 256)),
        ("cuda:1", 4, 9000, PassLimits(9000, 256)),
    ],
)
def test_limits_suit_the_device(device: str, threads: int, max_tokens: int | None, limits: PassLimits) -> None:
    assert limit_passes(device, threads, max_tokens) == limits


@given(LENGTHS, st.integers(1, 100))
def test_slices_hold_every_pair_once_and_no_more_tokens_than_allowed(lengths: list[int], max_held: int) -> None:
    texts = [Tokens(ids, truncated=False, unknown_share=0.0) for ids in number_texts(lengths)]
    pairs = list(zip(texts, reversed(texts), strict=True))
    slices = list(slice_pairs(pairs, max_held))
    assert sorted(number for numbers in slices for number in numbers) == list(range(len(pairs)))
    for numbers in slices:
        held = {tokens.ids for number in numbers for tokens in pairs[number]}
        assert len(numbers) == 1 or sum(map(len, held)) <= max_held


def test_a_text_without_tokens_is_in_no_slice() -> None:
    empty, full = Tokens((), truncated=False, unknown_share=1.0), Tokens((1,), truncated=False, unknown_share=0.0)
    assert list(slice_pairs([(empty, full), (full, full), (full, empty)], 10)) == [[1]]
