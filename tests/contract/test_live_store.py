"""Spans and their conversations, on each database."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.monitors.traces import commits
from saiten_server.monitors.traces.commits import name_id
from saiten_server.monitors.traces.service import KnownTexts
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.traces.values import TraceRules
from saiten_server.runs.quota import count_stored
from tests.support.spans import LINES, NOON, arrive, chat, make_span, talk, trace_id

WATCHED = TraceRules(idle_seconds=60, max_turns=10, grace_seconds=600, watched_since=NOON, attributes=("channel",))


def after(seconds: float):
    return NOON + timedelta(seconds=seconds)


async def test_a_history_that_is_sent_again_is_stored_once_and_a_span_too(engine: AsyncEngine) -> None:
    store, known = LiveStore(engine), KnownTexts()
    spans = talk(3, "予約-1")
    for number, span in enumerate(spans):
        (kept,) = await store.keep([arrive(span, at=10 * number, known=known)])
        known.add(kept.texts)
        assert (kept.stored, len(kept.texts)) == (1, 2)
    size = await count_stored(engine, "team")
    (again,) = await store.keep([arrive(*spans, at=40)])
    assert (again.stored, again.known) == (0, 3)
    assert await count_stored(engine, "team") == size

    found = await store.find("team", name_id("team", "予約-1"))
    assert found is not None
    assert [turn.text for turn in found.turns] == [f"{LINES[n]}{n}" for n in range(6)]
    assert [turn.role for turn in found.turns] == ["user", "system"] * 3
    assert (found.system, found.build, found.answers, found.state) == ("yoyaku-bot", "1.4.0", 3, "open")
    assert found.latencies == (0.5, 0.5, 0.5)
    assert found.turns[3].trace_id == trace_id(1)
    assert await store.find("rivals", found.id) is None


async def test_a_conversation_is_handed_over_once_and_reopened_by_late_spans(engine: AsyncEngine) -> None:
    store = LiveStore(engine)
    await store.set_rules("team", WATCHED)
    first, second, third = talk(3, "a")
    await store.keep([arrive(first, rules=WATCHED)])
    await store.keep([arrive(chat(["他"], "答", number=9, conversation="b"), project="unwatched", rules=WATCHED)])
    assert await store.close_due(after(59)) == 0
    assert await store.close_due(after(61)) == 1
    claims = await asyncio.gather(*(store.claim(owner, after(62), limit=5, lease_seconds=30) for owner in ("w1", "w2")))
    (claim,) = [one for some in claims for one in some]
    assert claim.conversation.answers == 1

    await store.keep([arrive(second, at=70, rules=WATCHED)])
    assert not await store.finish([claim])
    assert await store.close_due(after(131)) == 1
    (claim,) = await store.claim("w1", after(132), limit=5, lease_seconds=30)
    assert await store.claim("w2", after(140), limit=5, lease_seconds=30) == []
    (taken,) = await store.claim("w2", after(170), limit=5, lease_seconds=30)
    assert not await store.finish([claim])
    assert await store.finish([taken])
    assert not await store.finish([taken])

    (kept,) = await store.keep([arrive(third, at=180, rules=WATCHED)])
    assert (kept.stored, kept.late) == (1, 1)
    found = await store.find("team", name_id("team", "a"))
    assert found is not None
    assert (found.state, found.late_spans, found.answers) == ("done", 1, 2)
    assert await store.claim("w1", after(1000), limit=5, lease_seconds=30) == []


async def test_spans_go_where_another_span_of_their_trace_says(engine: AsyncEngine) -> None:
    store = LiveStore(engine)
    answered = chat(["席"], "はい", number=1, trace=5)
    root = make_span({"session.id": "s-1", "openinference.span.kind": "CHAIN"}, number=2, trace=5)
    await store.keep([arrive(answered)])
    assert await store.find("team", name_id("team", trace_id(5), is_trace=True)) is not None
    await store.keep([arrive(root, at=1)])
    assert await store.find("team", name_id("team", trace_id(5), is_trace=True)) is None
    await store.keep([arrive(chat(["席", "はい", "窓"], "ええ", number=3, trace=5, at=5), at=2)])
    (head,) = await store.list("team")
    found = await store.find("team", head.id)
    assert found is not None
    assert (found.name, [turn.text for turn in found.turns]) == ("s-1", ["席", "はい", "窓", "ええ"])


async def test_what_is_too_much_is_refused_and_counted(engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "MOST_SPANS", 3)
    monkeypatch.setattr(commits, "MOST_UNREAD", 2)
    store = LiveStore(engine)
    (kept,) = await store.keep([arrive(*talk(5, "a"))])
    assert (kept.stored, kept.refused) == (3, 2)
    strange = [make_span({f"ai.odd{n}.prompt": "text"}, number=20 + n) for n in range(4)]
    await store.keep([arrive(*strange)])
    states, counts, unread = await store.count("team")
    assert states["open"] == 5
    assert counts["spans"] == 9
    assert sorted((one.scope, one.spans) for one in unread) == [("other", 2), ("test 1", 1), ("test 1", 1)]
    found = await store.find("team", name_id("team", "a"))
    assert found is not None
    assert found.refused_spans == 2


async def test_long_conversations_close_by_their_turns(engine: AsyncEngine) -> None:
    store = LiveStore(engine)
    await store.set_rules("team", WATCHED)
    spans = talk(5, "a")
    await store.keep([arrive(*spans[:4], rules=WATCHED), arrive(*talk(1, "b", first=50), rules=WATCHED)])
    assert await store.close_due(after(1)) == 0
    await store.keep([arrive(spans[4], at=2, rules=WATCHED)])
    assert await store.close_due(after(3)) in {
        0,
        1,
    }  # SQLite and PostgreSQL look at it alike, at the next count at last
    found = await store.find("team", name_id("team", "a"))
    assert found is not None
    assert found.state == "closed"


async def test_erasure_and_retention_leave_nothing(engine: AsyncEngine) -> None:
    store = LiveStore(engine)
    by_mail = chat(["a"], "b", number=1, conversation="m", channel="メール")
    by_phone = chat(["a"], "b", number=2, conversation="p", channel="電話")
    await store.keep([arrive(by_mail, by_phone, *talk(1, "old", first=7), rules=WATCHED)])
    phone = {"channel": "電話"}
    assert await store.erase_marked("team", phone | {"plan": "x"}) == 0
    assert [await store.erase_marked("team", phone) for _ in range(2)] == [1, 0]
    assert await store.erase("rivals", name_id("team", "m")) is False
    assert await store.erase("team", name_id("team", "m")) is True
    await store.close_due(after(1000))
    assert await store.expire("team", after(-1)) == 0
    assert await store.expire("team", after(1)) == 1
    assert await store.list("team") == []
    assert await count_stored(engine, "team") == 0


async def test_what_is_known_of_another_conversation_is_not_referred_to(engine: AsyncEngine) -> None:
    store, known = LiveStore(engine), KnownTexts()
    first, second, third = talk(3, "a")
    for body in (arrive(first, second, known=known), arrive(first, second, project="rivals", known=known)):
        (kept,) = await store.keep([body])
        known.add(kept.texts)
    found = await store.find("rivals", name_id("rivals", "a"))
    assert found is not None
    assert len(found.turns) == 4
    # After an erasure the history is gone, also what later calls repeat of it; what is said from now on is kept.
    assert await store.erase("team", name_id("team", "a"))
    await store.keep([arrive(third, known=known)])
    found = await store.find("team", name_id("team", "a"))
    assert found is not None
    assert [turn.text for turn in found.turns] == [f"{LINES[4]}4", f"{LINES[5]}5"]


async def test_a_colliding_id_and_a_span_after_the_time_of_grace_change_nothing(engine: AsyncEngine) -> None:
    store = LiveStore(engine)
    await store.set_rules("team", WATCHED)
    first, second = talk(2, "a")
    await store.keep([arrive(first, rules=WATCHED)])
    (kept,) = await store.keep([arrive(chat(["別の話"], "別の答", number=0, conversation="a"), at=1, rules=WATCHED)])
    assert (kept.stored, kept.known) == (0, 1)
    await store.close_due(after(61))
    (kept,) = await store.keep([arrive(second, at=61 + 601, rules=WATCHED)])
    assert (kept.stored, kept.late) == (1, 1)
    found = await store.find("team", name_id("team", "a"))
    assert found is not None
    assert (found.state, found.late_spans) == ("closed", 1)
    assert [turn.text for turn in found.turns] == [f"{LINES[0]}0", f"{LINES[1]}1"]
    (claim,) = await store.claim("w1", after(700), limit=5, lease_seconds=30)
    assert await store.finish([claim])


async def test_two_writers_store_each_span_once(engine: AsyncEngine) -> None:
    stores = [LiveStore(engine) for _ in range(4)]
    bodies = [[arrive(*talk(4, f"c{n}", first=10 * n)) for n in range(6)] for _ in stores]
    kept = await asyncio.gather(*(store.keep(some) for store, some in zip(stores, bodies, strict=True)))
    assert sum(one.stored for some in kept for one in some) == 24
    found = [await stores[0].find("team", name_id("team", f"c{n}")) for n in range(6)]
    assert [one.answers for one in found if one] == [4] * 6
    assert [len(one.turns) for one in found if one] == [8] * 6
