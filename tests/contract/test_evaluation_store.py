"""Records, similarity baselines and idempotency keys, on each database."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.storage.sql.evaluations import EvaluationStore, StoredAnswer
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
    await store.save("team", record, written=record.model_dump_json())
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
