"""The sample: by a keyed hash, with rates for strata, thinned by a budget."""

from __future__ import annotations

import pytest

from saiten_server.core.model import Value
from saiten_server.monitors.sampling import MOST_HALVINGS, count_halvings, draw, find_draw
from saiten_server.monitors.values import MonitorOptions
from tests.support.live import make_live


def options(**changes: object) -> MonitorOptions:
    found: Value = MonitorOptions.model_validate({"name": "live", "rubric": "ja-conversation", **changes})
    assert isinstance(found, MonitorOptions)
    return found


def test_places_are_uniform_and_depend_on_the_key() -> None:
    places = [find_draw("salt", f"c-{number}") for number in range(4_000)]
    assert 0.08 < sum(place < 0.1 for place in places) / 4_000 < 0.12
    assert find_draw("salt", "a") == find_draw("salt", "a") != find_draw("other", "a")


def test_the_first_stratum_that_fits_counts() -> None:
    chosen = options(
        rate=0.0,
        strata=[{"filter": {"a": "1"}, "rate": 1.0}, {"filter": {"service.name": "bot"}, "rate": 0.0}],
    )
    assert draw(chosen, "s", make_live("x", attributes={"a": "1"}), 0).outcome == "sampled"
    assert draw(chosen, "s", make_live("x"), 0).outcome == "skipped"


def test_a_halved_rate_keeps_a_part_of_the_sample_and_says_what_it_left_out() -> None:
    whole = options(rate=0.8)
    drawn = {half: [draw(whole, "s", make_live(f"c-{n}"), half) for n in range(200)] for half in (0, 1)}
    sampled = {half: {n for n, one in enumerate(found) if one.outcome == "sampled"} for half, found in drawn.items()}
    assert sampled[1] < sampled[0]
    thinned = {n for n, one in enumerate(drawn[1]) if one.outcome == "thinned"}
    assert thinned == sampled[0] - sampled[1]
    assert {one.probability for one in drawn[1]} == {0.4}


@pytest.mark.parametrize(
    ("spent", "halvings"),
    [(0.0, 0), (0.49, 0), (0.5, 1), (0.76, 2), (0.99, 6), (1.0, MOST_HALVINGS + 1), (2.0, MOST_HALVINGS + 1)],
)
def test_the_sample_is_halved_each_time_half_of_what_was_left_is_spent(spent: float, halvings: int) -> None:
    assert count_halvings(spent, 1.0) == halvings


def test_a_price_that_is_not_known_fits_into_no_budget() -> None:
    assert count_halvings(None, 1.0) == MOST_HALVINGS + 1
    assert count_halvings(None, None) == 0
    assert draw(options(rate=1.0), "s", make_live(), MOST_HALVINGS + 1).outcome == "thinned"
