"""Which responses a new judge should rate too, so that two judges can be linked."""

from __future__ import annotations

from collections import Counter

from saiten.commands.link import EACH_LEVEL, choose, join_candidates


def test_a_plan_holds_every_level_of_every_aspect() -> None:
    rows = [{"overall": 3 + (at % 50 == 0), "safety": int(at != 999)} for at in range(1000)]
    chosen = choose(rows, 100, seed=1)
    assert (len(chosen), chosen) == (100, sorted(set(chosen)))
    levels = Counter(rows[number]["overall"] for number in chosen)
    assert levels[4] >= EACH_LEVEL
    assert 999 in chosen  # the only one of its level
    assert choose(rows, 100, seed=1) == chosen != choose(rows, 100, seed=2)
    assert choose(rows[:30], 100, seed=1) == list(range(30))


def test_candidates_of_one_item_stay_together() -> None:
    context = [{"speaker": "A", "text": "はい"}]
    found = [{"id": name, "context": context, "response": text} for name, text in (("a", "1"), ("b", "2"), ("b", "3"))]
    assert join_candidates(found) == [
        {"id": "a", "context": context, "response": "1"},
        {"id": "b", "context": context, "responses": ["2", "3"]},
    ]
