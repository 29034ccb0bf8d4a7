"""`saiten compare-runs`: estimates, compares and shows two runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.command import environment, saiten, served


def test_two_runs_are_estimated_and_compared(tmp_path: Path) -> None:
    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        runs = []
        for system, answer in (("bot-a", "はい、家族で海へ行ってきました。"), ("bot-b", "海海海")):
            rows = [f"i{number},週末は出かけましたか？{number},{answer}" for number in range(3)]
            (tmp_path / "chat.csv").write_text("\n".join(["id,質問,回答", *rows]) + "\n", encoding="utf-8")
            done = saiten("batch", "chat.csv", "--metadata", f"system={system}", "--url", url, folder=tmp_path)
            runs += re.findall("ba_[0-9a-f]+", done.stdout)[:1]
        estimate = saiten("compare-runs", *runs, "--estimate", "--url", url, folder=tmp_path)
        assert json.loads(estimate.stdout)["candidates"] == 3
        done = saiten("compare-runs", *runs, "--url", url, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert re.search(r"bot-a – bot-b +overall +3 +0 +0 +0 +0", done.stdout)
        assert "overall: same answer in both orders 1.00" in done.stdout
        refused = saiten("compare-runs", runs[0], runs[0], "--url", url, folder=tmp_path)
        assert (refused.returncode, "is there twice" in refused.stderr) == (2, True)


def test_where_a_run_was_looked_for_is_said(tmp_path: Path) -> None:
    named = saiten("compare-runs", "ba_1", "ba_2", folder=tmp_path)
    assert (named.returncode, "looked in" in named.stderr) == (2, False), named.stderr
    variables = environment(tmp_path)
    del variables["DATABASE_URL"]  # the file of the same name is there by now
    command = [sys.executable, "-m", "saiten", "compare-runs", "ba_1", "ba_2"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, "there is no batch ba_1" in done.stderr) == (2, True), done.stderr
    assert "saiten: looked in saiten.db of this folder: name another database" in done.stderr
