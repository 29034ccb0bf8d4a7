"""Preferences of people, on each database."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import ProjectPolicy
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.evaluation import Choice
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import PolicyStore
from saiten_server.preferences.human.store import HumanPreferenceStore
from saiten_server.preferences.human.values import (
    HumanPreference,
    KeptOpinion,
    NamedPair,
    PreferenceFilter,
    PreferencesAdded,
)
from saiten_server.preferences.values import ShownPair
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import DrawnPair, Exclusion, PairOptions, RatingRound, RoundDraw, RoundSide
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import START, make_batch
from tests.support.stored_sizes import list_drift

ALL = PreferenceFilter()
LATER = START + timedelta(days=40)


@pytest.fixture
def store(engine: AsyncEngine) -> HumanPreferenceStore:
    return HumanPreferenceStore(engine)


def said(rater: str = "甲", preference: Choice = "first", **changes: Any) -> KeptOpinion:
    given = {
        "context": ["週末は？"],
        "first": {"response": "海です。", "id": "波"},
        "second": {"response": "はい", "id": "凪"},
        "rater": rater,
        "preference": preference,
        **changes,
    }
    return KeptOpinion(HumanPreference.model_validate_json(json.dumps(given)))


def of_pair(
    pair: str, first: RoundSide, second: RoundSide, rater: str = "甲", preference: Choice = "first"
) -> KeptOpinion:
    given = HumanPreference(pair=pair, rater=rater, preference=preference)
    return KeptOpinion(given, NamedPair(first, second, (3, 5), "rr_1"))


async def open_round(engine: AsyncEngine, *, project: str = "team") -> None:
    """A round of two pairs of ba_1 with ba_2, and one of ba_2 with ba_3."""
    for number in (1, 2, 3):
        await make_batch(BatchStore(engine), f"ba_{number}", 10)
    pairs = [
        DrawnPair(RoundSide("ba_1", 4), RoundSide("ba_2", 4)),
        DrawnPair(RoundSide("ba_2", 1), RoundSide("ba_3", 1)),
        DrawnPair(RoundSide("ba_1", 7), RoundSide("ba_2", 7)),
    ]
    options = PairOptions(kind="preference", runs=("ba_1", "ba_2", "ba_3"), name="比較", items=3, raters_per_item=2)
    opened = RatingRound(id="rr_1", batch="ba_1", options=options, drawn=3, created_at=START)
    await RoundStore(engine).open_round(project, opened, RoundDraw(range(3), [0.25] * 3, pairs=pairs))
    found = await RoundStore(engine).find_round(project, "rr_1")
    assert found == opened


async def test_later_preferences_replace_earlier_ones(store: HumanPreferenceStore, engine: AsyncEngine) -> None:
    kept = await store.keep("team", [said("甲"), said("乙", "tie")], START)
    assert kept == PreferencesAdded(added=2, replaced=0)
    assert await store.keep("team", [said("甲", "second")], LATER) == PreferencesAdded(added=0, replaced=1)
    found, _ = await store.list("team", ALL, after=-1, limit=9)
    assert [(one.rater, one.preference, one.created_at) for one in found] == [
        ("乙", "tie", START),
        ("甲", "second", LATER),
    ]
    assert await store.list("rivals", ALL, after=-1, limit=9) == ([], None)
    assert await list_drift(engine) == {}


async def test_what_no_column_holds_is_refused_at_its_number(store: HumanPreferenceStore) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.keep("team", [said(), KeptOpinion(said().given.model_copy(update={"rater": "\0"}))], START)
    assert refused.value.pointer == "1"
    assert await store.list("team", ALL, after=-1, limit=9) == ([], None)


async def test_rankings_see_what_was_shown(store: HumanPreferenceStore) -> None:
    two = [said("甲", shown=["second", "first"]), said("乙", simulated=True), said("丙", "tie", dialogue="海")]
    nameless = said("甲", first={"response": "山です。"})
    await store.keep("team", [*two, nameless], START)
    first, second = await store.shown("team")
    assert first == ShownPair(
        item=first.item,
        cluster=first.item,
        first="凪",
        second="波",
        choice="second",
        rater="甲",
        first_length=2,
        second_length=4,
    )
    assert (second.first, second.choice, second.cluster, second.item) == ("波", "tie", "海", first.item)
    assert await store.shown("team", ["ba_1"]) == await store.shown("rivals") == []


async def test_pairs_of_a_round_name_items_and_runs_and_excluded_raters_do_not_count(
    store: HumanPreferenceStore, engine: AsyncEngine
) -> None:
    await open_round(engine)
    pairs = await store.find_pairs("team", ["rr_1.0", "rr_1.1", "rr_1.9", "rr_2.0"])
    assert {name: (one.first, one.second, one.round) for name, one in pairs.items()} == {
        "rr_1.0": (("ba_1", 4), ("ba_2", 4), "rr_1"),
        "rr_1.1": (("ba_2", 1), ("ba_3", 1), "rr_1"),
    }
    assert await store.find_pairs("rivals", ["rr_1.0"]) == {}
    given = [
        of_pair("rr_1.0", RoundSide("ba_1", 4), RoundSide("ba_2", 4)),
        of_pair("rr_1.1", RoundSide("ba_2", 1), RoundSide("ba_3", 1), preference="tie"),
        of_pair("rr_1.0", RoundSide("ba_1", 4), RoundSide("ba_2", 4), rater="乙", preference="second"),
    ]
    await store.keep("team", given, START)
    shown = await store.shown("team", ["ba_1", "ba_2"])
    assert [(one.rater, one.first, one.second, one.choice) for one in shown] == [
        ("甲", "ba_1", "ba_2", "first"),
        ("乙", "ba_1", "ba_2", "second"),
    ]
    assert len(await store.shown("team", round_id="rr_1")) == 3
    assert (shown[0].first_length, shown[0].second_length) == (3, 5)
    ratings = RatingStore(engine)
    await ratings.exclude("team", Exclusion(rater="甲"), START)
    assert [one.rater for one in await store.shown("team", ["ba_1", "ba_2", "ba_3"])] == ["乙"]
    assert [each[1] for each in await store.of_round("team", "rr_1", limit=9)] == ["乙"]
    await ratings.exclude("team", Exclusion(round="rr_1"), START)
    assert await store.shown("team", ["ba_1", "ba_2", "ba_3"]) == []
    assert (await ratings.excluded("team")).rated == frozenset()


async def test_an_erased_run_takes_its_pairs_and_preferences_along(
    store: HumanPreferenceStore, engine: AsyncEngine
) -> None:
    await open_round(engine)
    rounds, batches = RoundStore(engine), BatchStore(engine)
    task = await rounds.take("team", "rr_1", "甲", START)
    assert task is not None
    await store.keep("team", [of_pair("rr_1.0", RoundSide("ba_1", 4), RoundSide("ba_2", 4))], START)
    await store.keep("team", [of_pair("rr_1.1", RoundSide("ba_2", 1), RoundSide("ba_3", 1))], START)
    assert await batches.erase("team", "ba_3")
    assert await list_drift(engine) == {}
    found = await rounds.find_round("team", "rr_1")
    assert found is not None
    assert found.drawn == 2
    assert [one.pair for one in await rounds.pairs("team", "rr_1")] == ["rr_1.0", "rr_1.2"]
    assert [one.pair for one in (await store.list("team", ALL, after=-1, limit=9))[0]] == ["rr_1.0"]
    assert (await rounds.progress("team", ["rr_1"]))["rr_1"].wanted == 4
    # Of the run that owns the round: the round goes.
    assert await batches.erase("team", "ba_1")
    assert await rounds.find_round("team", "rr_1") is None
    assert await store.list("team", ALL, after=-1, limit=9) == ([], None)
    assert await list_drift(engine) == {}
    with pytest.raises(NotFound) as refused:
        await store.keep("team", [of_pair("rr_1.0", RoundSide("ba_1", 4), RoundSide("ba_2", 4))], START)
    assert refused.value.pointer == "0"


async def test_what_is_compared_elsewhere_counts_in_the_round(store: HumanPreferenceStore, engine: AsyncEngine) -> None:
    await open_round(engine)
    rounds = RoundStore(engine)
    given = await rounds.take("team", "rr_1", "甲", START)
    assert given is not None
    names = [f"rr_1.{number}" for number in range(3)]
    pairs = await store.find_pairs("team", names)
    compared = [
        KeptOpinion(HumanPreference(pair=name, rater=rater, preference="tie", simulated=rater == "丙"), pairs[name])
        for name in (names[given.position], names[given.position - 1])
        for rater in ("甲", "乙", "丙")
    ]
    await store.keep("team", compared, LATER)
    await store.keep("team", compared[:1], LATER)
    progress = (await rounds.progress("team", ["rr_1"]))["rr_1"]
    assert (progress.ratings, progress.complete, progress.raters) == (4, 2, {"甲": 2, "乙": 2})
    assert [(task.number, task.done) for task in await rounds.tasks("team", "rr_1", "甲")] == [(0, True), (1, True)]
    left = await rounds.take("team", "rr_1", "甲", LATER)
    assert left is not None
    assert (left.number, left.position) == (2, 3 - given.position - (given.position - 1) % 3)


async def test_preferences_outlive_the_run_that_owned_their_round(
    store: HumanPreferenceStore, engine: AsyncEngine
) -> None:
    await open_round(engine)
    await store.keep("team", [of_pair("rr_1.1", RoundSide("ba_2", 1), RoundSide("ba_3", 1))], START)
    assert await BatchStore(engine).erase("team", "ba_1")
    ((kept,), _) = await store.list("team", ALL, after=-1, limit=9)
    assert (kept.pair, kept.round) == ("rr_1.1", None)
    assert len(await store.shown("team", ["ba_2", "ba_3"])) == 1
    assert await list_drift(engine) == {}


async def test_texts_go_with_the_projects_policy(store: HumanPreferenceStore, engine: AsyncEngine) -> None:
    await store.keep("team", [said("甲", reason="海の話"), said("乙")], START)
    before = (await store.shown("team"))[0].item
    texts = TextStore(engine, clock=lambda: LATER)
    policy = ProjectPolicy(texts="hash", after_days=30)
    await PolicyStore(engine).save_policy("team", policy, LATER)
    assert await texts.redact("team", "hash", LATER - timedelta(days=30), 1) == 1
    assert await texts.redact("team", "hash", LATER - timedelta(days=30), 9) == 1
    assert await texts.redact("team", "hash", LATER - timedelta(days=30), 9) == 0
    kept, _ = await store.list("team", ALL, after=-1, limit=9)
    assert [(one.context, one.first, one.reason, one.preference) for one in kept] == [
        (None, {"id": "波"}, None, "first")
    ] * 2
    shown = await store.shown("team")
    assert [one.first for one in shown] == ["波", "波"]
    assert shown[0].item == shown[1].item != before
    assert await list_drift(engine) == {}


async def test_removal_is_by_what_is_named(store: HumanPreferenceStore, engine: AsyncEngine) -> None:
    await store.keep("team", [said("甲"), said("乙")], START)
    with pytest.raises(InvalidRequest):
        await store.remove("team", ALL)
    assert await store.remove("team", PreferenceFilter(rater="甲")) == 1
    assert await store.remove("team", PreferenceFilter(run="ba_1")) == 0
    assert await store.remove("rivals", PreferenceFilter(rater="乙")) == 0
    assert await list_drift(engine) == {}
