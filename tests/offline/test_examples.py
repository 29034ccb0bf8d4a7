"""The ten lines for Spark in docs/offline.md, run on a Spark of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import environment
from tests.support.offline_input import make_conversation, write_parquet

pq = pytest.importorskip("pyarrow.parquet")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "offline.md"

LOCAL = """
import os, sys
os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
"""


def read_example(heading: str) -> str:
    """The Python block below a heading of the page."""
    section = DOCS.read_text("utf-8").partition(f"\n## {heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def test_the_example_scores_with_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java runtime")
    write_parquet(tmp_path / "conversations" / "a.parquet", [make_conversation(number) for number in range(40)])
    script = LOCAL + read_example("Spark") + "\nspark.stop()\n"
    variables = environment(tmp_path, SAITEN_JUDGE="lexical")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [row for path in (tmp_path / "scores").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sorted(row["item"] for row in rows) == sorted(f"c{number}" for number in range(40))


def test_the_loop_of_ten_lines_runs(tmp_path: Path) -> None:
    write_parquet(tmp_path / "conversations.parquet", [make_conversation(number) for number in range(40)])
    variables = environment(tmp_path, SAITEN_JUDGE="lexical")
    example = read_example("In Python, without an engine")
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert pq.read_table(tmp_path / "scores.parquet").num_rows == 40
