"""`saiten gate` in a process of its own, as a CI job meets it: exit codes, files, and one line for every mistake."""

import asyncio
import json
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from saiten.commands.gate import drop_reports
from saiten.commands.gate_settings import GATE_FILE
from saiten_server import __version__
from tests.support.command import begin, finish, saiten, saiten_redirected, started
from tests.support.fake_openai import FakeOpenAI, hang, status
from tests.support.gate_files import ShiftingJudge, judged_by, make_result, write_items, write_lines, write_results
from tests.support.keyed import make_keys
from tests.support.posted import make_item
from tests.support.serving import serving

PASS, FAIL, INCONCLUSIVE, COULD_NOT_RUN = range(4)


def gate(folder: Path, *arguments: str, **more: Any) -> CompletedProcess[str]:
    done = saiten("gate", *arguments, folder=folder, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return done


async def gating(folder: Path, *arguments: str, **more: Any) -> CompletedProcess[str]:
    """The same, beside a service or a judge in this event loop."""
    return await asyncio.to_thread(gate, folder, *arguments, **more)


@pytest.fixture
async def judge() -> AsyncIterator[tuple[FakeOpenAI, ShiftingJudge]]:
    shifting = ShiftingJudge()
    async with FakeOpenAI(shifting) as fake:
        yield fake, shifting


# Verdicts


def test_a_baseline_is_recorded_and_gated_against(tmp_path: Path) -> None:
    good, bad = write_items(tmp_path, "good.ndjson"), write_items(tmp_path, "bad.ndjson", worse=30)
    recorded = gate(tmp_path, "--candidate", good, "--record", "base.ndjson")
    assert recorded.returncode == PASS, recorded.stderr
    assert "saiten gate --baseline base.ndjson" in recorded.stderr
    assert "240 of 240 verdicts" in recorded.stdout
    lines = (tmp_path / "base.ndjson").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["item"] for line in lines] == [f"i{number}" for number in range(40)]

    same = gate(tmp_path, "--candidate", good, "--baseline", "base.ndjson")
    assert (same.returncode, same.stdout.splitlines()[0]) == (PASS, "gate: pass"), same.stderr

    reports = ("--junit", "junit.xml", "--markdown", "gate.md", "--save", "saved.ndjson")
    worse = gate(tmp_path, "--candidate", bad, "--baseline", "base.ndjson", *reports)
    assert (worse.returncode, worse.stdout.splitlines()[0]) == (FAIL, "gate: fail"), worse.stderr
    assert "paired: 40 of the smaller run's 40 items" in worse.stdout
    assert ET.parse(tmp_path / "junit.xml").getroot().get("failures") != "0"
    assert (tmp_path / "gate.md").read_text(encoding="utf-8").startswith("### Saiten gate: fail")
    assert len((tmp_path / "saved.ndjson").read_text(encoding="utf-8").splitlines()) == 40


def test_items_come_as_an_array_from_standard_input_or_as_a_batch_with_its_options(tmp_path: Path) -> None:
    items = [make_item(number) for number in range(4)]
    write_results(tmp_path, "base.ndjson", [3, 3])
    array = gate(tmp_path, "--candidate", "-", "--min-mean", "overall=1", stdin=json.dumps(items).encode())
    assert (array.returncode, "the mean is" in array.stdout) == (PASS, True), array.stderr
    (tmp_path / "named.json").write_text(json.dumps([{"name": "nightly", "metadata": {"build": "1"}}, *items]))
    named = gate(tmp_path, "--candidate", "named.json", "--min-mean", "overall=1", "--json")
    report = json.loads(named.stdout)
    assert (named.returncode, report["verdict"]) == (PASS, "pass")
    assert report["candidate"].startswith("nightly (ba_")
    assert report["coverage"] == {"candidates": 4, "rated": 4, "expected": 4, "share": 1.0}


def test_several_responses_and_items_without_ids_pair_by_number_and_context(tmp_path: Path) -> None:
    items = [make_item(number, response=None, responses=["はい。", f"{number}回です。"]) for number in range(11)]
    for item in items:
        del item["id"], item["response"]
        item["context"] = [{"speaker": "A", "text": f"{len(item)}と{id(item)}回目ですか？"}]
    name = write_lines(tmp_path / "several.ndjson", items)
    done = gate(tmp_path, "--candidate", name, "--baseline", name)
    assert done.returncode == PASS, done.stderr
    assert "11 of the smaller run's 11 items are in the other run too, by number and context" in done.stdout
    assert "has 22 responses to 11 items, several to 11 of them: each item counts once" in done.stdout


def test_results_of_score_and_failed_ones_are_runs(tmp_path: Path) -> None:
    bare = [{key: value for key, value in make_item(number).items() if key != "id"} for number in range(5)]
    scored = saiten("score", write_lines(tmp_path / "bare.ndjson", bare), folder=tmp_path)
    (tmp_path / "scored.ndjson").write_text(scored.stdout, encoding="utf-8")
    passed = gate(tmp_path, "--candidate", "scored.ndjson", "--min-mean", "overall=1")
    assert (passed.returncode, "5 of 5 verdicts" in passed.stdout) == (PASS, True), passed.stderr
    failure = {"status": "failed", "rubric": {"id": "ja-dialogue"}, "error": {"code": "judge-unavailable"}}
    with (tmp_path / "scored.ndjson").open("a", encoding="utf-8") as file:
        file.write(json.dumps(failure) + "\n")
    thin = gate(tmp_path, "--candidate", "scored.ndjson", "--min-mean", "overall=1")
    assert thin.returncode == INCONCLUSIVE
    assert thin.stdout.startswith("gate: inconclusive (not enough coverage)\n")
    assert "5 of 6 verdicts of the candidate run (83.33%)" in thin.stdout


def test_too_few_items_are_inconclusive(tmp_path: Path) -> None:
    write_results(tmp_path, "base.ndjson", [3, 2, 3, 1, 3])
    write_results(tmp_path, "new.ndjson", [2, 3, 3, 2, 2])
    done = gate(tmp_path, "--candidate", "new.ndjson", "--baseline", "base.ndjson", "--max-drop", "overall=0")
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
    assert done.stdout.startswith("gate: inconclusive (not enough data)\n")


# Two ways of scoring


def test_differing_signatures_could_not_run_and_are_named(tmp_path: Path) -> None:
    write_results(tmp_path, "base.ndjson", [3] * 12)
    write_results(tmp_path, "new.ndjson", [3] * 12, signature="saiten:0.1.0|rubric:ja-dialogue@1|judge:openai|model:n")
    pair = ("--candidate", "new.ndjson", "--baseline", "base.ndjson")
    done = gate(tmp_path, *pair)
    assert (done.returncode, done.stdout) == (COULD_NOT_RUN, "")
    assert "  model: baseline m, candidate n\n" in done.stderr
    assert "judge:" not in done.stderr
    allowed = gate(tmp_path, *pair, "--allow-signature-mismatch")
    assert allowed.returncode == PASS
    assert "scored differently, model: m → n" in allowed.stdout


def test_a_baseline_of_an_older_rubric_version_stays_green_after_an_upgrade(tmp_path: Path) -> None:
    items = write_items(tmp_path, count=12)
    recorded = gate(tmp_path, "--candidate", items, "--rubric", "ja-dialogue@1", "--record", "base.ndjson")
    assert recorded.returncode == PASS, recorded.stderr
    lines = [json.loads(line) for line in (tmp_path / "base.ndjson").read_text(encoding="utf-8").splitlines()]
    for line in lines:  # as an earlier release wrote it
        line["signature"] = line["signature"].replace(f"saiten:{__version__}|", "saiten:0.0.1|")
    write_lines(tmp_path / "base.ndjson", lines)

    said = "rubric: ja-dialogue@1, as the baseline; --rubric ja-dialogue@2 asks for the newest\n"
    for options in ((), ("--rubric", "ja-dialogue"), ("--rubric", "ja-dialogue@1")):
        same = gate(tmp_path, "--candidate", items, "--baseline", "base.ndjson", *options)
        assert same.returncode == PASS, same.stderr
        assert (said in same.stderr) == ("ja-dialogue@1" not in options)

    newer = gate(tmp_path, "--candidate", items, "--baseline", "base.ndjson", "--rubric", "ja-dialogue@2")
    assert (newer.returncode, newer.stdout) == (COULD_NOT_RUN, "")
    assert "  rubric: baseline ja-dialogue@1, candidate ja-dialogue@2\n" in newer.stderr
    assert 'ask for rubric = "ja-dialogue@1"' in newer.stderr


def test_where_every_candidate_failed_it_is_coverage_and_no_mismatch(tmp_path: Path) -> None:
    write_results(tmp_path, "base.ndjson", [3] * 8)
    failures = [
        {"status": "failed", "item": f"i{number}", "error": {"code": "judge-unavailable"}} for number in range(8)
    ]
    write_lines(tmp_path / "new.ndjson", failures)
    done = gate(tmp_path, "--candidate", "new.ndjson", "--baseline", "base.ndjson")
    assert done.returncode == INCONCLUSIVE, done.stderr
    assert done.stdout.startswith("gate: inconclusive (not enough coverage)\n  ? coverage: 0 of 48 verdicts")


async def test_a_service_gates_and_names_what_its_409_names(tmp_path: Path) -> None:
    good, bad = write_items(tmp_path, "good.ndjson"), write_items(tmp_path, "bad.ndjson", worse=30)
    async with serving(tmp_path) as client:
        url = ("--url", str(client.base_url))
        first = await gating(tmp_path, *url, "--candidate", good, "--record", "base.ndjson", "--name", "main")
        assert first.returncode == PASS, first.stderr
        # The candidate has the baseline's name: the newest of that name must not be the candidate itself.
        named = await gating(tmp_path, *url, "--candidate", bad, "--baseline", "latest:main", "--name", "main")
        assert named.returncode == FAIL, named.stdout + named.stderr
        against_file = await gating(tmp_path, *url, "--candidate", "latest:main", "--baseline", "base.ndjson")
        assert against_file.returncode == FAIL, against_file.stderr
        batches = (await client.get("/v1/batches", params={"name": "main"})).json()["items"]
        newest, oldest = (batch["id"] for batch in batches)
        await client.put("/v1/baselines/main", json={"batch": oldest})
        pinned = await gating(tmp_path, *url, "--candidate", newest)
        assert (pinned.returncode, f"baseline: {oldest}, which is pinned" in pinned.stderr) == (FAIL, True)
        itself = await gating(tmp_path, *url, "--candidate", oldest)
        assert (itself.returncode, "pinned" in itself.stderr) == (COULD_NOT_RUN, False)
        by_id = await gating(tmp_path, *url, "--candidate", oldest, "--baseline", oldest)
        assert (by_id.returncode, "are the same batch" in by_id.stderr) == (COULD_NOT_RUN, True)
        steady = await gating(tmp_path, *url, "--candidate", newest, "--baseline", oldest, "--check-judge")
        again = await gating(tmp_path, *url, "--candidate", newest, "--baseline", oldest, "--check-judge")
        assert (steady.returncode, again.returncode) == (FAIL, FAIL), again.stderr
        assert "the judge rates the anchors as on" in again.stdout
    async with serving(tmp_path, judge="openai", openai_api_key="k", openai_base_url="http://127.0.0.1:1/v1") as client:
        url = ("--url", str(client.base_url))
        refused = await gating(tmp_path, *url, "--candidate", oldest, "--baseline", "base.ndjson", "--rubric", "lfqa")
        assert refused.returncode == PASS, refused.stderr


async def test_files_are_sent_to_a_service_by_the_client_alone_which_keeps_the_verdict(tmp_path: Path) -> None:
    write_results(tmp_path, "base.ndjson", [3] * 20, metadata={"build": "a"})
    write_results(tmp_path, "new.ndjson", [3] * 5 + [1] * 15, metadata={"build": "b"})
    files = ("--candidate", "new.ndjson", "--baseline", "base.ndjson")
    async with serving(tmp_path) as client:
        url = ("--url", str(client.base_url))
        done = await gating(tmp_path, *url, *files, "--json")
        assert done.returncode == FAIL, done.stderr
        report = json.loads(done.stdout)
        (kept,) = (await client.get("/v1/gates")).json()["items"]
        assert (kept["id"], kept["metadata"]) == (report["id"], {"build": "b"})
        assert (await client.get("/v1/batches")).json()["items"] == []
        switched_off = await gating(tmp_path, *url, *files, "--no-keep")
        assert (switched_off.returncode, "gate=ga_" in switched_off.stdout) == (FAIL, False)

        # A fault is named in its file.
        broken = make_result(1)
        broken["aspects"]["overall"]["mean"] = 7.0
        write_lines(tmp_path / "off.ndjson", [make_result(0), broken])
        refused = await gating(tmp_path, *url, "--candidate", "off.ndjson", "--baseline", "base.ndjson")
        assert refused.returncode == COULD_NOT_RUN
        assert "off.ndjson:2: /aspects/overall/mean: is not on the scale of 'overall', 1 to 5" in refused.stderr

        items = write_items(tmp_path, count=8)
        for name in ("main", "branch"):
            scored = await gating(tmp_path, *url, "--candidate", items, "--record", f"{name}.ndjson", "--name", name)
            assert scored.returncode == PASS, scored.stderr
        reports = ("--junit", "junit.xml", "--markdown", "gate.md")
        linked = await gating(tmp_path, *url, "--candidate", "latest:branch", "--baseline", "latest:main", *reports)
        newest = (await client.get("/v1/gates")).json()["items"][0]
        runs = newest["runs"]
        address = f"/explore?run={runs['baseline']}&run={runs['candidate']}&gate={newest['id']}"
        assert f"all cases: {str(client.base_url).rstrip('/')}{address}" in linked.stdout
        assert address in (tmp_path / "gate.md").read_text(encoding="utf-8")
        properties = {one.get("name"): one.get("value") for one in ET.parse(tmp_path / "junit.xml").iter("property")}
        assert str(properties["explorer"]).endswith(address)
        assert len((await client.get("/v1/gates")).json()["items"]) == 2

        reader = (await make_keys(tmp_path, ("team", "read")))[0]["Authorization"].removeprefix("Bearer ")
        told = await gating(tmp_path, *url, *files, SAITEN_API_KEY=reader)
        assert (told.returncode, "the verdict is not kept: this key may only read" in told.stderr) == (FAIL, True)
        asked = await gating(tmp_path, *url, *files, "--keep", SAITEN_API_KEY=reader)
        assert asked.returncode == COULD_NOT_RUN


async def test_a_mismatch_that_the_service_finds(tmp_path: Path, judge: tuple[FakeOpenAI, ShiftingJudge]) -> None:
    items, fake = write_items(tmp_path, count=5), judge[0]
    async with serving(tmp_path) as client:
        url = ("--url", str(client.base_url))
        assert (await gating(tmp_path, *url, "--candidate", items, "--record", "a", "--name", "a")).returncode == PASS
    async with serving(tmp_path, judge="openai", openai_api_key="k", openai_base_url=fake.base_url) as client:
        url = ("--url", str(client.base_url))
        done = await gating(tmp_path, *url, "--candidate", items, "--baseline", "latest:a")
    assert (done.returncode, done.stdout) == (COULD_NOT_RUN, ""), done.stdout
    assert "judge: baseline lexical, candidate openai" in done.stderr


# The judge


async def test_a_judge_that_moved_is_no_regression(tmp_path: Path, judge: tuple[FakeOpenAI, ShiftingJudge]) -> None:
    fake, shifting = judge
    items, variables = write_items(tmp_path, count=12), judged_by(fake.base_url)
    checking = ("--candidate", items, "--check-judge", "--judge-reference", "judge.json")
    recorded = await gating(tmp_path, *checking, "--record", "base.ndjson", **variables)
    assert recorded.returncode == PASS, recorded.stderr
    before = (tmp_path / "judge.json").read_bytes()
    steady = await gating(tmp_path, *checking, "--baseline", "base.ndjson", **variables)
    assert (steady.returncode, "judge: the judge rates the anchors as on" in steady.stdout) == (PASS, True)

    shifting.rates = min
    report = ("--baseline", "base.ndjson", "--junit", "junit.xml", "--json")
    other = write_items(tmp_path, "other.ndjson", count=12, response="海です。")
    moved = await gating(tmp_path, "--candidate", other, *checking[2:], *report, **variables)
    found = json.loads(moved.stdout)
    assert (moved.returncode, found["verdict"]) == (INCONCLUSIVE, "inconclusive"), moved.stderr
    assert found["reasons"][0]["code"] == "judge-moved"
    cases = ET.parse(tmp_path / "junit.xml").getroot()
    assert (cases.get("failures"), cases.get("errors"), cases.get("skipped")) == ("0", "1", "6")
    shown = await gating(tmp_path, "--candidate", other, *checking[2:], *report[:2], **variables)
    assert shown.stdout.startswith("gate: inconclusive (the judge moved)\n  ? judge: judge moved: ")
    assert "✗" not in shown.stdout
    assert (tmp_path / "judge.json").read_bytes() == before

    anew = ("--candidate", other, *checking[2:], "--record", "base.ndjson")
    renewed = await gating(tmp_path, *anew, **variables)
    assert (renewed.returncode, "its ratings are taken again" in renewed.stderr) == (PASS, True), renewed.stderr
    again = await gating(tmp_path, "--candidate", other, *checking[2:], "--baseline", "base.ndjson", **variables)
    assert again.returncode == PASS, again.stdout


def test_the_lexical_judge_is_named_and_never_moves(tmp_path: Path) -> None:
    checking = ("--candidate", write_items(tmp_path, count=3), "--min-mean", "overall=1", "--check-judge")
    for said in ("judge: nothing was stored of this judge yet", "judge: the judge rates the anchors as on"):
        done = gate(tmp_path, *checking, "--judge-reference", "judge.json")
        assert (done.returncode, said in done.stdout) == (PASS, True), done.stdout
        assert "judge: lexical, a baseline and a smoke test" in done.stderr


async def test_a_judge_that_refuses_the_key_pauses_the_batch_and_could_not_run(tmp_path: Path) -> None:
    async with FakeOpenAI(status(401, "no such key", code="invalid_api_key")) as fake:
        asked = ("--candidate", write_items(tmp_path, count=3), "--min-mean", "overall=1")
        done = await gating(tmp_path, *asked, **judged_by(fake.base_url))
    assert done.returncode == COULD_NOT_RUN
    assert "paused after 0 of 3 candidates: " in done.stderr
    assert "key" in done.stderr


@pytest.mark.parametrize("stop", ["interruption", "timeout"])
async def test_what_nobody_waits_for_any_more_is_cancelled(tmp_path: Path, stop: str) -> None:
    def run(base_url: str) -> tuple[int, str]:
        command = ["gate", "--candidate", write_items(tmp_path, count=3), "--min-mean", "overall=1"]
        command += ["--timeout", "1"] if stop == "timeout" else []
        with started(*command, folder=tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=base_url) as process:
            assert process.stderr is not None
            said = process.stderr.readline()
            if stop == "interruption":
                process.send_signal(signal.SIGINT)
            return process.wait(), (said + process.stderr.read()).decode()

    async with FakeOpenAI(hang) as fake:
        code, said = await asyncio.to_thread(run, fake.base_url)
    assert (code, "Traceback" in said) == ((130, False) if stop == "interruption" else (COULD_NOT_RUN, False)), said
    assert ("interrupted" if stop == "interruption" else "not everything was scored within 1 s") in said
    with sqlite3.connect(tmp_path / "saiten.db") as database:
        ((batch_id, state),) = database.execute("SELECT id, status FROM batches").fetchall()
    database.close()
    assert state == "cancelled"
    assert f"saiten: the batch {batch_id} is cancelled\n" in said


# Mistakes


FILES = {
    "empty": (b"", "x: is empty"),
    "an empty array": (b"[]", "x: has no rows"),
    "a broken line": (json.dumps(make_item()).encode() + b'\n{"context":', "x:2: is not valid JSON"),
    "a broken array": (b'[{"context":', "x: is not valid JSON"),
    "a bad item": (json.dumps([make_item(), make_item(1, response=" ")]).encode(), "x: item 2: /response: is blank"),
    "a bad line": (json.dumps(make_item(1, response="")).encode(), "x:1: /response: is blank"),
    "an unknown field": (json.dumps(make_item(score=1)).encode(), "x:1: /score: is not a field that is known here"),
    "no object": (b"3\n", "x: has no rows below its headings, or is neither"),
    "no JSON": (b"hello", "x: has no rows below its headings, or is neither"),
    "nothing after a byte order mark": (b"\xef\xbb\xbf{}", "x:1: /context: is missing"),
    "a result among items": (b'{"context": 1}\n{"status": "failed"}', "x:1: /context: "),
    "an item among results": (b'{"status": "failed"}\n{"context": 1}', "x:2: this is not a result"),
    "a result of other rubric": (
        json.dumps([make_result(), make_result(1, rubric={"id": "ko-comment"})]).encode(),
        "x: it holds results by the rubrics ja-dialogue@1, ko-comment; a run has one",
    ),
    "an unknown rubric": (json.dumps(make_result(rubric={"id": "zz"})).encode(), "there is no rubric 'zz'"),
}


@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=FILES.keys())
def test_a_file_that_is_no_run_is_refused_with_its_place(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x").write_bytes(content)
    done = gate(tmp_path, "--candidate", "x", "--min-mean", "overall=1")
    assert (done.returncode, done.stdout) == (COULD_NOT_RUN, "")
    assert f"saiten: {words}" in done.stderr, done.stderr


MISTAKES = {
    "nothing": ((), "name a --candidate"),
    "an unknown option": (("--baselin", "x"), "No such option"),
    "no such candidate": (("--candidate", "none"), "saiten: none: No such file"),
    "no such baseline": (("--baseline", "none"), "none: No such file or directory; `saiten gate --record` makes one"),
    "an empty folder": (("--candidate", "empty"), "empty: "),
    "an unset variable": (("--baseline", ""), "the baseline is named by an empty text; is a variable of this job"),
    "no such batch": (("--baseline", "ba_00"), "baseline ba_00: "),
    "no such name": (("--baseline", "latest:main"), "baseline latest:main: there is no completed batch of that name"),
    "no rules": ((), "the gate needs rules or a baseline run"),
    "nothing to drop from": (("--max-drop", "overall=1"), "max_drop needs a baseline run"),
    "an unknown aspect": (("--min-mean", "charm=1"), "the run has no charm; it has naturalness, "),
    "a misspelt aspect": (("--min-mean", "overal=1"), "the run has no overal; did you mean 'overall'? It has nat"),
    "half a rule": (("--min-mean", "overall"), "--min-mean: write it like overall=0.1"),
    "a rule twice": (("--min-mean", "overall=1", "--min-mean", "overall=2"), "overall has two values"),
    "alpha": (("--alpha", "2"), "--alpha: should be less than 0.5"),
    "an unknown rubric": (("--rubric", "none", "--min-mean", "a=1"), "there is no rubric 'none'; known: "),
    "no folder": (("--min-mean", "overall=1", "--junit", "no/x"), "no/x: there is no such folder"),
    "no name that a file can have": (("--min-mean", "overall=1", "--junit", "x" * 256), "xx: File name too long"),
    "no name that an item file can have": (("--candidate", "x" * 256), "xx: File name too long"),
    "both": (("--save", "a", "--record", "b"), "leave --save out"),
    "nobody serves": (("--url", "http://127.0.0.1:1"), "start it with `saiten serve`"),
    "no URL": (("--url", ""), "--url '' is not the URL of a service"),
    "a reference of something else": (
        ("--min-mean", "overall=1", "--check-judge", "--judge-reference", "items.ndjson"),
        "these are not stored ratings of a judge; remove the file",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_could_not_run_and_costs_nothing(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    candidate = () if "--candidate" in arguments or words.startswith("name a") else ("--candidate", "items.ndjson")
    write_items(tmp_path, count=2)
    (tmp_path / "empty").mkdir()
    (yesterday := tmp_path / "yesterday.md").write_text("### Saiten gate: pass", encoding="utf-8")
    done = gate(tmp_path, *candidate, "--markdown", "yesterday.md", *arguments)
    assert not yesterday.exists()
    assert (done.returncode, done.stdout) == (COULD_NOT_RUN, ""), done.stdout
    assert words in done.stderr, done.stderr
    assert "scoring" not in done.stderr


def test_what_a_gate_reads_is_no_earlier_report(tmp_path: Path) -> None:
    (tmp_path / GATE_FILE).write_text("", encoding="utf-8")
    names = ("items.ndjson", "base.ndjson", "judge.json", GATE_FILE)
    for name in (*names, "report.xml"):
        (tmp_path / name).write_text("", encoding="utf-8")
    paths = [str(tmp_path / name) for name in (*names, "report.xml")]
    drop_reports([*paths, None, str(tmp_path), str(tmp_path / ("long" * 99))], [*paths[:-1], None])
    assert {one.name for one in tmp_path.iterdir()} == {*names}


def test_a_baseline_that_is_named_as_a_report_stays(tmp_path: Path) -> None:
    (baseline := tmp_path / "base.jsonl").write_text("{}", encoding="utf-8")
    done = gate(tmp_path, "--candidate", "none.jsonl", "--baseline", "base.jsonl", "--junit", "./base.jsonl")
    assert (done.returncode, baseline.read_text(encoding="utf-8")) == (COULD_NOT_RUN, "{}")


BASELINE_OF_SETTINGS = '[gate]\ncandidate = "none.jsonl"\nbaseline = "base.jsonl"\n'


@pytest.mark.parametrize("arguments", [(), ("--no-such-option", "x"), ("--alpha", "much")])
def test_a_baseline_that_the_settings_name_stays(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (baseline := tmp_path / "base.jsonl").write_text("{}", encoding="utf-8")
    (tmp_path / GATE_FILE).write_text(BASELINE_OF_SETTINGS, encoding="utf-8")
    (yesterday := tmp_path / "yesterday.xml").write_text("<testsuites/>", encoding="utf-8")
    done = gate(tmp_path, "--junit", "yesterday.xml", "--markdown", "base.jsonl", *arguments)
    assert (done.returncode, baseline.read_text(encoding="utf-8")) == (COULD_NOT_RUN, "{}")
    assert not yesterday.exists()


async def test_a_key_that_the_service_refuses(tmp_path: Path) -> None:
    saiten("keys", "create", "--name", "ci", folder=tmp_path)
    async with serving(tmp_path) as client:
        asked = (
            "--url",
            str(client.base_url),
            "--candidate",
            write_items(tmp_path, count=2),
            "--min-mean",
            "overall=1",
        )
        done = await gating(tmp_path, *asked, SAITEN_API_KEY="wrong")
    assert (done.returncode, "refused the key" in done.stderr) == (COULD_NOT_RUN, True), done.stderr


def test_reports_are_written_though_nobody_reads_the_verdict(tmp_path: Path) -> None:
    write_results(tmp_path, "new.ndjson", [3] * 4)
    asked = ("--candidate", "new.ndjson", "--min-mean", "overall=2", "--junit", "junit.xml")
    with Path("/dev/full").open("wb") as nowhere:
        pipe = {"stdin": subprocess.DEVNULL, "stdout": nowhere, "stderr": subprocess.PIPE}
        full = finish(begin("gate", *asked, folder=tmp_path, variables={}, **pipe))
    assert (full.returncode, "cannot write to standard output" in full.stderr) == (COULD_NOT_RUN, True)
    assert ET.parse(tmp_path / "junit.xml").getroot().get("failures") == "0"
    closed = saiten_redirected(">&-", "gate", *asked, folder=tmp_path)
    assert (closed.returncode, "Traceback" in closed.stderr) == (COULD_NOT_RUN, False)


async def test_a_sequence_is_of_a_service_and_keeps_its_baseline(tmp_path: Path) -> None:
    items = write_items(tmp_path, "good.ndjson")
    local = gate(tmp_path, "--candidate", items, "--baseline", items, "--sequence", "nightly")
    assert (local.returncode, "--sequence needs a service" in local.stderr) == (COULD_NOT_RUN, True), local.stderr
    async with serving(tmp_path) as client:
        url = ("--url", str(client.base_url), "--name", "main", "--sequence", "nightly", "--max-drop", "overall=0.1")
        await gating(tmp_path, *url[:4], "--candidate", items, "--record", "base.ndjson")
        first = await gating(tmp_path, *url, "--candidate", items, "--baseline", "latest:main")
        assert first.returncode == INCONCLUSIVE, first.stderr
        assert "build 1 of the sequence nightly, alpha 0.05" in first.stdout
        files = ("--markdown", "night.md", "--junit", "night.xml")
        second = await gating(tmp_path, *url, "--candidate", items, *files)
        assert "that of the sequence nightly" in second.stderr
        assert "Build 2 of the sequence" in (tmp_path / "night.md").read_text().replace("build 2", "Build 2")
        assert '<property name="sequence" value="nightly, build 2" />' in (tmp_path / "night.xml").read_text()
        stored = await gating(tmp_path, *url, "--candidate", items, "--baseline", "base.ndjson")
        assert (stored.returncode, "a sequence is of" in stored.stderr) == (COULD_NOT_RUN, True), stored.stderr
