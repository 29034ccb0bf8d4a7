"""Records, similarity baselines and idempotency keys, on each database."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import TextsErased
from saiten_server.core.evaluation import EvaluationFilter, ExplainedRating, Explanation, RubricReference
from saiten_server.erasure.store import TextStore
from saiten_server.platform.sql.engine import read, write
from saiten_server.platform.sql.tables import erased_calls, evaluations
from saiten_server.runs.store.batches import BatchStore
from saiten_server.scoring import store as module
from saiten_server.scoring.store import EvaluationStore, StoredAnswer
from tests.support.batches import make_batch, run_chunk
from tests.support.records import make_record


@pytest.fixture
def store(engine: AsyncEngine) -> EvaluationStore:
    return EvaluationStore(engine)


async def test_a_record_comes_back_as_it_was_saved(store: EvaluationStore) -> None:
    record = make_record()
    await store.save("team", record)
    assert await store.find("team", "ev_1") == record


async def test_a_record_that_was_written_already_comes_back_the_same(store: EvaluationStore) -> None:
    record = make_record()
    await store.save("team", record, evaluation=record.evaluation.model_dump_json())
    assert await store.find("team", "ev_1") == record


async def test_another_projects_record_is_not_there(store: EvaluationStore) -> None:
    await store.save("team", make_record())
    assert await store.find("rivals", "ev_1") is None
    assert await store.find("team", "ev_2") is None


async def test_hostile_text_is_kept_verbatim(store: EvaluationStore) -> None:
    texts = ["'; DELETE FROM api_keys; --", "=HYPERLINK(1)", "🙆‍♀️\u202eabc", "막장"]
    record = make_record(metadata={f"k{i}": text for i, text in enumerate(texts)})
    await store.save("team", record)
    found = await store.find("team", "ev_1")
    assert found is not None
    assert list(found.evaluation.metadata.values()) == texts


async def test_a_baseline_is_kept_to_the_last_bit_and_never_changed(store: EvaluationStore) -> None:
    value = 0.1 + 0.2  # 0.30000000000000004: needs all 53 bits
    assert await store.find_baseline("bert_L9", "ja", "c1") is None
    await store.save_baseline("bert_L9", "ja", "c1", value)
    await store.save_baseline("bert_L9", "ja", "c1", 0.9)
    assert await store.find_baseline("bert_L9", "ja", "c1") == value
    assert await store.find_baseline("bert_L9", "ko", "c1") is None


async def test_an_idempotency_key_is_claimed_once(store: EvaluationStore) -> None:
    claims = await asyncio.gather(*(store.claim_key("team", "k", "digest") for _ in range(5)))
    assert claims.count(None) == 1
    assert set(claims) - {None} == {StoredAnswer("digest", None, None)}
    assert await store.claim_key("rivals", "k", "digest") is None


async def test_an_answered_key_replays_and_is_not_released(store: EvaluationStore) -> None:
    await store.claim_key("team", "k", "digest")
    await store.answer_key("team", "k", 200, b'{"id": 1}')
    await store.release_key("team", "k")
    assert await store.claim_key("team", "k", "other") == StoredAnswer("digest", 200, b'{"id": 1}')


async def test_a_released_key_is_free(store: EvaluationStore) -> None:
    await store.claim_key("team", "k", "digest")
    await store.release_key("team", "k")
    assert await store.claim_key("team", "k", "other") is None


async def test_it_answers(store: EvaluationStore) -> None:
    await store.ping()
    assert await store.find("team", "none") is None


@pytest.mark.parametrize("text", ["ev_1\0", "\0", "\ud800"])
async def test_what_no_column_can_hold_is_not_there(store: EvaluationStore, text: str) -> None:
    await store.save("team", make_record())
    assert await store.find("team", text) is None
    assert await store.find(text, "ev_1") is None
    assert await store.find_baseline(text, "ja", "c1") is None
    assert await store.claim_key("team", text, "digest") is None
    await store.answer_key("team", text, 200, b"{}")
    await store.release_key("team", text)


async def test_many_at_once_are_all_kept(store: EvaluationStore) -> None:
    await asyncio.gather(*(store.save("team", make_record(id=f"ev_{number}")) for number in range(64)))
    found = await asyncio.gather(*(store.find("team", f"ev_{number}") for number in range(64)))
    assert None not in found


async def test_reasons_are_added_once_and_change_nothing_else(store: EvaluationStore) -> None:
    record = make_record()
    await store.save("team", record, ["key-1"])
    first, second = (
        Explanation(
            aspects={"naturalness": ExplainedRating(rating=1, reason=reason)},
            usage=record.evaluation.usage,
            signature="s",
            created_at=record.evaluation.created_at,
        )
        for reason in "甲乙"
    )
    told = await store.explain("team", record.evaluation.id, first, ["key-2"])
    assert told == record.evaluation.model_copy(update={"explained": first})
    again = await store.explain("team", record.evaluation.id, second, ["key-3"])
    assert again == told
    found = await store.find("team", record.evaluation.id)
    assert found == record.model_copy(update={"evaluation": told})
    assert await store.explain("rivals", record.evaluation.id, first, []) is None
    assert await store.explain("team", "none", first, []) is None


async def test_reasons_that_come_after_the_texts_are_gone_are_not_kept(
    store: EvaluationStore, engine: AsyncEngine
) -> None:
    record = make_record()
    await store.save("team", record, ["key-1"])
    explained = Explanation(
        aspects={"naturalness": ExplainedRating(rating=1, reason="言い回しが不自然。")},
        usage=record.evaluation.usage,
        signature="s",
        created_at=record.evaluation.created_at,
    )
    assert await TextStore(engine).redact("team", "drop", datetime.now(UTC), 10) == 1
    with pytest.raises(TextsErased):
        await store.explain("team", record.evaluation.id, explained, ["key-2"])
    found = await store.find("team", record.evaluation.id)
    assert found is not None
    assert found.evaluation.explained is None
    # Nor do the replies stay in the cache.
    async with engine.connect() as connection:
        assert set((await connection.execute(select(erased_calls.c.key))).scalars()) == {"key-1", "key-2"}


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


async def save(store: EvaluationStore, name: str, minute: int, project: str = "team", **changes: Any) -> None:
    record = make_record(f"ev_{name}", created_at=NOON + timedelta(minutes=minute), **changes)
    await store.save(project, record)


async def list_ids(store: EvaluationStore, project: str = "team", limit: int = 50, **wanted: Any) -> list[str]:
    found, _ = await store.list(project, EvaluationFilter(**wanted), after=None, limit=limit)
    return [evaluation.id.removeprefix("ev_") for evaluation in found]


async def test_a_list_is_filtered_by_everything_and_never_leaves_the_project(store: EvaluationStore) -> None:
    other = RubricReference(id="ko-comment", version=1, digest="d" * 64)
    await save(store, "a", 0, metadata={"system": "甲", "quoted": 'a"b%_'}, dialogue="d-1")
    await save(store, "b", 1, metadata={"system": "乙"}, rubric=other, signature="saiten:0|rubric:ko-comment@1|path:ja")
    await save(store, "c", 2, metadata={}, status="partial", signature="saiten:0|rubric:ja-dialogue@12")
    await save(store, "d", 3, project="rivals", metadata={"system": "甲"})
    for wanted, expected in (
        ({}, ["c", "b", "a"]),
        ({"rubric": "ja-dialogue"}, ["c", "a"]),
        ({"rubric": "ja-dialogue@1"}, ["a"]),
        ({"rubric": "ko-comment@1"}, ["b"]),
        ({"status": "partial"}, ["c"]),
        ({"dialogue": "d-1"}, ["a"]),
        ({"batch": "ba_1"}, []),
        ({"created_from": NOON + timedelta(minutes=1)}, ["c", "b"]),
        ({"created_from": NOON, "created_before": NOON + timedelta(minutes=1)}, ["a"]),
        ({"metadata": {"system": "甲"}}, ["a"]),
        ({"metadata": {"system": "甲", "quoted": 'a"b%_'}}, ["a"]),
        ({"metadata": {"quoted": "a%"}}, []),
        # In the request of each record, and in no one's metadata.
        ({"metadata": {"speaker": "ユーザー"}}, []),
    ):
        assert await list_ids(store, **wanted) == expected, wanted
    assert await list_ids(store, "rivals") == ["d"]


@pytest.mark.parametrize("text", ["\0", "\ud800"])
async def test_what_no_column_can_hold_lists_nothing(store: EvaluationStore, text: str) -> None:
    await save(store, "a", 0)
    for wanted in ({"rubric": text}, {"dialogue": text}, {"metadata": {text: "x"}}, {"metadata": {"x": text}}):
        assert await list_ids(store, **wanted) == []
    assert await list_ids(store, text) == []


async def test_results_of_batches_are_listed_and_failures_are_not(engine: AsyncEngine, store: EvaluationStore) -> None:
    await make_batch(BatchStore(engine), count=3, metadata={"system": "bot-a", "build": "7", "run": "x"})
    await run_chunk(BatchStore(engine), 0)
    async with read(engine) as connection:
        query = select(func.count()).where(evaluations.c.failure.is_(None), evaluations.c.batch_id == "ba_1")
        expected = await connection.scalar(query)
    found, _ = await store.list("team", EvaluationFilter(batch="ba_1"), after=None, limit=50)
    assert expected
    assert len(found) == expected
    for metadata, count in (
        ({"build": "7", "run": "x"}, expected),
        ({"build": "7", "system": "甲"}, expected),
        ({"build": "8"}, 0),
        # Each says of itself that another one made it.
        ({"system": "bot-a"}, 0),
    ):
        found, _ = await store.list("team", EvaluationFilter(metadata=metadata), after=None, limit=50)
        assert len(found) == count, metadata
    found, _ = await store.list("rivals", EvaluationFilter(metadata={"build": "7"}), after=None, limit=50)
    assert found == []


async def test_pages_hold_each_once_also_of_one_moment_and_end_with_a_rare_filter(
    store: EvaluationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(11):
        await save(store, f"{number:02}", number // 4, metadata={"rare": "yes"} if number == 0 else {})
    monkeypatch.setattr(module, "SCANNED", 4)
    for wanted, limit, expected, most in (({}, 3, 11, 4), ({"rare": "yes"}, 3, 1, 4)):
        found, place, pages = [], None, 0
        while True:
            page, place = await store.list("team", EvaluationFilter(metadata=wanted), after=place, limit=limit)
            found += [evaluation.id for evaluation in page]
            pages += 1
            if place is None:
                break
        assert (len(found), found, pages <= most) == (expected, sorted(found, reverse=True), True)
    # A place in another project is but a moment.
    _, place = await store.list("team", EvaluationFilter(), after=None, limit=3)
    await save(store, "other", 0, project="rivals")
    theirs, _ = await store.list("rivals", EvaluationFilter(), after=place, limit=3)
    assert [evaluation.id for evaluation in theirs] == ["ev_other"]


async def test_a_page_reads_one_range_of_the_index(engine: AsyncEngine, store: EvaluationStore) -> None:
    await save(store, "a", 0)
    async with write(engine) as connection:
        row = (await connection.execute(select(evaluations))).mappings().one()
        rows = [{**row, "id": f"ev_{n}", "project": f"p{n % 50}"} for n in range(2000)]
        await connection.execute(insert(evaluations), rows)
        if engine.dialect.name == "postgresql":
            await connection.exec_driver_sql("ANALYZE evaluations")
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            explain = "EXPLAIN"
        else:
            explain = "EXPLAIN QUERY PLAN"
        statement = (
            f"{explain} SELECT id FROM evaluations WHERE project = 'p1' AND created_at <= '2026-11-22 00:00:00'"
            " ORDER BY created_at DESC, id DESC LIMIT 5"
        )
        plan = str((await connection.exec_driver_sql(statement)).fetchall())
    assert "ix_evaluations_project" in plan
