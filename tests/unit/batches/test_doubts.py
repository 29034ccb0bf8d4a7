"""A judge that refuses everything is told from one that refuses some."""

from __future__ import annotations

from app.batches.attempt import MOST_BATCHES, MOST_REFUSED, RefusalCounter


def test_refusals_before_the_first_taken_candidate_pause_the_batch() -> None:
    refusals = RefusalCounter()
    assert [refusals.refused("ba_1") for _ in range(MOST_REFUSED)] == [False] * (MOST_REFUSED - 1) + [True]


def test_one_taken_candidate_ends_all_doubt_about_its_batch_alone() -> None:
    refusals = RefusalCounter()
    refusals.took("ba_1")
    assert not any(refusals.refused("ba_1") for _ in range(5 * MOST_REFUSED))
    assert any(refusals.refused("ba_2") for _ in range(MOST_REFUSED))


def test_after_a_pause_the_count_starts_anew() -> None:
    refusals = RefusalCounter()
    for _ in range(MOST_REFUSED):
        refusals.refused("ba_1")
    assert not refusals.refused("ba_1")


def test_only_batches_of_late_are_remembered() -> None:
    refusals = RefusalCounter()
    refusals.took("long ago")
    for number in range(MOST_BATCHES - 1):
        refusals.took(f"ba_{number}")
    assert not any(refusals.refused("long ago") for _ in range(MOST_REFUSED))
    for number in range(MOST_BATCHES):
        refusals.took(f"bb_{number}")
    assert any(refusals.refused("long ago") for _ in range(MOST_REFUSED))
