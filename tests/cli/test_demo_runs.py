"""`saiten demo` leaves a database in which the dashboard's pages have something to show."""

import os
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from saiten_server.cli.demo import NEXT
from tests.support.command import saiten, served
from tests.support.waiting import LIMIT_SECONDS

SHOWN = ("bot-b", "bot-c", "naturalness", "sensibleness", "ssa", "saiten:", "OPENAI_API_KEY")
BUILDS = ["a-101", "a-102", "b-201", "b-202"]


def batches_of(client: httpx.Client, rubric: str) -> dict[str, dict[str, Any]]:
    """The batches by build."""
    found = client.get("/v1/batches", params={"rubric": rubric}).json()["items"]
    return {batch["metadata"]["build"]: batch for batch in found}


def test_the_demo_twice_leaves_runs_that_can_be_compared_and_ratings(tmp_path: Path, bare_sqlite_url: str) -> None:
    file = tmp_path / "saiten-demo.db"
    first = saiten("demo", "--quiet", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE of_the_first_run (value)")
        database.commit()
    # Where the command is on the PATH, as in an activated environment, its name alone would do.
    done = saiten("demo", folder=tmp_path, DATABASE_URL=bare_sqlite_url, PATH=os.defpath)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:4] for line in done.stdout.splitlines() if line.startswith((" diary", " chat", " nightly"))]
    assert rows[0] == ["diary", "ko-comment", "bot-a", "a-101"]
    assert [row[3] for row in rows] == 3 * BUILDS
    talks = [line.split() for line in done.stdout.splitlines() if line.startswith(" talks")]
    assert [row[-1] for row in talks] == ["0", "0", "8", "0", "0", "7"]
    for words in (*SHOWN, NEXT.split("\n")[1]):
        assert words in done.stdout
    # The lines can be pasted: the second command finds the runs of the first, by the path of this very installation.
    assert "\n  export DATABASE_URL=sqlite+aiosqlite:///saiten-demo.db\n" in done.stdout
    assert f"\n  {Path(sys.executable).parent / 'saiten'} serve\n" in done.stdout
    assert "-m pip install 'saiten-server[bertscore]'" in done.stdout
    assert "make " not in done.stdout
    assert [each.name for each in tmp_path.iterdir()] == ["saiten-demo.db"]
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT 1 FROM sqlite_master WHERE name = 'of_the_first_run'").fetchall() == []
    with (
        served(tmp_path, DATABASE_URL=f"sqlite+aiosqlite:///{file}") as (url, _),
        httpx.Client(base_url=url, trust_env=False, verify=False, timeout=LIMIT_SECONDS) as client,
    ):
        japanese, korean, chat = map(partial(batches_of, client), ("ja-dialogue", "ko-comment", "ko-dialogue"))
        check_runs(japanese, 48)
        check_runs(korean, 24)
        check_runs(chat, 24)
        check_comparison(client, japanese)
        # 24 pairs are few: the composite alone is told to be worse, and no aspect after Holm's correction.
        body = {"baseline": chat["a-101"]["id"], "candidate": chat["a-102"]["id"]}
        compared = client.post("/v1/comparisons", json=body).json()
        assert compared["composites"]["ssa"]["verdict"] == "worse"
        assert {aspect["verdict"] for aspect in compared["aspects"].values()} == {"inconclusive"}
        check_hierarchy(client, japanese)
        check_ratings(client, japanese["a-102"]["id"], 48, "overall")
        check_ratings(client, korean["a-102"]["id"], 24, "specificity")
        check_ratings(client, chat["a-102"]["id"], 24, "overall")
        check_warnings(client, japanese["a-102"]["id"])


def test_a_judge_of_runs_is_one_of_the_environment(tmp_path: Path) -> None:
    done = saiten("demo", "--judge-runs", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--judge-runs goes with --use-environment" in done.stderr


def check_runs(batches: dict[str, dict[str, Any]], size: int) -> None:
    assert sorted(batches) == BUILDS
    for batch in batches.values():
        assert (batch["status"], batch["counts"]["scored"], batch["counts"]["total"]) == ("completed", size, size)
        assert batch["signature"] == batches["a-101"]["signature"]


def check_comparison(client: httpx.Client, batches: dict[str, dict[str, Any]]) -> None:
    body = {"baseline": batches["a-101"]["id"], "candidate": batches["a-102"]["id"]}
    worse = {aspect["verdict"] for aspect in client.post("/v1/comparisons", json=body).json()["aspects"].values()}
    assert worse == {"worse", "inconclusive"}
    body = {"baseline": batches["b-201"]["id"], "candidate": batches["b-202"]["id"]}
    better = {aspect["verdict"] for aspect in client.post("/v1/comparisons", json=body).json()["aspects"].values()}
    assert better == {"better", "inconclusive"}


def check_hierarchy(client: httpx.Client, batches: dict[str, dict[str, Any]]) -> None:
    body = {"batches": [batches[build]["id"] for build in BUILDS], "values": "scores", "alpha": 0.05}
    report = client.post("/v1/analyses/hierarchy", json=body).json()
    assert report["systems"] == 4
    assert len(report["dependencies"]) >= 1


def check_ratings(client: httpx.Client, batch: str, items: int, aspect: str) -> None:
    agreement = client.post("/v1/analyses/agreement", json={"batch": batch}).json()["aspects"][aspect]
    assert (agreement["n"], agreement["raters"]) == (items, 3)
    assert 0.2 < agreement["krippendorff_alpha"] < 0.95
    correlation = client.post("/v1/analyses/correlation", json={"batch": batch}).json()["aspects"][aspect]
    assert 0.25 < correlation["spearman"] < 0.75


def check_warnings(client: httpx.Client, batch: str) -> None:
    warnings = client.get(f"/v1/batches/{batch}/summary").json()["warnings"]
    assert {"suspected-injection", "register-shift", "language-mismatch"} <= set(warnings)


def test_a_database_of_others_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    (tmp_path / "results.db").write_bytes(b"paid for")
    done = saiten("demo", "--database", "results.db", folder=tmp_path)
    assert done.returncode == 3
    assert done.stderr == (
        "saiten: --database results.db: `saiten demo` did not make this file; remove it, or name another\n"
    )
    assert done.stdout == ""
    assert (tmp_path / "results.db").read_bytes() == b"paid for"


def test_the_runs_do_not_go_to_the_queue_of_others(tmp_path: Path) -> None:
    redis = "redis://127.0.0.1:1/0"
    done = saiten("demo", "--quiet", "--database", "runs.db", folder=tmp_path, REDIS_URL=redis, SAITEN_CACHE="redis")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs.db").exists()
