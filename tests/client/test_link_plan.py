"""Which responses a new judge should rate too, so that two judges can be linked."""

from collections import Counter

import httpx
import pytest

from saiten.commands.files import InvalidItems
from saiten.commands.link import EACH_LEVEL, choose_anchors, fetch_item, join_candidates
from saiten.connection import Connection


def test_a_plan_holds_every_level_of_every_aspect() -> None:
    rows = [{"overall": 3 + (at % 50 == 0), "safety": int(at != 999)} for at in range(1000)]
    chosen = choose_anchors(rows, 100, seed=1)
    assert (len(chosen), chosen) == (100, sorted(set(chosen)))
    levels = Counter(rows[number]["overall"] for number in chosen)
    assert levels[4] >= EACH_LEVEL
    assert 999 in chosen  # the only one of its level
    assert choose_anchors(rows, 100, seed=1) == chosen != choose_anchors(rows, 100, seed=2)
    assert choose_anchors(rows[:30], 100, seed=1) == list(range(30))


def test_candidates_of_one_item_stay_together() -> None:
    context = [{"speaker": "A", "text": "はい"}]
    found = [{"id": name, "context": context, "response": text} for name, text in (("a", "1"), ("b", "2"), ("b", "3"))]
    assert join_candidates(found) == [
        {"id": "a", "context": context, "response": "1"},
        {"id": "b", "context": context, "responses": ["2", "3"]},
    ]


async def test_what_to_rate_is_read_with_its_texts_and_never_without() -> None:
    asked = {
        "ev_1": {"context": [{"speaker": "A", "text": "はい"}], "response": "ええ", "rubric": "ko-comment"},
        "ev_2": {"turns": [{"speaker": "A", "text": "はい", "role": "user"}], "persona": None, "goal": "予約"},
        "ev_3": None,
    }

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"request": asked[request.url.path.rsplit("/", 1)[-1]]})

    async with Connection("http://h", transport=httpx.MockTransport(answer)) as service:
        one, other = [await fetch_item(service, {"id": name, "item": "a"}) for name in ("ev_1", "ev_2")]
        assert one == {"id": "a", "context": [{"speaker": "A", "text": "はい"}], "response": "ええ"}
        assert other == {"id": "a", "turns": [{"speaker": "A", "text": "はい", "role": "user"}], "goal": "予約"}
        with pytest.raises(InvalidItems, match="the texts of 'a' are no longer kept"):
            await fetch_item(service, {"id": "ev_3", "item": "a"})
