"""Runs over files: what is finished is kept by its key, and nothing is lost, counted twice or judged in vain."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saiten.core.messages import Message
from saiten_server.cli.offline import SilenceTold
from saiten_server.core.errors import (
    CostLimitReached,
    InvalidRequest,
    JudgeUnauthorized,
    JudgeUnavailable,
    StoreError,
    StoreFull,
)
from saiten_server.offline.frame_reading import read_run
from saiten_server.offline.inputs import InputFile
from saiten_server.offline.judging import Silence
from saiten_server.offline.opened_files import open_files
from saiten_server.offline.parts import KeyIndex
from saiten_server.offline.plan import plan_run
from saiten_server.offline.running import Job, OfflineTally, read_tally, run_here
from saiten_server.offline.scorer import Scorer
from saiten_server.platform.settings import read_settings
from tests.support.command import begin, environment, saiten
from tests.support.offline_input import make_conversation, make_response, write_lines, write_parquet
from tests.support.site import JudgeProcess, wait_until
from tests.support.waiting import LIMIT_SECONDS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")

RUBRIC = "ja-conversation"


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeProcess]:
    process = JudgeProcess()
    process.start()
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def asked(judge: JudgeProcess, monkeypatch: pytest.MonkeyPatch) -> JudgeProcess:
    """The judge that is asked; it has forgotten what it was asked before."""
    monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    judge.turn(mode="ok", latency_ms=0.0, reset=True)
    return judge


def variables(judge: JudgeProcess) -> dict[str, Any]:
    return {"OPENAI_BASE_URL": judge.base_url, "OPENAI_API_KEY": "sk-secret"}


def run(
    source: Path | str,
    output: Path | str,
    *,
    rubric: str = RUBRIC,
    budget_usd: float | None = None,
    give_up_seconds: float | None = None,
    **more: Any,
) -> OfflineTally:
    """Scores it, and says what was done, even if an error stopped it."""
    tally = OfflineTally()
    scorer = Scorer(rubric, **more)
    job = Job(scorer, InputFile(str(source), scorer.rubric.unit), str(output))
    try:
        blocks = job.source.list_blocks()
        run_here(job, blocks, tally, lambda: None, budget_usd=budget_usd, give_up_seconds=give_up_seconds)
    finally:
        scorer.close()
    return tally


def read_rows(output: Path) -> list[dict[str, Any]]:
    """All rows of all files, those that are there twice among them."""
    paths = sorted(output.rglob("*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def read_values(output: Path) -> dict[str, dict[str, Any]]:
    """The rows by key, without what depends on how often the judge was asked."""
    spent = {"judge_calls", "prompt_tokens", "completion_tokens", "cost_usd"}
    return {row["key"]: {name: value for name, value in row.items() if name not in spent} for row in read_rows(output)}


def test_a_second_run_computes_nothing_and_new_rows_cost_what_they_are(asked: JudgeProcess, tmp_path: Path) -> None:
    rows = [make_conversation(number) for number in range(102)]
    write_parquet(tmp_path / "in" / "a.parquet", rows[:100])
    assert run(tmp_path / "in", tmp_path / "out").scored == 100
    again = run(tmp_path / "in", tmp_path / "out")
    assert (again.scored, again.known) == (0, 100)
    random.Random(1).shuffle(rows)
    write_parquet(tmp_path / "in" / "a.parquet", rows, group=7)
    third = run(tmp_path / "in", tmp_path / "out")
    assert (third.scored, third.known, asked.stats()["requests"]) == (2, 100, 102)
    assert len({row["key"] for row in read_rows(tmp_path / "out")}) == 102


def test_files_are_partitioned_by_the_key(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(60)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    described = json.loads((folder / "settings.json").read_text("utf-8"))
    assert described["rubric"] == "ja-conversation@2"
    assert not [*folder.glob("recent/*")]
    for path in folder.glob("prefix=*/*.parquet"):
        keys = pq.read_table(path).column("key").to_pylist()
        assert {key[0] for key in keys} == {path.parent.name[-1]}
        assert keys == sorted(keys)


def test_another_signature_has_an_output_of_its_own(asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(10)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    tally = run(tmp_path / "a.parquet", tmp_path / "out", judge={"model": "another"})
    assert tally.scored == 10
    assert len([*(tmp_path / "out").iterdir()]) == 2
    assert asked.stats()["requests"] == 20


def test_equal_rows_count_once(asked: JudgeProcess, tmp_path: Path) -> None:
    rows = [make_conversation(1)] * 3 + [{**make_conversation(1), "id": "other"}]
    write_lines(tmp_path / "a.ndjson", rows)
    tally = run(tmp_path / "a.ndjson", tmp_path / "out")
    assert (tally.scored, tally.known, tally.repeated, asked.stats()["requests"]) == (2, 0, 2, 1)
    again = run(tmp_path / "a.ndjson", tmp_path / "out")
    assert (again.scored, again.known, again.repeated) == (0, 4, 0)


def test_a_key_in_two_files_is_read_once(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(10)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    [folder] = (tmp_path / "out").iterdir()
    part = max(folder.rglob("*.parquet"), key=lambda path: pq.ParquetFile(path).metadata.num_rows)
    (folder / "recent").mkdir(exist_ok=True)
    (folder / "recent" / "part-killed.parquet").write_bytes(part.read_bytes())
    assert len(read_rows(folder)) > 10
    files = open_files(str(folder))
    found = read_run(files, Scorer(RUBRIC).rubric)
    assert len(found.frame) == 10
    tally = run(tmp_path / "a.parquet", tmp_path / "out")  # which puts the files together
    assert tally.known == 10
    assert not [*folder.glob("recent/*")]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_goes_on(asked: JudgeProcess, tmp_path: Path, sent: signal.Signals) -> None:
    count = 150
    write_parquet(tmp_path / "in" / "a.parquet", [make_conversation(number) for number in range(count)])
    run(tmp_path / "in", tmp_path / "whole")
    asked.turn(latency_ms=60.0, reset=True)
    command = ("offline", "in", "out", "--rubric", RUBRIC, "--concurrency", "4", "--json")
    for share in (0.4, 0.8):
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        process = begin(*command, folder=tmp_path, variables=variables(asked), **streams)
        wait_until(partial(has_served, asked, share * count), LIMIT_SECONDS, "it has begun", pause=0.02)
        process.send_signal(sent)
        _, said = process.communicate()
        assert (b"the finished rows are kept; the same call goes on" in said) == (sent == signal.SIGTERM)
    asked.turn(latency_ms=0.0)
    done = saiten(*command, folder=tmp_path, **variables(asked))
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert told["known"] > 0  # half a second's results are on the disk by then
    assert told["known"] + told["scored"] == count
    assert read_values(tmp_path / "out") == read_values(tmp_path / "whole")


def has_served(judge: JudgeProcess, count: float) -> bool:
    return bool(judge.stats()["ok"] > count)


def test_lines_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [make_response(number) for number in range(200)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    monkeypatch.setattr("saiten_server.offline.inputs.BLOCK_BYTES", 1000)
    source = InputFile(str(path), "item")
    blocks = source.list_blocks()
    assert len(blocks) > 20
    read = [cells.value for block in blocks for cells in source.read(block)]
    assert read == rows
    assert sum(map(source.count_lines, blocks)) == 200


def test_packed_lines_and_patterns_are_read(tmp_path: Path) -> None:
    import gzip

    path = write_lines(tmp_path / "in" / "a.ndjson", [make_response(1)])
    (tmp_path / "in" / "b.ndjson.gz").write_bytes(gzip.compress(path.read_bytes() + b"\n{broken\n[1]\n"))
    (tmp_path / "in" / "_hidden.ndjson").write_text("{", encoding="ascii")
    source = InputFile(f"file://{tmp_path}/in/*.ndjson*", "item")
    cells = [cells for block in source.list_blocks() for cells in source.read(block)]
    assert [one.value is None for one in cells] == [False, False, True, True]


def test_any_storage_of_fsspec_will_do(tmp_path: Path) -> None:
    filesystem = fsspec.filesystem("memory")
    part = write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(10)])
    filesystem.pipe_file("/bucket/in/a.parquet", part.read_bytes())
    for known in (0, 10):
        assert run("memory://bucket/in", "memory://bucket/out").known == known
    assert len(filesystem.glob("/bucket/out/signature=*/prefix=*/*.parquet")) > 1
    filesystem.rm("/bucket", recursive=True)


def test_wrong_columns_are_refused_before_anything_is_scored(asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", [make_conversation(1)])
    write_parquet(tmp_path / "in" / "b.parquet", [{"text": "こんにちは"}])
    done = saiten("offline", "in", "out", "--rubric", RUBRIC, folder=tmp_path, **variables(asked))
    assert done.returncode == 2
    assert "b.parquet" in done.stderr
    assert asked.stats()["requests"] == 0


def test_a_broken_footer_is_named_and_the_other_files_are_scored(asked: JudgeProcess, tmp_path: Path) -> None:
    whole = write_parquet(tmp_path / "in" / "a.parquet", [make_conversation(number) for number in range(20)])
    (tmp_path / "in" / "b.parquet").write_bytes(whole.read_bytes()[:-20])
    command = ("offline", "in", "out", "--rubric", RUBRIC, "--json")
    told = [saiten(*command, folder=tmp_path, **variables(asked)) for _ in range(2)]
    assert [done.returncode for done in told] == [1, 1]
    found = [json.loads(done.stdout) for done in told]
    assert [(one["known"], one["scored"], one["fault_count"]) for one in found] == [(0, 20, 1), (20, 0, 1)]
    assert "b.parquet" in found[0]["faults"][0]
    planned = saiten("offline", "plan", *command[1:], folder=tmp_path, **variables(asked))
    assert json.loads(planned.stdout)["unreadable_blocks"] == 1
    write_parquet(tmp_path / "in" / "b.parquet", [make_conversation(number) for number in range(10, 30)])
    mended = saiten(*command, folder=tmp_path, **variables(asked))
    assert (mended.returncode, json.loads(mended.stdout)["scored"]) == (0, 10)


def test_a_broken_row_group_is_named_and_the_others_are_scored(asked: JudgeProcess, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(60)], group=20)
    about = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    start = about.dictionary_page_offset or about.data_page_offset
    content[start : start + about.total_compressed_size] = b"\xff" * about.total_compressed_size
    path.write_bytes(content)
    done = saiten("offline", str(path), "out", "--rubric", RUBRIC, "--json", folder=tmp_path, **variables(asked))
    told = json.loads(done.stdout)
    assert (done.returncode, told["scored"], told["unread"], told["fault_count"]) == (1, 40, 20, 1)
    assert "a.parquet, row group 1" in told["faults"][0]
    write_parquet(path, [make_conversation(number) for number in range(60)])
    assert run(path, tmp_path / "out").known == 40


def test_hostile_cells_are_failed_rows(tmp_path: Path) -> None:
    deep = "[" * 100_000
    rows = [
        {"id": "a", "turns": deep},
        {"id": "b", "turns": json.dumps([{"speaker": "x", "text": "あ", "role": "system"}] * 1000)},
        {"id": "c" * 300, "turns": "null"},
        {"id": "d", "turns": json.dumps(make_conversation(1)["turns"])},
    ]
    write_parquet(tmp_path / "a.parquet", rows)
    tally = run(tmp_path / "a.parquet", tmp_path / "out")
    assert (tally.statuses["failed"], tally.statuses["scored"]) == (3, 1)


def test_a_refused_account_stops_and_keeps_what_is_finished(asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(20)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(60)])
    asked.turn(mode="locked")
    with pytest.raises(JudgeUnauthorized):
        run(tmp_path / "a.parquet", tmp_path / "out")
    done = saiten("offline", "a.parquet", "out", "--rubric", RUBRIC, folder=tmp_path, **variables(asked))
    assert done.returncode == 3
    asked.turn(mode="ok")
    assert run(tmp_path / "a.parquet", tmp_path / "out").known == 20


@pytest.mark.parametrize("mode", ["down", "silent"])
def test_a_judge_that_gives_no_answer_is_given_up(mode: str, asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(20)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(60)])
    asked.turn(**({"mode": "down"} if mode == "down" else {"latency_ms": 60_000.0}))
    with pytest.raises(JudgeUnavailable) as stopped:
        run(tmp_path / "a.parquet", tmp_path / "out", give_up_seconds=3)
    assert stopped.value.message.id.startswith("offline-gave-up")
    arguments = ("offline", "a.parquet", "out", "--rubric", RUBRIC, "--give-up-after", "2")
    done = saiten(*arguments, folder=tmp_path, **variables(asked))
    assert (done.returncode, "20 were finished before" in done.stdout, "no answer" in done.stderr) == (3, True, True)
    asked.turn(mode="ok", latency_ms=0.0)
    tally = run(tmp_path / "a.parquet", tmp_path / "out", give_up_seconds=60)
    assert (tally.known, tally.scored) == (20, 40)


def test_a_silent_judge_is_told_of_less_and_less_often(capsys: pytest.CaptureFixture[str]) -> None:
    told = SilenceTold()
    fault = Message("verbatim", text="503 from the endpoint")
    for seconds in range(300):
        told(Silence(float(seconds), seconds // 2, fault if seconds > 40 else None))
    assert capsys.readouterr().err.count("503 from the endpoint") == 3
    told(Silence(0.0, 0, None))
    told(Silence(31.0, 0, None))
    assert "(0.5 min)" in capsys.readouterr().err


def test_a_budget_stops_before_it_is_passed(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(50)])
    tally = OfflineTally()
    scorer = Scorer(RUBRIC, {"model": "gpt-6-luna"})
    job = Job(scorer, InputFile(str(tmp_path / "a.parquet"), "conversation"), str(tmp_path / "out"))
    with pytest.raises(CostLimitReached):
        run_here(job, job.source.list_blocks(), tally, lambda: None, budget_usd=0.02)
    scorer.close()
    assert 0 < tally.scored < 50
    assert tally.usage.cost_usd is not None
    assert tally.usage.cost_usd <= 0.02


def test_a_full_disk_is_named_and_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(20)])
    monkeypatch.setattr("saiten_server.offline.parts.os.fsync", refuse_space)
    with pytest.raises(StoreFull) as caught:
        run(tmp_path / "a.parquet", tmp_path / "out")
    assert str(tmp_path / "out") in caught.value.detail
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    monkeypatch.undo()


def refuse_space(_: int) -> None:
    raise OSError(28, os.strerror(28))


def test_credentials_that_expire_are_told_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(20)])
    filesystem = fsspec.filesystem("memory")
    with monkeypatch.context() as expired:
        expired.setattr(type(filesystem), "pipe_file", refuse_token)
        with pytest.raises(StoreError) as caught:
            run(tmp_path / "a.parquet", "memory://expired/out")
    assert "ExpiredToken" in caught.value.detail
    assert run(tmp_path / "a.parquet", "memory://expired/out").scored == 20
    filesystem.rm("/expired", recursive=True)


def refuse_token(*_: Any, **__: Any) -> None:
    raise PermissionError("ExpiredToken: the provided token has expired")


def test_what_fails_halfway_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.offline.parts.FLUSH_ROWS", 5)
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(40)])
    filesystem = fsspec.filesystem("memory")
    pipe_file = type(filesystem).pipe_file
    written: list[str] = []

    def expire(self: Any, path: str, content: bytes, **more: Any) -> None:
        if len(written) == 4:
            refuse_token()
        written.append(path)
        pipe_file(self, path, content, **more)

    with monkeypatch.context() as expiring:
        expiring.setattr(type(filesystem), "pipe_file", expire)
        with pytest.raises(StoreError) as caught:
            run(tmp_path / "a.parquet", "memory://halfway/out")
    assert "halfway/out" in caught.value.detail
    assert "ExpiredToken" in caught.value.detail
    tally = run(tmp_path / "a.parquet", "memory://halfway/out")
    assert 0 < tally.known < 40
    assert tally.known + tally.scored == 40
    filesystem.rm("/halfway", recursive=True)


def test_a_bound_of_the_system_is_told_and_leaves_no_half_file(asked: JudgeProcess, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(40)])
    bound = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000)); "
    start = "from saiten.__main__ import main; main()"
    command = [sys.executable, "-c", bound + start, "offline", "a.parquet", "out", "--rubric", RUBRIC]
    chosen = environment(tmp_path, **variables(asked))
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=chosen)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert ".parquet: cannot be written" in done.stderr
    assert [*(tmp_path / "out").rglob("*part-*")] == []
    assert run(tmp_path / "a.parquet", tmp_path / "out").scored == 40


def test_a_part_by_another_rubric_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [make_conversation(1)])
    run(tmp_path / "a.parquet", tmp_path / "out")
    run(tmp_path / "a.parquet", tmp_path / "other", rubric="ja-conversation@1")
    [stray] = (tmp_path / "other").rglob("*.parquet")
    [folder] = (tmp_path / "out").iterdir()
    stray.rename(folder / "stray.parquet")
    with pytest.raises(StoreError) as caught:
        run(tmp_path / "a.parquet", tmp_path / "out")
    assert caught.value.message.id == "offline-part-other-rubric"
    (folder / "stray.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError) as caught:
        run(tmp_path / "a.parquet", tmp_path / "out")
    assert "stray.parquet" in caught.value.detail


def test_a_plan_tells_what_a_run_takes(asked: JudgeProcess, tmp_path: Path) -> None:
    rows = [make_conversation(number) for number in range(80)]
    write_parquet(tmp_path / "a.parquet", rows[:30])
    run(tmp_path / "a.parquet", tmp_path / "out")
    write_parquet(tmp_path / "a.parquet", rows, group=10)
    scorer = Scorer(RUBRIC, settings={"judge_requests_per_minute": 100})
    job = Job(scorer, InputFile(str(tmp_path / "a.parquet"), "conversation"), str(tmp_path / "out"))
    settings = read_settings(judge_requests_per_minute=100)
    plan = plan_run(job, settings, seconds_per_call=1.0)
    assert (plan.rows, plan.sampled, plan.new_rows, plan.calls, plan.bound) == (80, 80, 50, 50, "calls")
    assert plan.hours == pytest.approx(50 / 100 / 60)
    assert plan.prompt_tokens > 50 * 1000
    some = plan_run(job, settings, seconds_per_call=1.0, most=16)
    assert (some.rows, some.sampled, some.new_rows) == (80, 16, 50)
    scorer.close()
    before = asked.stats()["requests"]
    command = ("offline", "plan", "a.parquet", "out", "--rubric", RUBRIC)
    done = saiten(*command, folder=tmp_path, **variables(asked))
    assert done.returncode == 0
    assert "80 rows (all looked at), 50 of them new" in done.stdout
    assert asked.stats()["requests"] == before


def test_no_file_is_bad_usage(asked: JudgeProcess, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        InputFile(str(tmp_path / "nothing"), "item").list_blocks()
    done = saiten("offline", "nothing", "out", "--rubric", RUBRIC, folder=tmp_path, **variables(asked))
    assert done.returncode == 2


def test_an_index_takes_each_key_once() -> None:
    draw = random.Random(0)
    known = np.unique([draw.getrandbits(12) for _ in range(500)])
    index, seen = KeyIndex(known), {*known.tolist()}
    for _ in range(20_000):
        key = draw.getrandbits(14)
        assert index.add(key) == (key not in seen)
        seen.add(key)


def test_a_tally_is_read_again() -> None:
    tally = OfflineTally(known=3, repeated=1, unread=2)
    tally.statuses["scored"] += 4
    assert read_tally(json.loads(json.dumps(tally.as_json()))) == tally
