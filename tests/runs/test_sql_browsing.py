"""Pages of large batches are found without sorting all results, and are the pages that sorting would give."""

import random
from typing import Any

import pytest
from sqlalchemy import event, update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.evaluation import AspectResult, Unrated
from saiten_server.platform.sql.engine import open_engine, read, write
from saiten_server.platform.sql.tables import batches
from saiten_server.runs.result import ResultQuery
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.browsing import LevelRun, ResultBrowser, list_runs
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.summary import AspectTally, Tally
from tests.support.batches import C, claim, fail, finish, make_batch

COUNT = 3 * C
QUERIES = [
    ResultQuery(sort=sort, descending=descending, target=target)
    for sort, target in ((None, None), ("clarity", None), ("clarity", 3.0), ("clarity", 2.5))
    for descending in (False, True)
]


def rated(level: int | None) -> dict[str, AspectResult]:
    unrated = Unrated(reason="missing", detail="…") if level is None else None
    mean = None if level is None else float(level)
    result = AspectResult(rating=level, scale=(1, 5), label=None, samples=(level,), mean=mean, sd=None, unrated=unrated)
    return {"clarity": result}


async def fill(store: BatchStore, chunks: int = 3) -> None:
    """Ratings from 1 to 5, some missing, some candidates without an evaluation."""
    drawn = random.Random(7)
    await make_batch(store, count=COUNT)
    for number in range(chunks):
        work = await claim(store, number)
        results = []
        for entry, _ in work.todo:
            level = drawn.choice((1, 2, 2, 3, 4, 5, 5, 5, None))
            lost = drawn.random() < 0.1
            results.append(fail(work, entry.position) if lost else finish(work, entry.position, aspects=rated(level)))
        await store.commit("w1", results, [work.job])


class Heard:
    """Statements that sort by what they have found, or count it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.sorting: list[str] = []
        event.listen(engine.sync_engine, "before_cursor_execute", self.hear)

    def hear(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "ORDER BY" in statement and ("key" in statement or "count(" in statement):
            self.sorting.append(statement)


@pytest.mark.parametrize("query", QUERIES, ids=str)
async def test_pages_are_those_that_sorting_would_give(engine: AsyncEngine, query: ResultQuery) -> None:
    await fill(BatchStore(engine))
    sorting, looking = ResultBrowser(engine), ResultBrowser(engine, most_sorted=0)
    for offset in (0, 13, COUNT // 2, COUNT - 7, COUNT, COUNT + 9):
        wanted = await sorting.find("team", "ba_1", query, offset=offset, limit=17)
        heard = Heard(engine)
        assert await looking.find("team", "ba_1", query, offset=offset, limit=17) == wanted
        assert heard.sorting == []


async def test_a_batch_with_gaps_is_read_in_its_order(engine: AsyncEngine) -> None:
    """The number of a result is not its position where others before it have none yet."""
    store, looking = BatchStore(engine), ResultBrowser(engine, most_sorted=0)
    await make_batch(store, count=2 * C)
    await claim(store, 0)
    work = await claim(store, 1)
    await store.commit("w1", [finish(work, C + 1), finish(work, C + 4)], [])
    total, places = await looking.find("team", "ba_1", ResultQuery(), offset=0, limit=9)
    assert (total, places) == (2, [C + 1, C + 4])


async def test_the_beginning_of_a_batch_that_is_worked_on_has_no_gaps(engine: AsyncEngine) -> None:
    store, looking = BatchStore(engine), ResultBrowser(engine, most_sorted=0)
    await fill(store, chunks=2)
    heard = Heard(engine)
    total, places = await looking.find("team", "ba_1", ResultQuery(), offset=C - 3, limit=5)
    assert (total, places) == (2 * C, [*range(C - 3, C + 2)])
    assert heard.sorting == []
    work = await claim(store, 2)
    await store.commit("w1", [finish(work, 2 * C + 5)], [])
    _, last = await looking.find("team", "ba_1", ResultQuery(), offset=2 * C - 1, limit=5)
    assert last == [2 * C - 1, 2 * C + 5]


async def test_figures_that_do_not_tell_are_not_relied_on(engine: AsyncEngine) -> None:
    """Means of several samples are no ratings, and an erasure leaves no figures."""
    await fill(BatchStore(engine))
    sorting, looking = ResultBrowser(engine), ResultBrowser(engine, most_sorted=0)
    async with write(engine) as connection:
        await connection.execute(update(batches).values(tally=None))
    query = ResultQuery(sort="clarity")
    pages = [await browser.find("team", "ba_1", query, offset=5, limit=50) for browser in (sorting, looking)]
    assert pages[0] == pages[1]
    assert len(pages[0][1]) == 50


def tally_of(*verdicts: tuple[float | None, int | None]) -> Tally:
    known = AspectTally()
    for mean, rating in verdicts:
        known.add(mean, rating, "missing")
    tally = Tally(aspects={"clarity": known})
    tally.statuses["scored"] = len(verdicts)
    return tally


def test_runs_are_levels_in_the_order_asked_for_and_then_what_has_none() -> None:
    tally = tally_of((1.0, 1), (3.0, 3), (3.0, 3), (4.0, 4), (None, None))
    one, three, four, none = LevelRun((1.0,), 1), LevelRun((3.0,), 2), LevelRun((4.0,), 1), LevelRun((), 1)
    assert list_runs(tally, ResultQuery(sort="clarity")) == [one, three, four, none]
    assert list_runs(tally, ResultQuery(sort="clarity", descending=True)) == [four, three, one, none]
    # 1 is 2 away from 3, and 4 is 1.
    assert list_runs(tally, ResultQuery(sort="clarity", target=3.0)) == [three, four, one, none]
    # 1 and 4 are both 1.5 away: nothing tells them apart.
    middle = list_runs(tally, ResultQuery(sort="clarity", target=2.5, descending=True))
    assert middle == [LevelRun((1.0, 4.0), 2), three, none]


@pytest.mark.parametrize(
    "tally",
    [
        tally_of((2.5, 2), (1.0, 1)),
        # The same mean as the ratings' 1 and 3, and the same number: only the deviations differ.
        tally_of((1.5, 1), (2.5, 3)),
        tally_of((None, None)),
        Tally(),
    ],
)
def test_means_that_are_no_ratings_have_no_runs(tally: Tally) -> None:
    assert list_runs(tally, ResultQuery(sort="clarity")) is None


@pytest.mark.parametrize("last", ["ix_evaluations_project_created_at", "ix_evaluations_batch_id_position"])
async def test_results_of_a_batch_are_read_by_its_index(sqlite_url: str, last: str) -> None:
    """Whichever index SQLite has made last: of two that seem alike to it, it takes that one, and one that goes by the
    project reads all results that the project has."""
    engine = open_engine(sqlite_url)
    await fill(BatchStore(engine))
    async with write(engine) as connection:
        made = (await connection.exec_driver_sql(f"SELECT sql FROM sqlite_master WHERE name = '{last}'")).scalar_one()
        await connection.exec_driver_sql(f"DROP INDEX {last}")
        await connection.exec_driver_sql(made)
    said: list[tuple[str, Any]] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: said.append((told[2], told[3])))
    found = await ResultBrowser(engine).read("team", "ba_1", range(25))
    places = await FrameStore(engine).find_places("team", [one.id for one in found.values()])
    assert (await FrameStore(engine).read_items("team", "ba_1")).keys() >= found.keys()
    assert len(places) == len(found) > 0
    for statement, parameters in [*said]:
        async with read(engine) as connection:
            plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).mappings()
            steps = [row["detail"] for row in plan if "evaluations" in row["detail"]]
        assert all("batch_id=?" in step or "(id=?)" in step for step in steps), steps
    await engine.dispose()
