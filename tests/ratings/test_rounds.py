"""Rounds of human ratings: what is drawn, what a rater sees, and what is kept of what the rater said."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import nan
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import Candidate, Entry
from saiten_server.core.dialogue import Limits, Utterance
from saiten_server.core.errors import InvalidRequest, NotFound, StoreFull, UnknownAspect, UnknownRubric
from saiten_server.core.evaluation import AspectResult, Evaluation, PathResult, Paths
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.sql.engine import write
from saiten_server.platform.sql.tables import batch_items
from saiten_server.ratings.choice import Spreads
from saiten_server.ratings.reliability import fetch_ratings
from saiten_server.ratings.rounds.service import RatingKeeper, RoundService
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.values import (
    Exclusion,
    HumanRating,
    OwnRating,
    RatingFilter,
    RatingRound,
    RatingsAdded,
    RatingSheet,
    RoundOptions,
    RoundRequest,
    StoredExclusion,
    StoredRating,
)
from saiten_server.runs.result import Result
from saiten_server.runs.store.rows import read_result
from tests.support.bench import Bench, build_bench
from tests.support.fake_rubrics import FakeRubrics, small_rubric
from tests.support.faults import said, words
from tests.support.records import make_record
from tests.support.scored_batches import RUBRIC, score_batch

COUNT = 12
COLUMNS = {"warmth": [0, 1] * 6, "clarity": [1, 2, 3] * 4}
VALUES: dict[str, float] = {"warmth": 1, "clarity": 3}


@dataclass
class Rounds:
    """The service of rounds, with the bench that its ratings go to."""

    service: RoundService
    bench: Bench

    async def open(self, batch_id: str = "ba_1", **options: Any) -> RatingRound:
        return await self.service.open("team", batch_id, RoundOptions(**{"name": "人手評価", **options}))

    async def next(self, rater: str = "甲", round_id: str = "rr_1") -> RatingSheet:
        """The rater's next response, which there has to be."""
        sheet = await self.service.next("team", round_id, rater)
        assert sheet is not None
        return sheet

    async def kept(self, **wanted: Any) -> list[StoredRating]:
        found = await self.bench.rating.list_ratings("team", RatingFilter(**wanted), after=-1, limit=1000)
        return [rating for _, rating in found]


def build(bench: Bench, *, ratings: RatingKeeper | None = None, **more: Any) -> Rounds:
    numbers = count(1)
    service = RoundService(
        batches=bench.batches,
        rounds=RoundStore(bench.engine),
        ratings=ratings or bench.rating,
        rubrics=FakeRubrics([RUBRIC]),
        now=bench.now,
        new_id=lambda: f"rr_{next(numbers)}",
        **more,
    )
    return Rounds(service, bench)


async def rate_all(rounds: Rounds, round_id: str) -> set[int]:
    """One rater rates all of the round; the positions."""
    found = set[int]()
    while (sheet := await rounds.service.next("team", round_id, "甲")) is not None:
        await rounds.service.rate("team", round_id, "甲", sheet.task.position, VALUES)
        found.add(sheet.task.position)
    return found


@pytest.fixture
async def rounds(bench: Bench) -> Rounds:
    made = build(bench)
    await score_batch(made.bench.batches, "ba_1", COLUMNS, fail=[3, 7])
    return made


class FullKeeper:
    """Keeps nothing."""

    async def keep_ratings(self, project: str, ratings: Sequence[HumanRating]) -> RatingsAdded:
        raise StoreFull(words("the store is full"))

    async def list_ratings(self, *_: Any, **__: Any) -> list[tuple[int, StoredRating]]:
        return []

    async def exclude(self, *_: Any) -> bool:
        return True

    async def exclusions(self, *_: Any) -> list[StoredExclusion]:
        return []


async def positions_of(rounds: Rounds, round_id: str = "rr_1") -> set[int]:
    """All that one rater gets."""
    found = set[int]()
    while (sheet := await rounds.service.next("team", round_id, "everything")) is not None:
        found.add(sheet.task.position)
        await rounds.service.rate("team", round_id, "everything", sheet.task.position, VALUES)
    return found


# Opening


async def test_a_round_draws_what_was_scored(rounds: Rounds) -> None:
    opened = await rounds.open(items=100)
    assert opened == RatingRound(
        id="rr_1",
        batch="ba_1",
        options=RoundOptions(name="人手評価", items=100),
        drawn=COUNT - 2,
        created_at=rounds.bench.now.now,
    )
    assert await rounds.service.find("team", "rr_1") == opened
    assert await rounds.service.list("team") == await rounds.service.list("team", "ba_1") == [opened]
    assert await positions_of(rounds) == {*range(COUNT)} - {3, 7}


async def test_the_seed_says_what_is_drawn(rounds: Rounds) -> None:
    for seed in (0, 0, 1):
        assert (await rounds.open(items=4, seed=seed)).drawn == 4
    first, again, other = [await positions_of(rounds, f"rr_{number}") for number in (1, 2, 3)]
    assert first == again != other


def look_at(aspect: AspectResult, difference: float | None = None) -> Evaluation:
    evaluation = make_record().evaluation
    signature = evaluation.signature
    paths = PathResult(aspects={}, composites={}, relevance=None, signature=signature)
    both = Paths(source=paths, english=paths, difference={"clarity": difference}, translation_sensitive=False)
    return evaluation.model_copy(update={"aspects": {"clarity": aspect}, "paths": both})


def test_spreads_are_shares_of_the_scale() -> None:
    """Clarity runs from 1 to 3."""
    clarity = AspectResult(rating=3, scale=(1, 3), label="", samples=(3, 2), mean=2.5, sd=0.5, expected=2.8)
    spreads = Spreads(3, [one for one in RUBRIC.aspects if one.id == "clarity"])
    other = look_at(clarity.model_copy(update={"samples": (3,), "expected": 1.5}))
    seen = [look_at(clarity, -1.0), other, None, other]
    results = [
        Result("ev_1", entry=Entry(position=at, item=f"{at}", candidate=None), evaluation=one)
        for at, one in enumerate(seen, 5)
    ]
    spreads.add({5: 0, 6: 1, 7: 2}, results)
    found = {name: column.tolist() for name, column in spreads.columns().items()}
    assert found == {
        "samples": [[0.25], [pytest.approx(nan, nan_ok=True)], [pytest.approx(nan, nan_ok=True)]],
        # 0.8 · 0.2 is the least variance of whole numbers with the mean 2.8; the rating is 1.5 from 1.5.
        "expected": [[pytest.approx(0.2)], [0.75], [pytest.approx(nan, nan_ok=True)]],
        "paths": [[pytest.approx(0.5**0.5 / 2)], [pytest.approx(nan, nan_ok=True)], [pytest.approx(nan, nan_ok=True)]],
    }


async def test_results_are_read_beside_the_event_loop(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[Thread]()

    def look(row: Any, **known: Any) -> Result:
        threads.add(current_thread())
        return read_result(row, **known)

    monkeypatch.setattr("saiten_server.runs.store.batches.read_result", look)
    assert len(await rounds.bench.batches.results("team", "ba_1", after=-1, limit=100)) == COUNT
    assert threads
    assert main_thread() not in threads


async def test_responses_on_which_judges_differ_are_drawn_more_often(rounds: Rounds) -> None:
    other = {**COLUMNS, "clarity": [1, 2, 1] * 4}
    await score_batch(rounds.bench.batches, "ba_2", other, fail=[11])
    opened = await rounds.open(items=5, choose="informative", judges=("ba_2",))
    assert (opened.drawn, opened.signals, opened.fell_back) == (5, ("judges",), False)
    drawn = {one.position: one.probability or 0 for one in await rounds.service.items("team", "rr_1")}
    assert await positions_of(rounds) == drawn.keys()
    again = await rounds.open(items=5, choose="informative", judges=("ba_2",))
    assert {one.position for one in await rounds.service.items("team", again.id)} == drawn.keys()
    everything = await rounds.open(items=50, choose="informative", judges=("ba_2",))
    assert {one.probability for one in await rounds.service.items("team", everything.id)} == {1.0}
    few = await rounds.open(items=1, choose="informative", judges=("ba_2",), seed=3)
    assert few.drawn == 1
    apart = {position: one for position, one in drawn.items() if position % 3 == 2}
    alike = {position: one for position, one in drawn.items() if position % 3 != 2}
    assert not alike or min(apart.values(), default=1) > max(alike.values())
    with pytest.raises(NotFound, match="no batch ba_none"):
        await rounds.open(choose="informative", judges=("ba_none",))


async def test_without_a_signal_an_informative_round_draws_at_random_and_says_so(rounds: Rounds) -> None:
    opened = await rounds.open(items=4, choose="informative")
    assert (opened.drawn, opened.signals, opened.fell_back) == (4, (), True)
    assert [one.probability for one in await rounds.service.items("team", "rr_1")] == [0.4] * 4
    assert not (await rounds.open(items=4)).fell_back


async def test_a_round_of_the_worst_takes_the_lowest_ratings_and_is_left_out_of_figures(rounds: Rounds) -> None:
    opened = await rounds.open(choose="worst", aspect="clarity", items=3)
    drawn = [one.position for one in await rounds.service.items("team", opened.id)]
    assert drawn == [0, 6, 9]  # of clarity 1 there is 3 too, which failed
    assert not opened.is_sample
    assert [one.round for one in await rounds.bench.rating.exclusions("team")] == [opened.id]
    with pytest.raises(InvalidRequest) as refused:
        await rounds.bench.rating.include("team", Exclusion(round=opened.id))
    assert refused.value.message.id == "round-not-a-sample"
    await score_batch(rounds.bench.batches, "ba_2", COLUMNS)
    with pytest.raises(InvalidRequest) as refused:
        await rounds.open("ba_2", shared_with=opened.id)
    assert refused.value.message.id == "round-draws-other"


async def test_what_was_drawn_counts_though_it_was_also_chosen(rounds: Rounds) -> None:
    """Else the sample would lack just the worst, and its mean be too high."""
    worst = await rounds.open(choose="worst", aspect="clarity", items=3)
    await rate_all(rounds, worst.id)
    sample = await rounds.open(items=10)
    drawn = await rate_all(rounds, sample.id)
    assert len(drawn) == 10
    found = await fetch_ratings(rounds.bench.store, "team", ["ba_1"])
    assert found.used.counted == 10
    assert {one.round for one in found.draws} == {sample.id}


async def test_a_stratified_round_draws_of_every_level(rounds: Rounds) -> None:
    columns = {"warmth": [0] * 20, "clarity": [3] * 18 + [1, 2]}
    await score_batch(rounds.bench.batches, "ba_2", columns)
    opened = await rounds.open("ba_2", items=6, choose="stratified", aspect="clarity")
    drawn = {one.position: one.probability for one in await rounds.service.items("team", opened.id)}
    assert (drawn[18], drawn[19], len(drawn)) == (1.0, 1.0, 6)
    assert {one for position, one in drawn.items() if position < 18} == {4 / 18}
    with pytest.raises(UnknownAspect):
        await rounds.open("ba_2", choose="stratified", aspect="mood")


@pytest.mark.parametrize(
    "wrong",
    [
        {"items": 0},
        {"items": -3},
        {"choose": "best"},
        {"judges": ["ba_2"]},
        {"aspect": "clarity"},
        {"batches": ["ba_1"]},
    ],
)
def test_rounds_are_not_opened_by_such_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocument) as caught:
        validate(RoundRequest, {"batch": "ba_1", "name": "a", **wrong}, Limits())
    assert [where for where, _ in caught.value.faults] == [f"/{name}" for name in wrong]


async def test_rounds_of_what_is_not_there_are_not_opened(rounds: Rounds) -> None:
    with pytest.raises(NotFound):
        await rounds.open("ba_none")
    with pytest.raises(NotFound):
        await rounds.service.open("rivals", "ba_1", RoundOptions(name="a"))
    await score_batch(rounds.bench.batches, "ba_failed", {"warmth": [0, 0]}, fail=[0, 1])
    with pytest.raises(InvalidRequest, match="no response of this batch has been scored"):
        await rounds.open("ba_failed")
    await score_batch(rounds.bench.batches, "ba_gone", {"warmth": [0, 0]}, rubric="gone")
    with pytest.raises(UnknownRubric):
        await rounds.open("ba_gone")
    assert await rounds.service.list("team") == []


async def test_a_round_of_another_project_is_none(rounds: Rounds) -> None:
    await rounds.open()
    sheet = await rounds.next()
    with pytest.raises(NotFound):
        await rounds.service.find("rivals", "rr_1")
    with pytest.raises(NotFound):
        await rounds.service.close("rivals", "rr_1")
    with pytest.raises(NotFound):
        await rounds.service.next("rivals", "rr_1", "甲")
    with pytest.raises(NotFound):
        await rounds.service.sheet("rivals", "rr_1", "甲", 0)
    with pytest.raises(NotFound):
        await rounds.service.rate("rivals", "rr_1", "甲", sheet.task.position, VALUES)
    assert await rounds.service.list("rivals") == []
    assert await rounds.service.progress("rivals", ["rr_1"]) == {}
    assert await rounds.kept() == []


async def test_a_closed_round_gives_nothing_out(rounds: Rounds) -> None:
    await rounds.open()
    sheet = await rounds.next()
    assert (await rounds.service.close("team", "rr_1")).closed_at == rounds.bench.now.now
    assert await rounds.service.next("team", "rr_1", "甲") is None
    assert await rounds.service.next("team", "rr_1", "乙") is None
    # Whoever has a response before them is not turned away.
    await rounds.service.rate("team", "rr_1", "甲", sheet.task.position, VALUES)
    assert (await rounds.service.progress("team", ["rr_1"]))["rr_1"].raters == {"甲": 1}


async def test_a_round_of_an_erased_batch_is_gone(rounds: Rounds) -> None:
    await rounds.open()
    await rounds.next()
    await rounds.bench.batches.erase("team", "ba_1")
    with pytest.raises(NotFound):
        await rounds.service.next("team", "rr_1", "甲")
    with pytest.raises(NotFound):
        await rounds.service.sheet("team", "rr_1", "甲", 0)


# What a rater sees


async def test_a_sheet_shows_context_response_and_rubric(rounds: Rounds) -> None:
    await rounds.open()
    sheet = await rounds.next()
    assert [said.text for said in sheet.context] == [f"Hello, item-{sheet.task.position}"]
    assert sheet.response == "Hi"
    assert sheet.rubric == RUBRIC
    assert (sheet.task.number, sheet.task.of, sheet.task.done, sheet.earlier) == (0, COUNT - 2, False, None)


async def test_a_sheet_is_blind(bench: Bench) -> None:
    rounds = build(bench)
    await score_batch(
        rounds.bench.batches,
        "ba_secret",
        COLUMNS,
        systems=["SECRET-system"] * COUNT,
        metadata={"build": "SECRET-build"},
        entries=[(f"SECRET-item-{number}", number) for number in range(COUNT)],
    )
    said = (Utterance(speaker="甲", text="おはよう"),)
    marks = {"system": "SECRET-system", "build": "SECRET-build"}
    candidate = Candidate(context=said, response="返事", reference=("SECRET-reference",), metadata=marks)
    async with write(bench.engine) as connection:
        await connection.execute(update(batch_items).values(request=candidate.model_dump_json()))
    await rounds.open("ba_secret", raters_per_item=9)
    for rater in ("SECRET-rater", "乙"):
        for value in (0, 1):
            sheet = await rounds.next(rater)
            given = {"warmth": value, "clarity": 2}
            await rounds.service.rate("team", "rr_1", rater, sheet.task.position, given, comment=f"SECRET of {rater}")
    first = await rounds.bench.batches.find_evaluation("team", "ba_secret", 0)
    assert first is not None
    sheets = [await rounds.next("丙"), *[await rounds.service.sheet("team", "rr_1", "丙", 0)]]
    for sheet in sheets:
        text = sheet.model_dump_json()
        assert "SECRET" not in text.upper()
        assert first.removesuffix("0") not in text
        told = sheet.model_dump()
        assert set(told) == {"task", "context", "response", "rubric", "conversation", "earlier"}
        assert set(told["task"]) == {"number", "of", "position", "done"}
        assert told["rubric"] == RUBRIC.model_dump()
        assert told["earlier"] is None
    own = await rounds.service.sheet("team", "rr_1", "乙", 0)
    assert own.earlier == OwnRating(ratings={"warmth": 0, "clarity": 2}, comment="SECRET of 乙")


async def test_what_was_said_elsewhere_does_not_lead_the_rater(rounds: Rounds) -> None:
    scored = await rounds.bench.batches.results("team", "ba_1", after=-1, limit=100)
    earlier = [
        HumanRating(evaluation=one.evaluation.id, rater="甲", ratings={"warmth": 0})
        for one in scored
        if one.evaluation is not None
    ]
    await rounds.bench.rating.keep_ratings("team", earlier)
    await rounds.open()
    assert (await rounds.next()).earlier is None


async def test_a_rater_goes_back_to_an_earlier_response_and_changes_it(rounds: Rounds) -> None:
    await rounds.open()
    first = await rounds.next()
    await rounds.service.rate("team", "rr_1", "甲", first.task.position, {"warmth": 0, "clarity": 1}, comment="硬い")
    second = await rounds.next()
    assert second.task.number == 1
    back = await rounds.service.sheet("team", "rr_1", "甲", 0)
    assert (back.response, back.task.position, back.task.done) == (first.response, first.task.position, True)
    assert back.earlier == OwnRating(ratings={"warmth": 0, "clarity": 1}, comment="硬い")
    await rounds.service.rate("team", "rr_1", "甲", first.task.position, VALUES)
    assert [(one.ratings, one.comment) for one in await rounds.kept()] == [(VALUES, None)]
    assert (await rounds.next()).task == second.task
    for rater, number in (("甲", 2), ("甲", -1), ("乙", 0)):
        with pytest.raises(NotFound):
            await rounds.service.sheet("team", "rr_1", rater, number)


# Rating


async def test_a_rating_is_kept_of_the_evaluation(rounds: Rounds) -> None:
    await rounds.open()
    position = (await rounds.next()).task.position
    await rounds.service.rate("team", "rr_1", "甲", position, {"clarity": 2, "warmth": 0.5}, comment="  自然。\n ")
    assert await rounds.kept() == [
        StoredRating(
            evaluation=f"ev_ba_1_{position}",
            rater="甲",
            ratings={"warmth": 0.5, "clarity": 2},
            comment="自然。",
            created_at=rounds.bench.now.now,
        )
    ]
    progress = (await rounds.service.progress("team", ["rr_1"]))["rr_1"]
    assert (progress.ratings, progress.wanted, progress.raters) == (1, 30, {"甲": 1})


@pytest.mark.parametrize(
    ("ratings", "faults"),
    [
        ({"warmth": 1}, [("/ratings/clarity", "is missing: every aspect is to be rated")]),
        ({"warmth": 2, "clarity": 3}, [("/ratings/warmth", "2 is off its scale from 0 to 1")]),
        ({"warmth": float("nan"), "clarity": 3}, [("/ratings/warmth", "nan is off its scale from 0 to 1")]),
        ({"warmth": 1, "clarity": float("-inf")}, [("/ratings/clarity", "-inf is off its scale from 1 to 3")]),
        ({**VALUES, "a/b": 1}, [("/ratings/a~1b", "is not a requested aspect")]),
        ({}, [(f"/ratings/{name}", "is missing: every aspect is to be rated") for name in ("warmth", "clarity")]),
    ],
)
async def test_every_aspect_is_to_be_rated_on_its_scale(
    rounds: Rounds, ratings: dict[str, float], faults: list[tuple[str, str]]
) -> None:
    await rounds.open()
    sheet = await rounds.next()
    with pytest.raises(InvalidDocument) as caught:
        await rounds.service.rate("team", "rr_1", "甲", sheet.task.position, ratings)
    assert said(caught.value.faults) == faults
    assert await rounds.kept() == []
    assert (await rounds.next()).task == sheet.task


async def test_composites_are_not_asked_for(sqlite_engine: AsyncEngine) -> None:
    rubric = small_rubric(composites=[{"id": "both", "kind": "mean", "of": ["warmth", "clarity"]}])
    rounds = build(build_bench(sqlite_engine, rubric))
    await score_batch(rounds.bench.batches, "ba_1", COLUMNS)
    await rounds.open()
    position = (await rounds.next()).task.position
    with pytest.raises(InvalidDocument) as caught:
        await rounds.service.rate("team", "rr_1", "甲", position, {**VALUES, "both": 2})
    assert [where for where, _ in caught.value.faults] == ["/ratings/both"]
    await rounds.service.rate("team", "rr_1", "甲", position, VALUES)


async def test_nobody_rates_what_they_were_not_given(rounds: Rounds) -> None:
    await rounds.open()
    position = (await rounds.next()).task.position
    for rater, other in (("乙", position), ("甲", (position + 1) % COUNT), ("甲", 3), ("甲", 10**6)):
        with pytest.raises(InvalidRequest) as caught:
            await rounds.service.rate("team", "rr_1", rater, other, VALUES)
        assert caught.value.pointer == "/position"
    assert await rounds.kept() == []


@pytest.mark.parametrize("comment", [None, "", " \n\t"])
async def test_a_blank_comment_is_none(rounds: Rounds, comment: str | None) -> None:
    await rounds.open()
    await rounds.service.rate("team", "rr_1", "甲", (await rounds.next()).task.position, VALUES, comment=comment)
    assert [one.comment for one in await rounds.kept()] == [None]


async def test_a_comment_that_is_too_long_is_refused(rounds: Rounds) -> None:
    await rounds.open()
    position = (await rounds.next()).task.position
    with pytest.raises(InvalidDocument) as caught:
        await rounds.service.rate("team", "rr_1", "甲", position, VALUES, comment="長" * 2001)
    assert [where for where, _ in caught.value.faults] == ["/comment"]
    assert await rounds.kept() == []


async def test_a_rating_that_was_not_kept_is_not_done(bench: Bench) -> None:
    rounds = build(bench, ratings=FullKeeper())
    await score_batch(bench.batches, "ba_1", COLUMNS)
    await rounds.open()
    sheet = await rounds.next()
    with pytest.raises(StoreFull):
        await rounds.service.rate("team", "rr_1", "甲", sheet.task.position, VALUES)
    assert await rounds.next() == sheet
    assert (await rounds.service.progress("team", ["rr_1"]))["rr_1"].ratings == 0


# Raters


@pytest.mark.parametrize("written", [" 山田 ", "\u3000山田", "山田\n", "山田"])
async def test_spaces_around_a_name_do_not_count(rounds: Rounds, written: str) -> None:
    await rounds.open()
    sheet = await rounds.next("山田")
    assert await rounds.next(written) == sheet
    await rounds.service.rate("team", "rr_1", written, sheet.task.position, VALUES)
    assert (await rounds.service.sheet("team", "rr_1", written, 0)).task.done
    assert [one.rater for one in await rounds.kept()] == ["山田"]


@pytest.mark.parametrize("rater", ["", "  ", "a\nb", "a\0", "\ud800", "名" * 129, "\u200b"])
async def test_what_is_no_name_is_refused_at_its_place(rounds: Rounds, rater: str) -> None:
    await rounds.open()
    calls = [
        rounds.service.next("team", "rr_1", rater),
        rounds.service.sheet("team", "rr_1", rater, 0),
        rounds.service.rate("team", "rr_1", rater, 0, VALUES),
    ]
    for call in calls:
        with pytest.raises(InvalidDocument) as caught:
            await call
        assert [where for where, _ in caught.value.faults] == ["/rater"]


async def test_the_operator_bounds_a_name(bench: Bench) -> None:
    rounds = build(bench, limits=Limits(item_id_characters=200))
    await score_batch(rounds.bench.batches, "ba_1", COLUMNS)
    await rounds.open()
    await rounds.next("名" * 200)
    with pytest.raises(InvalidDocument):
        await rounds.next("名" * 201)


# All of it


async def test_a_round_from_its_opening_to_its_end(bench: Bench) -> None:
    rounds = build(bench)
    service = rounds.service
    await score_batch(bench.batches, "ba_1", COLUMNS, fail=[3])
    opened = await rounds.open(items=5, raters_per_item=2, seed=7)
    seen = dict[str, list[int]]()
    for rater in ("甲", "乙", "丙"):
        while (sheet := await service.next("team", "rr_1", rater)) is not None:
            assert sheet.context[0].text == f"Hello, item-{sheet.task.position}"
            await service.rate("team", "rr_1", rater, sheet.task.position, VALUES, comment=rater)
            seen.setdefault(rater, []).append(sheet.task.position)
    assert opened.drawn == 5
    assert set(seen) == {"甲", "乙"}
    assert set(seen["甲"]) == set(seen["乙"])
    assert 3 not in seen["甲"]
    told = (await service.progress("team", ["rr_1"]))["rr_1"]
    assert (told.ratings, told.wanted, told.complete, told.raters) == (10, 10, 5, {"乙": 5, "甲": 5})
    assert [one.evaluation for one in await rounds.kept(rater="甲")] == [
        f"ev_ba_1_{position}" for position in seen["甲"]
    ]
    back = await service.sheet("team", "rr_1", "乙", 4)
    assert back.earlier == OwnRating(ratings=VALUES, comment="乙")
    await bench.batches.erase("team", "ba_1")
    with pytest.raises(NotFound):
        await service.find("team", "rr_1")
