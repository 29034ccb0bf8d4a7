"""What `hot` and `evaluations` measure on: services as processes of their own, and rounds of requests to them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from benchmarks.hot_caller import PATH
from tests.support.command import ROOT, served
from tests.support.services import free_port

CONNECTIONS = 48
START_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """A service that is asked: its process and its port on this machine. `about` says what it is made of."""

    pid: int
    port: int
    about: str = ""

    @property
    def cpu_seconds(self) -> float:
        """CPU that the process has used in all its threads."""
        used = psutil.Process(self.pid).cpu_times()
        return float(used.user + used.system)


@dataclass(frozen=True)
class Round:
    """What came of one round of requests: a second's, each one's CPU in the service's process, and times to answer."""

    rate: float
    cpu_ms: float
    p50_ms: float
    p99_ms: float


def call(target: Target, bodies: Path, seconds: float, *, once: bool = False) -> Round:
    """Has another process ask for so long, or for each body once. Raises RuntimeError where an answer is no 200."""
    flags = ["--port", str(target.port), "--bodies", str(bodies), "--seconds", str(seconds)]
    command = [sys.executable, "-m", "benchmarks.hot_caller", "--connections", str(CONNECTIONS), *flags]
    before = target.cpu_seconds
    done = subprocess.run(
        command + (["--once"] if once else []), cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found, spent = json.loads(done.stdout), target.cpu_seconds - before
    if found["faults"] or not found["answered"]:
        raise RuntimeError(f"{found['answered']} answers, faults {found['faults']}")
    if found["cpu_seconds"] > 0.8 * found["seconds"]:
        raise RuntimeError("the caller is the bottleneck: it was at work all the time")
    latencies, count = found["latencies_ms"], found["answered"]
    return Round(
        rate=count / found["seconds"],
        cpu_ms=1000 * spent / count,
        p50_ms=latencies[count // 2],
        p99_ms=latencies[min(count - 1, count * 99 // 100)],
    )


def make_body(number: int, kind: str) -> dict[str, Any]:
    """An evaluation that no other number or kind has."""
    return {
        "rubric": "ja-dialogue",
        "context": [{"speaker": "ユーザー", "text": "週末はどこかに出かけましたか？"}],
        "response": f"はい、家族で海まで行ってきました。（{kind} {number}）",
        "relevance": None,
    }


def write_bodies(path: Path, numbers: Iterable[int], kind: str) -> Path:
    """Such bodies, a line each; the file again."""
    lines = (json.dumps(make_body(number, kind), ensure_ascii=False) + "\n" for number in numbers)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def ask(target: Target, body: Any) -> bytes:
    """One evaluation as it is answered."""
    url = f"http://127.0.0.1:{target.port}{PATH}"
    return httpx.post(url, json=body, timeout=60, trust_env=False).raise_for_status().content


@contextmanager
def saiten(folder: Path, judge_url: str | None = None, **servers: str) -> Iterator[Target]:
    """`saiten serve` as it is installed, its log of requests in `folder`, and its database too unless `servers` say
    otherwise. Without a judge's URL its judge is the lexical one."""
    variables = {"SAITEN_JUDGE": "lexical"}
    if judge_url:
        variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": judge_url, "SAITEN_JUDGE_CONCURRENCY": "64"}
    with served(folder, **variables, **servers) as (url, process):
        target = Target(process.pid, urlsplit(url).port or 0)
        wait_for(target)
        yield target


@contextmanager
def empty(answer: Path, *flags: str) -> Iterator[Target]:
    """The endpoint that does nothing, with these flags of `hot_empty`."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.hot_empty", "--port", str(port), "--answer", str(answer), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        about = process.stdout.readline().strip() if process.stdout else ""
        target = Target(process.pid, port, about)
        wait_for(target)
        yield target
    finally:
        process.kill()
        process.communicate()


def wait_for(target: Target) -> None:
    """Returns once it takes connections; raises TimeoutError where it never does."""
    ends_at = time.monotonic() + START_SECONDS
    while time.monotonic() < ends_at:
        try:
            httpx.get(f"http://127.0.0.1:{target.port}/livez", trust_env=False)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nobody listens on port {target.port}")


def say_round(name: str, rounds: Sequence[Round]) -> str:
    """CPU and latencies of the median round, for a figure's note."""
    middle = sorted(rounds, key=lambda one: one.rate)[len(rounds) // 2]
    return f"{name}{middle.cpu_ms:.3f} ms CPU a request, p50 {middle.p50_ms:.0f} ms, p99 {middle.p99_ms:.0f} ms"
