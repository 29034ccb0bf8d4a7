"""Greedy matching on vectors small enough to be matched by hand."""

from importlib.util import find_spec

import pytest

from saiten_server.providers.bertscore.similarity import MAX_BATCH_PAIRS, Embedded, match_tokens

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="the bertscore extra is not installed")

EAST, NORTH, WEST, SOUTH, NORTH_EAST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.6, 0.8]


def embed(*vectors: list[float], weights: list[float] | None = None) -> Embedded:
    import torch

    return Embedded(torch.tensor(vectors), torch.tensor(weights or [1.0] * len(vectors)))


def test_matches_each_token_with_its_nearest() -> None:
    # Candidate: north-east meets north at 0.8, so P = 0.8. Reference: east meets north-east at 0.6, north at 0.8: R =
    # 0.7. F1 = 2 · 0.8 · 0.7 / 1.5.
    assert match_tokens([(embed(EAST, NORTH), embed(NORTH_EAST))]) == pytest.approx([1.12 / 1.5])


def test_unweighted_tokens_may_be_met_but_do_not_count() -> None:
    # As above, but the reference's north weighs nothing: P is still 0.8, R = 0.6. F1 = 2 · 0.8 · 0.6 / 1.4.
    assert match_tokens([(embed(EAST, NORTH, weights=[1.0, 0.0]), embed(NORTH_EAST))]) == pytest.approx([0.96 / 1.4])


def test_padding_does_not_hide_negative_similarities() -> None:
    # East against west is -1 both ways: F1 = 2 · 1 / -2 = -1, though its neighbour makes both sides be padded.
    opposite, longer = (embed(EAST), embed(WEST)), (embed(EAST, NORTH, WEST), embed(NORTH, EAST, SOUTH))
    # Longer, candidate: north 1, east 1, south 0 (against east or west): P = 2/3; reference: 1, 1, 0: R = 2/3.
    assert match_tokens([opposite, longer]) == pytest.approx([-1.0, 2 / 3])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_vectors_that_are_a_rounding_longer_than_one_meet_at_one(sign: float) -> None:
    # The cosine of the two comes out as 1.0000002, or its negative.
    assert match_tokens([(embed([1.0000001, 0.0]), embed([sign * 1.0000001, 0.0]))]) == [sign]


def test_no_similarity_where_none_is_defined() -> None:
    weightless = embed(EAST, weights=[0.0])
    assert match_tokens([(weightless, embed(EAST)), (embed(EAST), embed(NORTH))]) == [0.0, 0.0]


def test_answers_in_order_across_batches() -> None:
    pairs = [(embed(EAST), embed(EAST if number % 2 else NORTH_EAST)) for number in range(2 * MAX_BATCH_PAIRS + 3)]
    assert match_tokens(pairs) == pytest.approx(
        [1.0 if number % 2 else 0.6 for number in range(2 * MAX_BATCH_PAIRS + 3)]
    )
    assert match_tokens([]) == []
