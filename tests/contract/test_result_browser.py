"""Pages of a batch's results, sorted and filtered, on each database."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

import pytest
from sqlalchemy import event, update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import AspectResult, Warned
from saiten_server.platform.sql.tables import MOST_MEASURES, result_figures
from saiten_server.runs.result import ANY_ASPECT, ResultQuery
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.browsing import ResultBrowser
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from tests.support.batches import LEASE, START, C
from tests.support.records import make_record
from tests.support.scored_batches import rate

WARMTH = [1, 0, None, 1, 0, 1]
CLARITY = [3, 2, 2, None, 1, 3]


@dataclass
class Bench:
    store: BatchStore
    browser: ResultBrowser


@pytest.fixture(params=["sorted", "looked up"])
def bench(engine: AsyncEngine, request: pytest.FixtureRequest) -> Bench:
    """`looked up`: as pages of large batches are found."""
    browser = ResultBrowser(engine) if request.param == "sorted" else ResultBrowser(engine, most_sorted=0)
    return Bench(BatchStore(engine), browser)


def result(
    job: ChunkJob,
    entry: Entry,
    aspects: Mapping[str, AspectResult],
    *,
    composites: Mapping[str, float | None] | None = None,
    warnings: Sequence[str] = (),
    status: str = "scored",
    system: str | None = None,
) -> FinishedCandidate:
    changes: dict[str, Any] = {
        "aspects": dict(aspects),
        "composites": dict(composites or {}),
        "warnings": tuple(Warned(code=code, where="judge", detail="…") for code in warnings),
        "status": status,
        "metadata": {} if system is None else {"system": system},
    }
    return FinishedCandidate(job, entry, make_record(f"ev_{job.batch}_{entry.position}", **changes))


def pose(text: str, response: str = "返事") -> Candidate:
    return Candidate(context=(Utterance(speaker="甲", text=text),), response=response, metadata={"note": "付箋"})


async def take_in(store: BatchStore, candidates: Sequence[Candidate], batch_id: str = "ba_1", **options: Any) -> Any:
    """A batch whose one chunk is claimed."""
    await store.begin("team", batch_id, BatchOptions(**options), START)
    places = [Entry(position=place, item=f"Item-{place}", candidate=None) for place in range(len(candidates))]
    await store.append(batch_id, list(zip(places, candidates, strict=True)))
    await store.accept("team", batch_id, unit_cost_usd=None, answer=None)
    work = await store.claim(ChunkJob(batch_id, 0), "w1", LEASE)
    assert work is not None
    return work


async def score_texts(store: BatchStore, candidates: Sequence[Candidate]) -> None:
    work = await take_in(store, candidates)
    done = [result(work.job, entry, {"warmth": rate("warmth", 1, None)}) for entry, _ in work.todo]
    await store.commit("w1", done, [work.job])


async def score_six(store: BatchStore) -> None:
    """Six results of two aspects, the first blended, and a failure; an eighth candidate is without a result."""
    work = await take_in(store, [pose(f"文 {place}") for place in range(8)])
    done = []
    for place, (entry, _) in enumerate(work.todo[:6]):
        warmth, clarity = WARMTH[place], CLARITY[place]
        aspects = {
            "warmth": rate("warmth", warmth, 0.25 * place if warmth is not None else None),
            "clarity": rate("clarity", clarity, None),
        }
        both = None if warmth is None or clarity is None else (warmth + clarity) / 2
        codes = ["baseline-judge", "other-language"] if place in {1, 4} else ["baseline-judge"] * (place == 0)
        status = "scored" if both is not None else "partial"
        system = "甲" if place < 3 else None
        done.append(
            result(work.job, entry, aspects, composites={"both": both}, warnings=codes, status=status, system=system)
        )
    failed = FinishedCandidate(work.job, work.todo[6][0], None, Failure(code="judge-refused-request", detail="no"))
    await store.commit("w1", [*done, failed], [])


async def places(bench: Bench, *, offset: int = 0, limit: int = 99, **query: Any) -> list[int]:
    _, found = await bench.browser.find("team", "ba_1", ResultQuery(**query), offset=offset, limit=limit)
    return [*found]


async def test_results_come_with_everything_that_is_known_of_them(bench: Bench) -> None:
    await score_six(bench.store)
    assert await bench.browser.find("team", "ba_1", ResultQuery(), offset=5, limit=5) == (7, [5, 6])
    last, failed = (await bench.browser.read("team", "ba_1", [5, 6])).values()
    stored = await bench.store.results("team", "ba_1", after=4, limit=9)
    whole = [replace(one, entry=one.entry.model_copy(update={"ids_given": None})) for one in stored]
    assert [replace(one, asked=None, trace=()) for one in (last, failed)] == whole
    assert (last.candidate, failed.candidate) == (pose("文 5"), pose("文 6"))
    assert (last.id, last.trace) == ("ev_ba_1_5", make_record().trace)
    assert last.evaluation is not None
    assert failed.evaluation is None
    assert failed.failure is not None
    assert failed.failure.code == "judge-refused-request"
    assert failed.id.startswith("ev_")
    assert (last.status, failed.status) == ("scored", "failed")


async def test_results_of_many_are_read_without_their_candidates(bench: Bench) -> None:
    await score_six(bench.store)
    first, *_ = await bench.store.results("team", "ba_1", after=-1, limit=9)
    with pytest.raises(ValueError, match="without its candidate"):
        _ = first.candidate


async def test_results_are_read_by_their_positions(bench: Bench) -> None:
    await score_six(bench.store)
    every = await bench.browser.read("team", "ba_1", range(9))
    assert [*every] == [one.entry.position for one in every.values()] == [*range(7)]
    some = await bench.browser.read("team", "ba_1", [5, 99, 0, 5])
    assert [*some.items()] == [(5, every[5]), (0, every[0])]
    assert await bench.browser.read("team", "ba_1", []) == {}
    assert await bench.browser.read("rivals", "ba_1", [0]) == {}


async def test_a_result_is_read_in_one_statement(bench: Bench, engine: AsyncEngine) -> None:
    await score_six(bench.store)
    statements: list[str] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: statements.append(told[2].split()[0]))
    await bench.browser.read("team", "ba_1", [0, 3])
    assert statements == ["SELECT"]


async def test_a_page_beyond_the_end_still_says_how_many_there_are(bench: Bench) -> None:
    await score_six(bench.store)
    for query in (ResultQuery(), ResultQuery(sort="warmth"), ResultQuery(warning="other-language")):
        total, found = await bench.browser.find("team", "ba_1", query, offset=90, limit=5)
        assert (total, [*found]) == (2 if query.warning else 7, [])


async def test_results_without_a_value_come_last_and_equal_ones_in_the_batchs_order(bench: Bench) -> None:
    await score_six(bench.store)
    assert await places(bench) == [0, 1, 2, 3, 4, 5, 6]
    assert await places(bench, descending=True) == [6, 5, 4, 3, 2, 1, 0]
    assert await places(bench, sort="warmth") == [1, 4, 0, 3, 5, 2, 6]
    assert await places(bench, sort="warmth", descending=True) == [0, 3, 5, 1, 4, 2, 6]
    assert await places(bench, sort="clarity", descending=True) == [0, 5, 1, 2, 4, 3, 6]
    assert await places(bench, sort="both") == [4, 1, 0, 5, 2, 3, 6]
    assert await places(bench, sort="warmth.blended", descending=True) == [5, 3, 0, 4, 1, 2, 6]
    assert await places(bench, sort="clarity", target=2.0) == [1, 2, 0, 4, 5, 3, 6]
    assert await places(bench, sort="clarity", target=1.5, descending=True) == [0, 5, 1, 2, 4, 3, 6]
    assert await places(bench, sort="no-such", descending=True) == [0, 1, 2, 3, 4, 5, 6]
    assert await places(bench, ranked=(4, 99, 0, 5), text="文") == [4, 0, 5]
    assert await places(bench, ranked=(4, 0, 5), offset=1, limit=1) == [0]


async def test_results_are_sorted_by_how_far_their_samples_are_apart(bench: Bench) -> None:
    work = await take_in(bench.store, [pose("文")] * 4)
    spreads = (0.0, None, 0.5, 0.25)
    done = [
        result(work.job, entry, {"clarity": rate("clarity", 2, None).model_copy(update={"samples": (2, 2), "sd": sd})})
        for (entry, _), sd in zip(work.todo, spreads, strict=True)
    ]
    await bench.store.commit("w1", done, [work.job])
    assert await places(bench, by_spread=True, descending=True) == [2, 3, 0, 1]


async def test_pages_are_complete_and_none_comes_twice(bench: Bench) -> None:
    await score_six(bench.store)
    queries: list[dict[str, Any]] = [
        {},
        {"descending": True},
        {"sort": "warmth"},
        {"sort": "warmth", "descending": True},
        {"sort": "clarity", "target": 2.0, "descending": True},
        {"sort": "both", "text": "文"},
    ]
    for query, limit in product(queries, [1, 2, 3, 4]):
        pages = [await places(bench, offset=offset, limit=limit, **query) for offset in range(0, 9, limit)]
        assert [place for page in pages for place in page] == await places(bench, **query), (query, limit)
        assert all(len(page) == limit for page in pages[: 7 // limit]), (query, limit)


CONDITIONS: list[tuple[dict[str, Any], list[int]]] = [
    ({"levels": {"warmth": (1.0, 1.0)}}, [0, 3, 5]),
    ({"levels": {"warmth": (1.0, 1.0), "clarity": (3.0, 3.0)}}, [0, 5]),
    ({"levels": {"both": (0.5, 0.5)}}, [4]),
    ({"levels": {"warmth.blended": (0.25, 0.25)}}, [1]),
    ({"levels": {"no-such": (1.0, 1.0)}}, []),
    ({"unrated": "warmth"}, [2]),
    ({"unrated": "warm"}, []),
    ({"unrated": ANY_ASPECT}, [2, 3]),
    ({"warning": "other-language"}, [1, 4]),
    ({"warning": "baseline-judge"}, [0, 1, 4]),
    ({"warning": "judge"}, []),
    ({"warning": "%"}, []),
    ({"status": "failed"}, [6]),
    ({"status": "partial", "metadata": ("system", "甲")}, [2]),
    ({"metadata": ("system", "甲")}, [0, 1, 2]),
    ({"metadata": ("note", "付箋"), "levels": {"warmth": (0.5, inf), "clarity": (-inf, 2.0)}}, []),
    ({"metadata": ("note", "付箋"), "levels": {"warmth": (0.5, inf), "clarity": (-inf, 3.0)}}, [0, 5]),
    ({"metadata": ("note", "?")}, []),
    ({"ranked": (5, 99, 4, 0), "levels": {"warmth": (1.0, 1.0)}}, [0, 5]),
    ({"metadata": ("note", "\0")}, []),
    ({"warning": "baseline-judge", "levels": {"warmth": (0.0, 0.0)}, "text": "文 4"}, [4]),
    ({"warning": "baseline-judge", "levels": {"warmth": (1.0, 1.0)}, "text": "文 4"}, []),
]


async def test_conditions_are_joined_by_and(bench: Bench) -> None:
    await score_six(bench.store)
    for query, expected in CONDITIONS:
        total, found = await bench.browser.find("team", "ba_1", ResultQuery(sort="both", **query), offset=0, limit=99)
        assert (total, sorted(found)) == (len(expected), expected), query


NEEDLES = [
    ("100%", [0]),
    ("%", [0]),
    ("_", [1]),
    ('"quoted"', [2]),
    ("back\\slash", [3]),
    ("\\", [3]),
    ("line\nbreak", [4]),
    ("line\\nbreak", []),
    ("n", [2, 4, 5]),
    ("안녕", [5]),
    ("😀", [6]),
    ("MIXED case", [5]),
    ("ÉCOLE", [7]),
    ("école", [7]),
    ("item-3", [3]),
    ("ITEM-3", [3]),
    ("response", []),
    ("speaker", []),
    ("甲", []),
    ("付箋", []),
    ("\0", []),
    ("\ud800", []),
    ("", [0, 1, 2, 3, 4, 5, 6, 7]),
]


async def test_a_search_finds_texts_and_ids_as_they_are(bench: Bench) -> None:
    texts = [
        pose("100% 確か"),
        pose("a_b"),
        pose('He said "quoted" and no more'),
        pose("back\\slash"),
        pose("line\nbreak"),
        pose("안녕하세요", "Mixed CASE, then 한국어"),
        pose("顔", "😀"),
        pose("ÉCOLE"),
    ]
    await score_texts(bench.store, texts)
    for needle, expected in NEEDLES:
        assert await places(bench, text=needle) == expected, needle


async def test_a_search_finds_nothing_that_spans_two_texts(bench: Bench) -> None:
    await score_texts(bench.store, [pose("はい", "いいえ")])
    assert await places(bench, text="はい") == [0]
    assert await places(bench, text="はいいいえ") == []


async def test_candidates_without_a_result_are_not_found(bench: Bench) -> None:
    await score_six(bench.store)
    assert await places(bench, text="文 7") == []


async def test_measures_are_those_of_the_results_with_blended_values_where_there_is_one(bench: Bench) -> None:
    work = await take_in(bench.store, [pose("文")] * 2)
    assert await bench.browser.measures("team", "ba_1") == ()
    failed = FinishedCandidate(work.job, work.todo[0][0], None, Failure(code="judge-refused-request", detail="no"))
    await bench.store.commit("w1", [failed], [])
    assert await bench.browser.measures("team", "ba_1") == ()
    aspects = {"warmth": rate("warmth", 1, None), "clarity": rate("clarity", 1, 0.5)}
    await bench.store.commit("w1", [result(work.job, work.todo[1][0], aspects, composites={"both": 1.0})], [])
    assert await bench.browser.measures("team", "ba_1") == ("warmth", "clarity", "both", "clarity.blended")


async def test_measures_that_come_later_go_behind_and_those_after_the_fortieth_are_left_out(bench: Bench) -> None:
    work = await take_in(bench.store, [pose("文")] * 2)
    many = {f"a{number:02}": rate("warmth", number % 2, None) for number in range(MOST_MEASURES + 3)}
    await bench.store.commit("w1", [result(work.job, work.todo[0][0], many)], [])
    measures = await bench.browser.measures("team", "ba_1")
    assert measures == tuple(many)[:MOST_MEASURES]
    assert await places(bench, sort="a41", levels={"a39": (1.0, 1.0)}) == [0]
    assert await places(bench, levels={"a41": (1.0, 1.0)}) in ([], [0])  # no column holds it; the fake has no columns


async def test_commits_at_once_with_other_measures_each_agree_on_columns(bench: Bench) -> None:
    # On PostgreSQL each puts its values in before it knows what the others named theirs.
    store, names = bench.store, [f"a{number}" for number in range(8)]
    await store.begin("team", "ba_1", BatchOptions(), START)
    entries = [Entry(position=place, item=str(place), candidate=None) for place in range(8 * C)]
    await store.append("ba_1", [(entry, pose("文")) for entry in entries])
    await store.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    works = [await store.claim(ChunkJob("ba_1", number), f"w{number}", LEASE) for number in range(8)]

    async def score(number: int, name: str) -> None:
        work = works[number]
        assert work is not None
        aspects = {name: rate(name, number, None), "shared": rate("shared", -number, None)}
        done = [result(work.job, entry, aspects) for entry, _ in work.todo]
        await store.commit(f"w{number}", done, [work.job])

    await asyncio.gather(*(score(number, name) for number, name in enumerate(names)))
    assert set(await bench.browser.measures("team", "ba_1")) == {*names, "shared"}
    for number, name in enumerate(names):
        chunk = list(range(number * C, (number + 1) * C))
        assert await places(bench, levels={name: (float(number), float(number))}) == chunk
        assert await places(bench, levels={"shared": (float(-number), float(-number))}) == chunk


async def test_a_rewritten_result_is_sorted_by_what_it_says_now(bench: Bench) -> None:
    await score_six(bench.store)
    found = await bench.store.results("team", "ba_1", after=-1, limit=1)
    first = found[0].evaluation
    assert first is not None
    changed = first.model_copy(
        update={"aspects": {**first.aspects, "warmth": rate("warmth", 1, -9.0)}, "warnings": (), "metadata": {}}
    )
    await bench.store.rewrite("ba_1", [(0, changed)])
    assert await places(bench, sort="warmth.blended", limit=1) == [0]
    assert await places(bench, warning="baseline-judge") == [1, 4]
    assert await places(bench, metadata=("system", "甲")) == [1, 2]


async def test_patterns_are_counted_unless_there_are_too_many(bench: Bench) -> None:
    await score_six(bench.store)
    found = await bench.browser.count_patterns("team", "ba_1", ["clarity", "no-such", "warmth"], most=7)
    assert found is not None
    assert {values: count for values, count, weight in found if weight is None} == {
        (3.0, None, 1.0): 2,
        (2.0, None, 0.0): 1,
        (2.0, None, None): 1,
        (None, None, 1.0): 1,
        (1.0, None, 0.0): 1,
        (None, None, None): 1,
    }
    assert await bench.browser.count_patterns("team", "ba_1", ["clarity", "warmth"], most=5) is None
    assert await bench.browser.count_patterns("team", "ba_1", ["no-such"], most=5) == [((None,), 7, None)]


async def test_patterns_weigh_what_was_sampled_with_different_probabilities(bench: Bench, engine: AsyncEngine) -> None:
    await score_six(bench.store)
    async with engine.begin() as connection:
        drawn = update(result_figures).where(result_figures.c.batch_id == "ba_1")
        await connection.execute(drawn.where(result_figures.c.position < 6).values(probability=0.5))
    alike = await bench.browser.count_patterns("team", "ba_1", ["clarity", "warmth"], most=9)
    assert alike is not None
    assert all(weight is None for _, _, weight in alike)
    async with engine.begin() as connection:
        await connection.execute(drawn.where(result_figures.c.position == 0).values(probability=0.1))
    found = await bench.browser.count_patterns("team", "ba_1", ["clarity", "warmth"], most=9)
    assert found is not None
    weights = {values: (count, weight) for values, count, weight in found}
    assert weights[3.0, 1.0] == (2, 12.0)
    assert weights[2.0, 0.0] == (1, 2.0)


async def nothing(bench: Bench, project: str, batch_id: str) -> bool:
    total, found = await bench.browser.find(project, batch_id, ResultQuery(), offset=0, limit=9)
    results = await bench.browser.read(project, batch_id, [0])
    patterns = await bench.browser.count_patterns(project, batch_id, ["warmth"], most=9)
    measures = await bench.browser.measures(project, batch_id)
    return (total, [*found], results, patterns, measures) == (0, [], {}, [], ())


async def test_where_the_project_has_no_such_batch_there_is_nothing(bench: Bench) -> None:
    await score_six(bench.store)
    assert not await nothing(bench, "team", "ba_1")
    for project, batch_id in (("rivals", "ba_1"), ("team", "ba_2"), ("team", "ba_1\0"), ("\ud800", "ba_1")):
        assert await nothing(bench, project, batch_id)
    await bench.store.begin("team", "ba_3", BatchOptions(), START)
    assert await nothing(bench, "team", "ba_3")


async def test_an_erased_batch_is_gone(bench: Bench) -> None:
    await score_six(bench.store)
    await bench.store.erase("team", "ba_1")
    assert await nothing(bench, "team", "ba_1")
    await score_texts(bench.store, [pose("新しい")])
    assert await places(bench, text="文") == []
    assert await places(bench) == [0]
