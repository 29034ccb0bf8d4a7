"""`saiten gate` over files of results, as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from saiten.commands.gate_files import are_results
from tests.support.offline_rows import make_rows, store

pytest.importorskip("pyarrow")


def gate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "saiten", "gate", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": "/usr/bin", **environment})


def test_a_gate_over_folders_has_the_exit_codes_and_reports_of_any_gate(tmp_path: Path) -> None:
    for name, seed, drop in (("before", 1, 0.0), ("after", 2, 0.9)):
        store(make_rows("responses", 150, seed=seed, drop=drop), "responses", tmp_path / name)
    before, after = (str(tmp_path / name) for name in ("before", "after"))
    markdown = tmp_path / "gate.md"
    failed = gate(
        "--candidate", after, "--baseline", before, "--markdown", str(markdown), "--json", "--min-coverage", "0.5"
    )
    assert failed.returncode == 1, failed.stderr
    report = json.loads(failed.stdout)
    assert (report["verdict"], report["comparison"]["pairing"]["pairs"]) == ("fail", 150)
    assert "overall" in markdown.read_text()
    passed = gate("--candidate", before, "--baseline", before, "--min-coverage", "0.5", LC_ALL="ko_KR.UTF-8")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    refused = gate("--candidate", after, "--baseline", before, "--max-drop", "overal=0.1", "--min-coverage", "0.5")
    assert (refused.returncode, "--max-drop" in refused.stderr) == (3, True)
    mixed = gate("--candidate", after, "--baseline", "ba_12")
    assert (mixed.returncode, "/v1/runs/adopt" in mixed.stderr) == (3, True)
    in_ci = gate("--candidate", before, "--baseline", before, CI="1")
    assert (in_ci.returncode, "lexical" in in_ci.stderr) == (3, True)


def test_files_of_results_are_told_from_items(tmp_path: Path) -> None:
    store(make_rows("responses", 3), "responses", tmp_path / "run", files=1)
    (tmp_path / "items.parquet").write_bytes(b"PAR1 item, context PAR1")
    file = next((tmp_path / "run").rglob("*.parquet"))
    found = [are_results(str(one)) for one in (tmp_path / "run", file, tmp_path / "items.parquet", "no.parquet")]
    assert found == [True, True, False, False]
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "a.jsonl").write_text("{}")
    assert not are_results(str(tmp_path / "items"))
    assert are_results("s3://bucket/run")
    assert not are_results("ba_12")
    assert not are_results(None)
