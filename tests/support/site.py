"""A whole Saiten as an operator runs it: service, workers and judge as processes of their own, on real servers."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.command import ROOT, begin
from tests.support.nursery import Forked
from tests.support.services import free_port
from tests.support.waiting import LIMIT_SECONDS


class JudgeProcess:
    """The counting judge, at a port that stays its own even while it is down."""

    def __init__(self, **knobs: Any) -> None:
        self.port = free_port()
        self._knobs = knobs
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        flags = [part for name, value in self._knobs.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        arguments = ["--port", str(self.port), *flags]
        module = "tests.support.counting_judge"
        self.process = Forked(arguments, module=module, folder=ROOT, variables=os.environ, stderr=None)
        if self.process.stdout is not None:
            self.process.stdout.readline()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def turn(self, **knobs: Any) -> None:
        """Changes knobs while it runs."""
        httpx.post(f"http://127.0.0.1:{self.port}/knobs", json=knobs, trust_env=False, verify=False).raise_for_status()

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.port}/stats", trust_env=False, verify=False).json()
        return found


class Site:
    """Starts and kills the parts. `client` asks the service; all of it lives below `folder`."""

    def __init__(self, folder: Path, judge: JudgeProcess, **variables: str) -> None:
        self.folder = folder
        self.judge = judge
        self.port = free_port()
        self.variables = {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": judge.base_url,
            "SAITEN_LEASE_SECONDS": "10",
            "SAITEN_JUDGE_TIMEOUT_SECONDS": "5",
            "SAITEN_DRAIN_SECONDS": "1",
            **variables,
        }
        self.service: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=LIMIT_SECONDS, trust_env=False, verify=False
        )

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return begin(*arguments, folder=self.folder, variables=self.variables, stdout=log, stderr=log)

    def start_service(self) -> None:
        self.service = self._start("service", "serve", "--port", str(self.port))
        wait_until(self._answers, LIMIT_SECONDS, "the service answers", self.log)

    def start_workers(self, count: int = 2) -> None:
        self.workers += [self._start(f"worker{len(self.workers) + number}", "worker") for number in range(count)]

    def _answers(self) -> bool:
        try:
            return self.client.get("/livez").status_code == 200
        except httpx.HTTPError:
            return False

    def kill_service(self) -> None:
        kill(self.service)
        self.service = None

    def kill_worker(self, index: int = 0) -> None:
        kill(self.workers.pop(index))

    def stop(self) -> None:
        """Kills everything that runs."""
        self.client.close()
        for process in filter(None, [self.service, *self.workers]):
            kill(process)

    def log(self) -> str:
        """What all parts logged but requests, for a failed assertion."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            lines = path.read_text(encoding="utf-8").splitlines()
            parts += [f"== {path.name}", *[line for line in lines if '"message": "request"' not in line][-30:]]
        return "\n".join(parts)

    def post(self, items: int, *, name: str = "run", **more: Any) -> str:
        """Posts a batch of so many distinct items; its id."""
        return self.post_items([make_item(name, number) for number in range(items)], name=name, **more)

    def post_items(self, items: list[dict[str, Any]], **more: Any) -> str:
        """Posts a batch of these items; its id."""
        body = {"relevance": None, "items": items, **more}
        response = self.client.post("/v1/batches", json=body)
        if response.status_code != 202:
            raise RuntimeError(f"{response.status_code} {response.text}\n{self.log()}")
        return str(response.json()["id"])

    def batch(self, batch_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/v1/batches/{batch_id}").raise_for_status().json()
        return found

    def results(self, batch_id: str) -> list[dict[str, Any]]:
        text = self.client.get(f"/v1/batches/{batch_id}/results").raise_for_status().text
        return [json.loads(line) for line in text.splitlines()]

    def finished(self, batch_id: str) -> int:
        """Candidates with a result; 0 while nobody answers."""
        try:
            counts = self.batch(batch_id)["counts"]
        except httpx.HTTPError:
            return 0
        return int(counts["total"] - counts["queued"])

    def wait_for(self, batch_id: str, status: str = "completed", seconds: float = LIMIT_SECONDS) -> dict[str, Any]:
        """The batch once it has this status; raises with the logs where it does not come."""
        wait_until(lambda: self._is(batch_id, status), seconds, f"{batch_id} is {status}", self.log, pause=0.5)
        return self.batch(batch_id)

    def _is(self, batch_id: str, status: str) -> bool:
        try:
            return bool(self.batch(batch_id)["status"] == status)
        except httpx.HTTPError:
            return False

    def wait_for_results(self, batch_id: str, least: int, seconds: float = LIMIT_SECONDS) -> None:
        wait_until(lambda: self.finished(batch_id) >= least, seconds, f"{least} results", self.log)


def make_item(name: str, number: int) -> dict[str, Any]:
    return {
        "id": f"item-{number}",
        "context": [{"speaker": "ユーザー", "text": "週末はどこかに出かけましたか？"}],
        "response": f"はい、家族で海まで行ってきました。（{name} {number}）",
    }


def kill(process: subprocess.Popen[bytes] | None) -> None:
    """`kill -9`, stopped or not."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT_SECONDS)


def wait_until(
    true: Callable[[], bool], seconds: float, what: str, log: Callable[[], str] = str, pause: float = 0.2
) -> float:
    """Seconds until it is true, which is asked every `pause` seconds in the end; raises TimeoutError, with the logs,
    where it never is."""
    started = time.monotonic()
    while not true():
        waited = time.monotonic() - started
        if waited > seconds:
            raise TimeoutError(f"not within {seconds:g} s: {what}\n{log()}")
        # To ask a service takes it, and this process, some 10 ms of CPU.
        time.sleep(0.05 if waited < 0.5 else pause)
    return time.monotonic() - started


@contextmanager
def site(folder: Path, workers: int = 0, judge: dict[str, Any] | None = None, **variables: str) -> Iterator[Site]:
    """A running site; with workers it needs REDIS_URL among the variables."""
    process = JudgeProcess(**(judge or {}))
    process.start()
    made = Site(folder, process, **variables)
    try:
        made.start_service()
        made.start_workers(workers)
        yield made
    finally:
        made.stop()
        process.stop()
