"""The drawing of the ratios: right of 1 is ahead, whichever way is good."""

from pathlib import Path

import pytest

from benchmarks.record import Beside, Figure, at_least, at_most, draw_ratios, find_advantage, find_goal, name_row

FASTER = Figure("batches", "1,000 items", "s", 2.0, peer=Beside("loop", 8.0), target=at_most(0.5, of="peer"))
MORE = Figure("relevance", "Japanese", "pairs/s", 900.0, peer=Beside("bert-score", 300.0), better="higher")


def test_less_time_and_more_pairs_are_both_ahead():
    assert find_advantage(FASTER, "peer") == 4
    assert find_advantage(MORE, "peer") == 3
    assert find_advantage(MORE, "limit") is None
    assert find_advantage(Figure("a", "b", "s", 0.0, peer=Beside("c", 1.0)), "peer") is None


def test_the_goal_lies_on_the_same_axis():
    assert find_goal(FASTER, "peer") == 2  # at most half the time
    assert find_goal(FASTER, "limit") is None
    assert find_goal(MORE, "peer") is None
    told = Figure("a", "b", "x/s", 1.0, peer=Beside("c", 1.0), better="higher", target=at_least(3, of="peer"))
    assert find_goal(told, "peer") == 3


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_all_that_has_a_ratio_is_drawn(tmp_path: Path, suffix: str):
    path = tmp_path / f"ratios.{suffix}"
    assert draw_ratios([FASTER, MORE, Figure("start", "--help", "s", 0.2)], path) == 2
    assert path.stat().st_size > 1000


def test_nothing_to_draw_is_still_a_drawing(tmp_path: Path):
    assert draw_ratios([], tmp_path / "none.svg") == 0
    assert (tmp_path / "none.svg").exists()


def test_a_label_names_the_peer_and_is_cut():
    assert name_row(FASTER) == "batches: 1,000 items / loop"
    assert name_row(Figure("a", "b" * 200, "s", 1.0)).endswith("b…")
