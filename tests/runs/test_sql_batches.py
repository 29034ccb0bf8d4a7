"""What the SQL batch store promises beyond its port: records made whole, limits of yesterday, no traces."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchFilter, BatchOptions, Candidate, Entry, request_of
from saiten_server.core.dialogue import UNBOUNDED
from saiten_server.core.redaction import Erased
from saiten_server.erasure.store import TextStore
from saiten_server.platform.sql.engine import open_engine, read
from saiten_server.platform.sql.tables import evaluations, metadata
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.erasure import Erasure
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from saiten_server.scoring.store import EvaluationStore
from tests.support.batches import LEASE, START, C, HandClock, claim, fail, finish, finish_all, make_batch, run_chunk
from tests.support.dict_cache import DictCache
from tests.support.faults import words
from tests.support.records import BODY, make_record

MARKER = "消えるべき文"


async def test_a_result_is_found_as_a_whole_record(engine: AsyncEngine) -> None:
    store = BatchStore(engine)
    await make_batch(store, count=3, path="both")
    work = await claim(store, 0)
    result = finish(work, 1)
    await store.commit("w1", [result, fail(work, 2)], [])
    found = await EvaluationStore(engine).find("team", "ev_ba_1_1")
    assert found is not None
    assert result.record is not None
    assert (found.evaluation, found.trace) == (result.record.evaluation, result.record.trace)
    assert found.request == request_of(work.options, work.todo[1][1])
    assert await EvaluationStore(engine).find("rivals", "ev_ba_1_1") is None


async def test_a_failure_is_no_record(engine: AsyncEngine) -> None:
    store = BatchStore(engine)
    await make_batch(store, count=1)
    await store.commit("w1", [fail(await claim(store, 0), 0)], [])
    async with read(engine) as connection:
        failed = (await connection.execute(select(evaluations.c.id, evaluations.c.status))).one()
    assert failed.status == "failed"
    assert await EvaluationStore(engine).find("team", failed.id) is None


async def test_what_a_raised_limit_let_in_is_read_back_after_it_is_lowered(engine: AsyncEngine) -> None:
    long = {**BODY, "response": "あ" * 9000}
    request = type(make_record().request).model_validate(long, context={"limits": UNBOUNDED})
    record = make_record().model_copy(update={"request": request})
    await EvaluationStore(engine).save("team", record)
    assert await EvaluationStore(engine).find("team", "ev_1") == record


async def test_candidates_and_options_beyond_the_limits_are_read_back(engine: AsyncEngine) -> None:
    store, beyond = BatchStore(engine), {"limits": UNBOUNDED}
    options = BatchOptions.model_validate(
        {"name": "長" * 500, "rubric": "ja-dialogue@1", "judge": {"samples": 40}}, context=beyond
    )
    given = {"context": BODY["context"], "response": "あ" * 9000}
    candidate = Candidate.model_validate(given, context=beyond)
    await store.begin("team", "ba_1", options, START)
    await store.append("ba_1", [(Entry(position=0, item="i" * 300, candidate=None), candidate)])
    await store.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    work = await claim(store, 0)
    assert (work.options, work.todo[0][1]) == (options, candidate)
    record = make_record("ev_1").model_copy(update={"request": request_of(options, candidate)})
    await store.commit("w1", [FinishedCandidate(work.job, work.todo[0][0], record)], [work.job])
    found = await EvaluationStore(engine).find("team", "ev_1")
    assert found is not None
    assert found.request == record.request


async def test_the_database_itself_takes_one_result_a_candidate(engine: AsyncEngine) -> None:
    store = BatchStore(engine)
    await make_batch(store, count=1)
    await run_chunk(store, 0)
    async with engine.connect() as connection:
        row = dict((await connection.execute(select(evaluations))).mappings().one())
        with pytest.raises(IntegrityError):
            await connection.execute(insert(evaluations).values({**row, "id": "ev_other"}))


async def test_an_erasure_leaves_no_row_in_any_table(engine: AsyncEngine) -> None:
    store = BatchStore(engine)
    await make_batch(store, metadata={"a": "b"})
    await run_chunk(store, 0)
    assert await store.erase("team", "ba_1")
    owed = await store.list_erased_calls(1000)
    assert set(owed) == {"key-shared", *(f"key-{position}" for position in range(C))}
    await store.settle_erasures(DictCache())
    async with read(engine) as connection:
        # The clock that batches run by has a single row, and nothing of a batch in it.
        for table in (table for table in metadata.tables.values() if table.name != "running_time"):
            assert (await connection.execute(select(func.count()).select_from(table))).scalar_one() == 0, table.name


def traces(folder: Path) -> list[str]:
    """Files of the database that hold the marker."""
    return [path.name for path in sorted(folder.glob("saiten.db*")) if MARKER.encode() in path.read_bytes()]


async def test_an_erasure_leaves_no_trace_in_the_file_nor_in_its_log(sqlite_url: str, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url)
    store = BatchStore(engine, clock=HandClock())
    candidate = Candidate.model_validate({"context": [{"speaker": "A", "text": MARKER}], "response": MARKER})
    for name in ("ba_1", "ba_2"):  # the second stays, so that pages are shared
        text = candidate if name == "ba_1" else candidate.model_copy(update={"context": (), "response": "残る"})
        await store.begin("team", name, BatchOptions(name=MARKER if name == "ba_1" else None), START)
        await store.append(name, [(Entry(position=each, item=str(each), candidate=None), text) for each in range(200)])
        await store.accept("team", name, unit_cost_usd=None, answer=None)
    work = await store.claim((await store.next_jobs("ba_1", 4))[0], "w1", LEASE)
    assert work is not None
    await store.commit("w1", finish_all(work, metadata={"文": MARKER}), [work.job])
    assert traces(tmp_path) != []
    await store.erase("team", "ba_1")
    assert traces(tmp_path) == []
    await engine.dispose()


async def test_an_erasure_of_batches_and_evaluations_leaves_no_trace(sqlite_url: str, tmp_path: Path) -> None:
    """The batch is erased first, and cleaned up after; the evaluations come later."""
    engine = open_engine(sqlite_url)
    await make_batch(BatchStore(engine), metadata={"user": "u-1"})
    own = make_record().evaluation.model_copy(update={"metadata": {"user": "u-1"}})
    request = make_record().request.model_copy(update={"response": MARKER})
    record = make_record().model_copy(update={"evaluation": own, "request": request})
    await EvaluationStore(engine).save("team", record)
    assert traces(tmp_path) != []
    assert await TextStore(engine).erase_marked("team", {"user": "u-1"}) == Erased(1, 0, 1)
    assert traces(tmp_path) == []
    await engine.dispose()


async def test_traces_of_an_erasure_that_was_cut_short_go_with_the_next_sweep(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(sqlite_url)
    store = BatchStore(engine)

    async def die(_: Erasure) -> None:
        raise ConnectionAbortedError

    with monkeypatch.context() as patch:
        patch.setattr(Erasure, "tidy", die)
        await make_batch(store, name=MARKER)
        with pytest.raises(ConnectionAbortedError):
            await store.erase("team", "ba_1")
    assert traces(tmp_path) != []
    await BatchStore(engine).sweep(4, 60)
    assert traces(tmp_path) == []
    await engine.dispose()


async def test_the_log_tells_what_becomes_of_a_batch_once(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="saiten.batches")
    store = BatchStore(engine)
    await make_batch(store, count=1)
    for _ in range(2):
        await store.pause("ba_1", "judge-unauthorized", words(f"the judge said {MARKER}"))
    for _ in range(2):
        await store.resume("team", "ba_1")
    await run_chunk(store, 0)
    await store.cancel("team", "ba_1")
    await make_batch(store, "ba_2", budget_usd=0.0, unit_cost_usd=0.1)
    assert await store.claim(ChunkJob("ba_2", 0), "w1", LEASE) is None
    for _ in range(2):
        await store.cancel("team", "ba_2")
    assert [(one.getMessage(), vars(one)["batch_id"]) for one in caplog.records] == [
        ("batch paused: judge-unauthorized", "ba_1"),
        ("batch resumed", "ba_1"),
        ("batch completed", "ba_1"),
        ("batch paused: budget-exhausted", "ba_2"),
        ("batch cancelled", "ba_2"),
    ]
    assert MARKER not in repr([vars(one) for one in caplog.records])


async def test_batches_of_one_name_are_found_by_an_index(engine: AsyncEngine) -> None:
    """However many others there are. SQLite says which index it takes, whatever a table holds."""
    long, like = "長" * 100, "長" * 99 + "い"
    store = BatchStore(engine)
    for number, name in enumerate((long, like, "長", None)):
        await make_batch(store, f"ba_{number}", count=1, name=name)
    said: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    event.listen(engine.sync_engine, "before_cursor_execute", hear)
    found = await store.list("team", BatchFilter(name=long), after=(datetime.now(UTC), "x"), limit=5)
    assert [batch.id for batch in found] == ["ba_0"]
    if engine.dialect.name == "sqlite":
        async with read(engine) as connection:
            plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {said[0][0]}", said[0][1])).all()
        assert "USING INDEX ix_batches_project_name (project=? AND <expr>=?" in plan[0][-1]


async def test_a_commit_looks_for_results_between_numbers(engine: AsyncEngine) -> None:
    """Joined with the chunks' own bounds PostgreSQL takes them for a ninth of the batch, and reads all of it: seconds a
    commit at a million results."""
    store = BatchStore(engine)
    await make_batch(store)
    works = [await claim(store, number) for number in range(2)]
    said: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT") and "FROM evaluations" in statement:
            said.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", hear)
    await store.commit("w1", [finish(works[0], 0), finish(works[1], C)], [])
    assert len(said) == 1
    assert said[0].count("BETWEEN") == 2
    assert "batch_chunks" not in said[0]
