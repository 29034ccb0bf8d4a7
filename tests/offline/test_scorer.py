"""The scorer on Arrow tables, by itself."""

from __future__ import annotations

import asyncio
import json
import pickle
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest

from saiten_server.core.errors import BaselineNotSupported, InvalidRequest, JudgeUnauthorized, SettingsInvalid
from saiten_server.offline.scorer import RowOutcome, RowTasks, Scorer
from saiten_server.platform.helpers import inspection_threads
from saiten_server.scoring import subject
from tests.support.offline_input import make_conversation, make_response, write_parquet
from tests.support.site import JudgeProcess, wait_until
from tests.support.waiting import LIMIT_SECONDS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeProcess]:
    process = JudgeProcess()
    process.start()
    yield process
    process.stop()


@pytest.fixture
def asked(judge: JudgeProcess, monkeypatch: pytest.MonkeyPatch) -> JudgeProcess:
    """The judge that is asked; it has forgotten what it was asked before."""
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    judge.turn(mode="ok", latency_ms=0.0, reset=True)
    return judge


def score(rows: list[dict[str, Any]], rubric: str = "ja-conversation", **more: Any) -> list[dict[str, Any]]:
    scorer = Scorer(rubric, **more)
    try:
        found: list[dict[str, Any]] = scorer(pa.Table.from_pylist(rows)).to_pylist()
        return found
    finally:
        scorer.close()


def test_conversations_are_scored_in_order(asked: JudgeProcess) -> None:
    found = score([make_conversation(number) for number in range(30)])
    assert [row["item"] for row in found] == [f"c{number}" for number in range(30)]
    assert {row["status"] for row in found} == {"scored"}
    assert {row["system"] for row in found} == {"bot-0", "bot-1"}
    assert {row["system_turns"] for row in found} == {2}
    assert all(row["rating.overall"] == 9 and row["cluster"] for row in found)
    assert asked.stats()["requests"] == 30


def test_rules_are_applied_beside_the_judge(asked: JudgeProcess) -> None:
    rude = make_conversation(1, turns=8)
    rude["turns"][5] = {**rude["turns"][5], "text": "知らねえよ。うるせえな、勝手にしろ。"}
    [found] = score([rude])
    assert "register-shift" in json.loads(found["faults"])


def test_no_thread_is_asked_for_what_is_short(asked: JudgeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """To hand each conversation over takes CPU, and no caller waits for the event loop."""
    asking = Mock(wraps=inspection_threads)
    monkeypatch.setattr(subject, "inspection_threads", asking)
    long = make_conversation(1)
    long["turns"] = [{**turn, "text": turn["text"] * 300} for turn in long["turns"]]
    assert len(score([make_conversation(0)])) == 1
    assert not asking.called
    assert len(score([long])) == 1
    assert asking.called


def test_responses_are_scored_with_relevance(asked: JudgeProcess) -> None:
    found = score([make_response(number) for number in range(5)], "ja-dialogue", relevance=None)
    assert [row["rating.coherence"] for row in found] == [1] * 5
    assert all("baseline:-" in row["signature"] for row in found)


def test_an_item_with_several_responses_has_a_row_each(asked: JudgeProcess) -> None:
    item = {**make_response(1), "responses": ["いいですね。", "そうですか。"]}
    del item["response"]
    found = score([item], "ja-dialogue", relevance=None)
    assert [(row["item"], row["candidate"]) for row in found] == [("r1", 0), ("r1", 1)]


def test_equal_texts_under_several_ids_are_judged_once(asked: JudgeProcess) -> None:
    same = make_conversation(1)
    found = score([{**same, "id": name} for name in "abc"])
    assert len({row["key"] for row in found}) == 3
    assert asked.stats()["requests"] == 1


def test_a_row_without_an_id_is_named_by_its_context(asked: JudgeProcess) -> None:
    one, other = make_response(1), make_response(1)
    del one["id"], other["id"]
    other["response"] = "別の応答です。"
    found = score([one, other], "ja-dialogue", relevance=None)
    assert found[0]["item"] == found[1]["item"]
    assert found[0]["key"] != found[1]["key"]


def test_a_row_that_is_no_item_is_a_failed_one(asked: JudgeProcess) -> None:
    broken = {**make_conversation(2), "turns": []}
    found = score([make_conversation(1), broken, make_conversation(3)])
    assert [row["status"] for row in found] == ["scored", "failed", "scored"]
    assert (found[1]["item"], found[1]["failure"]) == ("c2", "invalid-request")
    assert "row 1" in found[1]["failure.detail"]
    assert "/turns" in found[1]["failure.detail"]


def test_texts_in_nested_columns_may_be_json(asked: JudgeProcess) -> None:
    row = make_conversation(1)
    told = {**row, "turns": json.dumps(row["turns"]), "metadata": json.dumps(row["metadata"])}
    assert score([told])[0]["key"] == score([row])[0]["key"]


def test_a_column_of_the_system_is_metadata(asked: JudgeProcess) -> None:
    row = make_conversation(1)
    del row["metadata"]
    [found] = score([{**row, "system": "bot-1"}])
    assert found["system"] == "bot-1"
    assert found["key"] == score([make_conversation(1)])[0]["key"]


def test_a_table_without_the_columns_is_refused(asked: JudgeProcess) -> None:
    with pytest.raises(InvalidRequest) as caught:
        score([{"id": "a", "text": "こんにちは"}])
    assert caught.value.message.id == "offline-columns"


def test_the_pickle_holds_no_key_and_scores_the_same(asked: JudgeProcess) -> None:
    scorer = Scorer("ja-conversation", {"model": "judge-1"}, settings={"judge_concurrency": 4})
    table = pa.Table.from_pylist([make_conversation(1)])
    first = scorer(table)
    sent = pickle.dumps(scorer)
    assert b"sk-secret" not in sent
    again = pickle.loads(sent)
    assert again(table).column("key").to_pylist() == first.column("key").to_pylist()
    assert "model:judge-1" in again(table).column("signature")[0].as_py()
    scorer.close()
    again.close()


def test_a_key_is_no_setting_of_a_scorer() -> None:
    with pytest.raises(SettingsInvalid):
        Scorer("ja-conversation", settings={"openai_api_key": "sk-secret"})


def test_what_changes_a_score_changes_the_signature(asked: JudgeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def sign(rubric: str = "ja-conversation", judge: dict[str, Any] | None = None, **more: Any) -> str:
        scorer = Scorer(rubric, judge, **more)
        found = scorer.signature
        scorer.close()
        return found

    same = sign()
    assert sign("ja-conversation@2") == same
    others = [
        sign("ja-conversation@1"),
        sign(judge={"model": "another"}),
        sign(judge={"samples": 3}),
        sign(judge={"temperature": 0.5}),
        sign(settings={"judge": "lexical"}),
        sign(settings={"judge_window_tokens": 2000}),
        sign("ja-dialogue", relevance={"weight": 5.0}),
        sign("ja-dialogue"),
    ]
    assert len({same, *others}) == len(others) + 1
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert sign(settings={"judge_concurrency": 3}) == same


def test_a_baseline_of_all_responses_is_refused(asked: JudgeProcess) -> None:
    scorer = Scorer("ja-dialogue", relevance={"baseline": "batch"})
    with pytest.raises(BaselineNotSupported):
        scorer(pa.Table.from_pylist([make_response(1)]))


def test_an_outage_is_waited_out(asked: JudgeProcess) -> None:
    asked.turn(mode="down")
    waiter = Thread(target=turn_on, args=(asked,))
    waiter.start()
    found = score([make_conversation(number) for number in range(3)], settings={"judge_attempts": 1})
    waiter.join()
    assert {row["status"] for row in found} == {"scored"}


def turn_on(judge: JudgeProcess) -> None:
    """Lets the judge work again once it has refused some calls."""
    wait_until(lambda: judge.stats()["refused"] >= 3, LIMIT_SECONDS, "calls are refused")
    judge.turn(mode="ok")


def test_a_refused_account_stops_after_few_calls(asked: JudgeProcess) -> None:
    asked.turn(mode="locked")
    scorer = Scorer("ja-conversation", settings={"judge_concurrency": 8})
    with pytest.raises(JudgeUnauthorized):
        scorer(pa.Table.from_pylist([make_conversation(number) for number in range(200)]))
    assert asked.stats()["requests"] <= 9
    asked.turn(mode="ok")
    scorer.close()


def test_a_loop_of_ten_lines_scores_a_file(asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", [make_conversation(number) for number in range(50)])
    scorer = Scorer(rubric="ja-conversation")
    source = pq.ParquetFile(tmp_path / "in.parquet")
    with pq.ParquetWriter(tmp_path / "out.parquet", scorer.schema) as out:
        for group in range(source.num_row_groups):
            out.write_table(scorer(source.read_row_group(group)))
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 50
    scorer.close()


def test_a_row_that_is_cancelled_before_it_has_begun_is_told_of(asked: JudgeProcess) -> None:
    scorer, held = Scorer("ja-conversation"), threading.Event()
    tasks: RowTasks = set()
    outcomes: queue.SimpleQueue[RowOutcome] = queue.SimpleQueue()
    rows = [*scorer.read(pa.Table.from_pylist([make_conversation(number) for number in range(3)]))]
    runtime = scorer._open()
    runtime._loop.call_soon_threadsafe(held.wait)  # so that both come in one turn of the loop
    runtime.begin(rows, tasks, outcomes)
    runtime.cancel(tasks)
    held.set()
    found = [outcomes.get(timeout=LIMIT_SECONDS) for _ in rows]
    scorer.close()
    assert [row for row, *_ in found] == rows
    assert {type(error) for *_, error in found} == {asyncio.CancelledError}
