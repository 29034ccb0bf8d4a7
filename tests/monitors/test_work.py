"""What becomes of a closed conversation: sampled or not, scored once, counted in its window."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from saiten.core.messages import Message
from saiten_server.core.batch import BatchFilter
from saiten_server.core.errors import InvalidRequest, NotFound, PriceUnknown, UnknownRubric
from saiten_server.core.rubric import Rubric
from saiten_server.erasure.store import TextStore
from saiten_server.monitors import work
from saiten_server.monitors.sampling import find_draw
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.traces.values import LiveConversation
from saiten_server.monitors.values import MonitorChange
from saiten_server.platform.sql import engine as db
from saiten_server.runs.summaries import Summaries
from saiten_server.scoring.admission import Quote
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.batches import START
from tests.support.live import PROJECT, MonitorBench, make_live

SAME = "ご予約を承りました。当日は受付までお越しください。"


async def results(bench: MonitorBench, monitor_id: str):
    return [one for _, one in await bench.service.results(PROJECT, monitor_id, before=None, limit=200)]


async def windows_of(bench: MonitorBench, monitor_id: str):
    return [one for _, one in await bench.service.windows(PROJECT, monitor_id, before=None, limit=9)]


async def test_a_closed_conversation_is_scored_and_told_with_its_window(bench: MonitorBench) -> None:
    monitor = await bench.make()
    bench.live.close(make_live("a", SAME, SAME, errors=1), make_live("b"))
    await bench.work.do_round()
    assert sorted(bench.live.finished) == ["a", "b"]
    assert await bench.score({"a": 3.0, "b": 7.0}) == 2
    await bench.work.do_round()
    found = {one.conversation: one for one in await results(bench, monitor.id)}
    assert (found["a"].aspects, found["b"].aspects) == ({"overall": 3.0}, {"overall": 7.0})
    assert found["a"].findings == {"repetition": 1}
    assert found["a"].status == "scored"
    (window,) = await windows_of(bench, monitor.id)
    assert window.aspects["overall"].value == 5.0
    assert (window.conversations, window.sampled, window.answers, window.errors) == (2, 2, 3, 1)
    assert window.latency_seconds_mean == 1.5
    assert window.findings == {"repetition": pytest.approx(100 / 3)}
    assert (window.starts_at, window.ends_at) == (START.replace(hour=0), START.replace(hour=0) + timedelta(days=1))
    (run,) = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=10)
    assert (run.id, run.name, run.metadata["system"], run.metadata["build"]) == (window.run, "live", "bot", "1")


async def test_a_conversation_enters_once_however_often_it_is_handed_out(bench: MonitorBench) -> None:
    monitor = await bench.make()
    bench.live.close(make_live("a"))
    bench.live.loses = True
    with pytest.raises(RuntimeError):
        await bench.work.do_round()
    bench.live.loses = False
    await bench.work.do_round()
    bench.live.close(make_live("a", version=9))
    await bench.work.do_round()
    assert await bench.score() == 1
    assert len(await results(bench, monitor.id)) == 1


async def test_later_conversations_join_the_run_of_their_window_until_it_ends(bench: MonitorBench) -> None:
    monitor = await bench.make(window="hour")
    bench.live.close(make_live("a"))
    await bench.work.do_round()
    await bench.score()
    bench.live.close(make_live("b", at=START + timedelta(minutes=50)))
    bench.clock.move(3_600 * 0.9)
    await bench.work.do_round()
    await bench.score()
    (run,) = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=10)
    assert (run.status, run.counts.total) == ("running", 2)
    bench.clock.move(3_600)
    await bench.work.do_round()
    (run,) = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=10)
    assert (run.status, run.counts.scored) == ("completed", 2)
    # What comes for it even later is a run of its own.
    bench.live.close(make_live("c", at=START))
    await bench.work.do_round()
    assert [one.sampled for one in await windows_of(bench, monitor.id)] == [1, 2]


async def test_systems_and_builds_have_runs_of_their_own(quick: MonitorBench) -> None:
    monitor = await quick.make()
    quick.live.close(make_live("a"), make_live("b", build="2"), make_live("c", system=None, build=None))
    await quick.work.do_round()
    windows = await windows_of(quick, monitor.id)
    assert {(one.system, one.build) for one in windows} == {("bot", "1"), ("bot", "2"), (None, None)}
    assert len({one.run for one in windows}) == 3


async def test_pages_of_windows_leave_none_out(bench: MonitorBench) -> None:
    monitor = await bench.make(window="hour", rate=0.0)
    bench.live.close(*(make_live(f"c-{n}", build=str(n % 4), at=START + timedelta(hours=n // 4)) for n in range(12)))
    await bench.work.do_round()
    seen, before = [], None
    while page := await bench.service.windows(PROJECT, monitor.id, before=before, limit=5):
        seen += [(one.starts_at, one.build) for _, one in page]
        before = (page[-1][1].starts_at, page[-1][0])
    assert len(seen) == len(set(seen)) == 12
    assert seen == sorted(seen, key=lambda one: one[0], reverse=True)


async def test_only_what_the_filter_takes_is_seen(quick: MonitorBench) -> None:
    monitor = await quick.make(filter={"service.name": "bot", "tier": "free"})
    quick.live.close(
        make_live("a", attributes={"tier": "free"}),
        make_live("b", attributes={"tier": "paid"}),
        make_live("c", attributes={"tier": "free"}, system="other"),
        make_live("d", attributes={"tier": "free"}, project="elsewhere"),
        make_live("e", attributes={"tier": "free"}, at=START - timedelta(days=1)),
    )
    await quick.work.do_round()
    assert [one.conversation for one in await results(quick, monitor.id)] == ["a"]
    # All are done with: nobody else waits for them.
    assert len(quick.live.finished) == 5


async def test_a_worker_without_the_rubric_leaves_the_conversation_to_others(
    quick: MonitorBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lacking = await quick.make(rubric="ko-conversation")
    monitor = await quick.make()
    known = quick.work.instruments.rubrics.get

    def get(name: str) -> Rubric:
        if name.startswith("ko"):
            raise UnknownRubric(Message("verbatim", text=name))
        return known(name)

    with monkeypatch.context() as patched:
        patched.setattr(type(quick.work.instruments.rubrics), "get", lambda _, name: get(name))
        quick.live.close(make_live("a"))
        await quick.work.do_round()
        assert quick.live.finished == []
        assert [vars(one)["target"] for one in caplog.records if one.name == "saiten.monitors"] == [lacking.id]
    # Another worker has it; what was entered elsewhere already stays as it is.
    await quick.work.do_round()
    assert quick.live.finished == ["a"]
    assert [len(await results(quick, each.id)) for each in (lacking, monitor)] == [1, 1]
    ((_, window),) = await quick.service.windows(PROJECT, monitor.id, before=None, limit=9)
    assert window.conversations == 1


async def test_a_rubric_that_is_gone_is_not_waited_for_for_ever(
    quick: MonitorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quick.make()
    quick.live.close(make_live("a"))
    quick.clock.move(3601)

    def get(_: object, name: str) -> Rubric:
        raise UnknownRubric(Message("verbatim", text=name))

    monkeypatch.setattr(type(quick.work.instruments.rubrics), "get", get)
    await quick.work.do_round()
    assert quick.live.finished == ["a"]


async def test_the_sample_is_drawn_by_the_conversations_name_alone(quick: MonitorBench) -> None:
    monitor = await quick.make(rate=0.3, strata=[{"filter": {"feedback": "down"}, "rate": 1.0}])
    quick.live.close(*(make_live(f"c-{number}") for number in range(40)))
    quick.live.close(make_live("down", attributes={"feedback": "down"}))
    await quick.work.do_round()
    salt = (await quick.service.find(PROJECT, monitor.id)).salt
    found = {one.conversation: one for one in await results(quick, monitor.id)}
    assert {name for name, one in found.items() if one.outcome == "sampled"} == {"down"} | {
        f"c-{number}" for number in range(40) if find_draw(salt, f"c-{number}") < 0.3
    }
    assert (found["c-1"].probability, found["down"].probability) == (0.3, 1.0)
    ((_, down),) = [
        one
        for one in await quick.batches.candidates(found["down"].run or "", after=-1, limit=50)
        if one[1].metadata["conversation"] == "down"
    ]
    assert down.metadata["probability"] == "1"


async def test_means_weigh_each_conversation_by_the_inverse_of_its_probability(quick: MonitorBench) -> None:
    monitor = await quick.make()
    quick.live.close(make_live("a"), make_live("b"))
    await quick.work.do_round()
    rare = t.monitor_conversations.c.name == "b"
    await db.execute(quick.engine, update(t.monitor_conversations).where(rare).values(probability=0.25))
    await quick.score({"a": 1.0, "b": 6.0})
    await quick.work.do_round()
    (window,) = await windows_of(quick, monitor.id)
    assert window.aspects["overall"].value == 5.0
    assert window.aspects["overall"].interval is None


async def test_the_run_of_a_window_is_weighed_likewise(quick: MonitorBench) -> None:
    monitor = await quick.make(rate=0.5, strata=[{"filter": {"feedback": "down"}, "rate": 1.0}])
    quick.live.close(*(make_live(f"c-{number}") for number in range(40)))
    # An attribute that is called so is no probability.
    quick.live.close(make_live("down", attributes={"feedback": "down", "monitor": "", "probability": "0.001"}))
    await quick.work.do_round()
    sampled = [one for one in await results(quick, monitor.id) if one.outcome == "sampled"]
    assert 6 <= len(sampled) < 41
    await quick.score({one.conversation: 2.0 if one.conversation == "down" else 8.0 for one in sampled})
    await quick.work.do_round()
    (window,) = await windows_of(quick, monitor.id)
    batch = await quick.batches.find(PROJECT, window.run or "")
    assert batch is not None
    summary = await Summaries(quick.batches, open_rubrics(None)).summarize(PROJECT, batch)
    overall, others = summary.aspects["overall"], len(sampled) - 1
    assert overall.n == len(sampled)
    assert overall.mean == pytest.approx((2 * 8 * others + 2) / (2 * others + 1))
    assert overall.mean == pytest.approx(window.aspects["overall"].value)
    assert overall.interval == pytest.approx(window.aspects["overall"].interval)
    assert sum(overall.histogram.values()) == pytest.approx(len(sampled))
    assert summary.counts.scored == len(sampled)


async def test_an_interval_stays_within_the_scale_and_there_is_none_of_equal_ratings(quick: MonitorBench) -> None:
    monitor = await quick.make()
    ratings = {"alike": [9.0] * 8, "one-low": [9.0] * 7 + [1.0]}
    for system, own in ratings.items():
        names = [f"{system}-{number}" for number in range(len(own))]
        quick.live.close(*(replace(make_live(name), system=system) for name in names))
        await quick.work.do_round()
        await quick.score(dict(zip(names, own, strict=True)))
        await quick.work.do_round()
    found = {one.system: one.aspects["overall"].interval for one in await windows_of(quick, monitor.id)}
    assert found["alike"] is None
    assert found["one-low"] is not None
    assert 1 <= found["one-low"][0] < 8 < found["one-low"][1] <= 9


async def test_a_rate_of_zero_judges_nothing_and_rules_still_look(quick: MonitorBench) -> None:
    monitor = await quick.make(rate=0.0)
    quick.live.close(make_live("a", SAME, SAME))
    await quick.work.do_round()
    (window,) = await windows_of(quick, monitor.id)
    assert (window.run, window.sampled, window.findings) == (None, 0, {"repetition": 50.0})
    assert await quick.batches.list(PROJECT, BatchFilter(), after=None, limit=9) == []


async def test_a_filter_that_nothing_matches_sees_nothing_and_holds_nothing_up(quick: MonitorBench) -> None:
    monitor = await quick.make(filter={"service.name": "nobody", "tier": "x"})
    quick.live.close(make_live("a"), make_live("b", attributes={"tier": "y"}))
    await quick.work.do_round()
    assert (await results(quick, monitor.id), await windows_of(quick, monitor.id)) == ([], [])
    assert sorted(quick.live.finished) == ["a", "b"]
    assert await quick.batches.list(PROJECT, BatchFilter(), after=None, limit=9) == []


async def test_what_no_judge_can_read_is_said(quick: MonitorBench) -> None:
    monitor = await quick.make()
    quick.live.close(make_live("mute", turns=()), make_live("blank", "\u200b"))
    await quick.work.do_round()
    assert {one.outcome for one in await results(quick, monitor.id)} == {"unreadable"}


async def test_texts_that_are_too_long_are_cut(quick: MonitorBench) -> None:
    monitor = await quick.make()
    quick.live.close(make_live("long", "あ" * 9_000 + "\x00"))
    await quick.work.do_round()
    (found,) = await results(quick, monitor.id)
    ((_, candidate),) = await quick.batches.candidates(found.run or "", after=-1, limit=9)
    assert len(candidate.response) == 8_000


async def test_a_run_that_was_erased_is_followed_by_another(quick: MonitorBench) -> None:
    monitor = await quick.make()
    quick.live.close(make_live("a"))
    await quick.work.do_round()
    (found,) = await results(quick, monitor.id)
    await quick.batches.erase(PROJECT, found.run or "")
    quick.live.close(make_live("b"))
    await quick.work.do_round()
    again = {one.conversation: one for one in await results(quick, monitor.id)}
    assert again["a"].status == "gone"
    assert again["b"].run != found.run
    assert await quick.score() == 1


async def test_a_budget_for_a_judge_without_a_price_is_refused(quick: MonitorBench) -> None:
    with pytest.raises(PriceUnknown):
        await quick.make(budget_usd_per_day=1, judge={"model": "unpriced"})
    monitor = await quick.make(judge={"model": "unpriced"})
    with pytest.raises(PriceUnknown):
        await quick.service.change(PROJECT, monitor.id, MonitorChange(budget_usd_per_day=1))
    assert (await quick.service.show(PROJECT, monitor.id)).version == 1


async def test_changes_of_two_callers_at_a_time_are_both_kept(bench: MonitorBench) -> None:
    monitor = await bench.make()
    changes = [MonitorChange(rate=0.25), MonitorChange(max_turns=20), MonitorChange(redact=("name",))]
    await asyncio.gather(*(bench.service.change(PROJECT, monitor.id, one) for one in changes))
    found = await bench.service.show(PROJECT, monitor.id)
    assert (found.version, found.options.rate, found.options.max_turns) == (4, 0.25, 20)
    rules = bench.live.rules[PROJECT]
    assert (rules.max_turns, rules.redact) == (20, ("name",))


async def test_a_change_is_a_new_version_and_another_rubric_begins_new_runs(bench: MonitorBench) -> None:
    monitor = await bench.make()
    bench.live.close(make_live("a"))
    await bench.work.do_round()
    changed = await bench.service.change(PROJECT, monitor.id, MonitorChange(rate=0.5))
    assert (changed.version, changed.options.rate, changed.options.name) == (2, 0.5, "live")
    changed = await bench.service.change(PROJECT, monitor.id, MonitorChange(rate=1.0, rubric="ja-conversation@1"))
    assert (changed.version, changed.options.rubric) == (3, "ja-conversation@1")
    bench.live.close(make_live("b"))
    await bench.work.do_round()
    runs = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=9)
    assert sorted((one.rubric_name, one.counts.total) for one in runs) == [
        ("ja-conversation@1", 1),
        ("ja-conversation@2", 1),
    ]


async def test_a_projects_conversations_are_read_as_all_its_monitors_need(quick: MonitorBench) -> None:
    first = await quick.make(idle_seconds=60, filter={"tier": "free", "service.name": "bot"}, redact=["email"])
    await quick.make(idle_seconds=600, max_turns=50, redact=["name"])
    rules = quick.live.rules[PROJECT]
    assert (rules.idle_seconds, rules.max_turns, rules.redact) == (600, 50, ("email", "name"))
    assert rules.attributes == ("tier",)
    await quick.service.remove(PROJECT, first.id)
    assert quick.live.rules[PROJECT].attributes == ()
    with pytest.raises(NotFound):
        await quick.service.find(PROJECT, first.id)


async def test_what_cannot_be_monitored_is_refused(quick: MonitorBench) -> None:
    with pytest.raises(UnknownRubric):
        await quick.make(rubric="none")
    with pytest.raises(InvalidRequest):
        await quick.make(rubric="ja-dialogue")
    with pytest.raises(InvalidRequest) as refused:
        await quick.make(alarm={"aspects": ["overall", "charm"]})
    assert refused.value.pointer == "/alarm/aspects/1"


async def test_another_projects_monitor_is_not_there(quick: MonitorBench) -> None:
    monitor = await quick.make()
    for asked in (quick.service.find("other", monitor.id), quick.service.remove("other", monitor.id)):
        with pytest.raises(NotFound):
            await asked


async def test_an_erased_conversation_is_gone_from_runs_rows_and_what_is_to_be_sent(bench: MonitorBench) -> None:
    monitor = await bench.make(send_to=[{"kind": "phoenix", "url": "http://sink.example"}])
    bench.live.close(
        make_live("a", attributes={"user.id": "u-1"}), make_live("b", attributes={"user.id": "u-2"}), make_live("c")
    )
    await bench.work.do_round()
    await bench.score()
    await bench.work.do_round()
    erased = await TextStore(bench.engine, clock=bench.clock).erase_marked(PROJECT, {"user.id": "u-1"})
    assert erased.candidates == 1
    await TextStore(bench.engine, clock=bench.clock).erase_marked(PROJECT, {"conversation": "c"})
    assert [one.conversation for one in await results(bench, monitor.id)] == ["b"]
    assert [one.count for one in await bench.outbox.backlog(bench.clock())] == [1]
    (run,) = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=10)
    kept = [candidate for _, candidate in await bench.batches.candidates(run.id, after=-1, limit=9)]
    assert [one.metadata.get("conversation") for one in kept] == [None, "b", None]


async def test_the_runs_of_a_monitor_that_is_gone_end_with_what_is_in_them(bench: MonitorBench) -> None:
    monitor = await bench.make()
    bench.live.close(make_live("a"))
    await bench.work.do_round()
    await bench.service.remove(PROJECT, monitor.id)
    await bench.score()
    (run,) = await bench.batches.list(PROJECT, BatchFilter(), after=None, limit=10)
    assert (run.status, run.counts.scored) == ("completed", 1)
    await bench.work.do_round()


@pytest.mark.parametrize(("price", "most"), [(0.25, 3), (None, 0)])
async def test_a_budget_thins_the_sample_and_says_so(
    bench: MonitorBench, monkeypatch: pytest.MonkeyPatch, price: float | None, most: int
) -> None:
    """Of what is priced so much in advance, and costs so much, no more than the budget has room for is ever sampled."""
    monkeypatch.setattr(work, "quote", lambda *_: Quote(1, 100, price))
    monitor = await bench.make(budget_usd_per_day=1.0)
    for first in range(0, 40, 10):
        bench.live.close(*(make_live(f"c-{number}") for number in range(first, first + 10)))
        await bench.work.do_round()
        await bench.score()
        await bench.work.do_round()
    outcomes = Counter(one.outcome for one in await results(bench, monitor.id))
    assert bool(most) <= outcomes["sampled"] <= most
    assert outcomes["sampled"] + outcomes["thinned"] == 40
    (window,) = await windows_of(bench, monitor.id)
    assert window.thinned == outcomes["thinned"]
    found = (await bench.service.find(PROJECT, monitor.id)).monitor
    assert (found.thinning > 0) == bool(most)
    # The next day begins with the whole sample again.
    bench.clock.move(86_400)
    assert (await bench.service.find(PROJECT, monitor.id)).monitor.thinning == 0


async def test_one_that_cannot_be_read_holds_up_no_other(
    quick: MonitorBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(live: LiveConversation, *_: object) -> Counter[str]:
        if live.name == "poison":
            raise RecursionError
        return Counter()

    monkeypatch.setattr(work, "find_live_faults", read)
    monitor = await quick.make()
    quick.live.close(make_live("a"), make_live("poison"), make_live("b"))
    await quick.work.do_round()
    assert {one.conversation for one in await results(quick, monitor.id)} == {"a", "b"}
    assert len(quick.live.finished) == 3
    assert "cannot be taken in" in caplog.text
