"""A run on a Ray of this machine with two workers, of which one is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from saiten_server.offline.frame_reading import read_run
from saiten_server.offline.opened_files import open_files
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.command import environment
from tests.support.offline_input import make_conversation, write_parquet
from tests.support.site import JudgeProcess, wait_until
from tests.support.waiting import LIMIT_SECONDS

pytest.importorskip("ray")
pytest.importorskip("pyarrow")

COUNT = 300


def find_worker(parent: int) -> psutil.Process | None:
    """A process of Ray below `parent` that scores."""
    with_name = (child for child in psutil.Process(parent).children(recursive=True) if "ShardScorer" in name_of(child))
    return next(with_name, None)


def name_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_a_run_on_ray_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    judge = JudgeProcess(latency_ms=40.0)
    judge.start()
    write_parquet(tmp_path / "in" / "a.parquet", [make_conversation(number) for number in range(COUNT)], group=50)
    short = tempfile.mkdtemp(prefix="ray-")  # the paths of sockets may have a hundred bytes
    variables = {"OPENAI_BASE_URL": judge.base_url, "OPENAI_API_KEY": "sk-secret", "RAY_TMPDIR": short}
    command = ["offline", "in", "out", "--rubric", "ja-conversation", "--engine", "ray", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "saiten", *command, "--concurrency", "8"],
        cwd=tmp_path,
        env=environment(tmp_path, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: judge.stats()["ok"] > COUNT / 4, LIMIT_SECONDS, "calls are made")
        worker = find_worker(process.pid)
        assert worker is not None
        worker.send_signal(signal.SIGKILL)
        _, error = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.kill()
        judge.stop()
        shutil.rmtree(short, ignore_errors=True)
    assert process.returncode == 0, error
    # A worker that is ended with the cluster may leave a file behind: rows that are there twice count once.
    [folder] = (tmp_path / "out").iterdir()
    run = read_run(open_files(str(folder)), open_rubrics(None).get("ja-conversation"))
    assert len({*run.frame.items.tolist()}) == len(run.frame) == COUNT
    assert run.frame.judged == COUNT


def test_the_driver_says_that_the_judge_is_silent(tmp_path: Path) -> None:
    judge, short = JudgeProcess(latency_ms=60_000.0), tempfile.mkdtemp(prefix="ray-")
    judge.start()
    write_parquet(tmp_path / "in" / "a.parquet", [make_conversation(number) for number in range(8)])
    variables = {"OPENAI_BASE_URL": judge.base_url, "OPENAI_API_KEY": "sk-secret", "RAY_TMPDIR": short}
    options = ["in", "out", "--rubric", "ja-conversation", "--engine", "ray", "--workers", "1", "--give-up-after", "6"]
    sooner = "from saiten_server.cli import offline; offline.FIRST_TOLD_SECONDS = 1.0; offline.command()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", sooner, *options],
            cwd=tmp_path,
            env=environment(tmp_path, **variables),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    finally:
        judge.stop()
        shutil.rmtree(short, ignore_errors=True)
    assert "no answer of the judge since" in done.stderr
    assert "gave no answer for 6 s" in done.stderr
