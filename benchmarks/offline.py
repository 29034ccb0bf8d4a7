"""Offline scoring in figures: `python -m benchmarks.offline overhead|rate|memory|kills|limiter [--rows N] …`.

overhead  CPU of an item beside the judge's time: a judge in this process that answers at once
rate      conversations a second with a judge of 200 ms: this machine's engines, and the embedded service
memory    the largest resident set of the command for two numbers of conversations
kills     workers and drivers killed at random times, and the calls and results after all of them
limiter   64 processes' flow control over one ledger, and a judge that limits its rate, in simulated time
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import describe_machine
from saiten_server.core.evaluation import JudgeProvenance
from saiten_server.core.rubric import Rubric
from saiten_server.offline.scorer import Scorer
from saiten_server.offline.shared_flow import FlowLedger, SharedFlowState
from saiten_server.platform.flow_state import FlowLimits
from saiten_server.providers.flow_control import FlowControl
from saiten_server.providers.ports import Judgement, JudgingEstimate, JudgingTask, Verdict
from saiten_server.providers.registry import judge, load_providers
from saiten_server.text.talks import look_through
from tests.support.command import environment
from tests.support.offline_input import make_conversation, make_response, write_parquet
from tests.support.site import JudgeProcess, Site

RUBRIC = "ja-conversation"


class PromptJudge:
    """Rates everything highest, at once and in this process."""

    kind = "prompt"
    default_model = "prompt"

    async def judge(self, task: JudgingTask) -> Judgement:
        turns: tuple[Any, ...] = ((),) if task.window else ()
        verdicts = {aspect.id: Verdict((aspect.scale[1],), turns=turns) for aspect in task.aspects}
        return Judgement(verdicts, JudgeProvenance(kind=self.kind, model=self.kind))

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        return JudgingEstimate(len(task.aspects), 1, 1, 1, 0.0)

    async def close(self) -> None:
        return None


def measure_overhead(rows: int) -> None:
    """CPU in ms an item: all of it, and its parts one by one."""
    os.environ["SAITEN_ENCODER"] = "off"
    load_providers()
    judge("prompt")(lambda *_: PromptJudge())
    kinds = {"conversation": (make_long, RUBRIC), "response": (make_response, "ja-dialogue")}
    for kind, (make, rubric) in kinds.items():
        given = [make(number) for number in range(rows + 50)]
        table, scorer = pa.Table.from_pylist(given), Scorer(rubric, settings={"judge": "prompt"})
        scorer(table.slice(rows))  # what is loaded once
        whole = time_cpu(lambda table=table, scorer=scorer: scorer(table.slice(0, rows)))
        read = time_cpu(lambda table=table, scorer=scorer: [*scorer.read(table.slice(0, rows))])
        told = {"whole": whole, "reading": read}
        if kind == "conversation":
            talks = [row.candidate.conversation for row in scorer.read(pa.Table.from_pylist(given[:rows]))]  # type: ignore[union-attr]
            told["rules on the turns, alone"] = time_cpu(partial(look, talks, scorer.rubric))
        print(f"{kind}: " + ", ".join(f"{name} {seconds / rows * 1000:.2f} ms" for name, seconds in told.items()))
        scorer.close()


def look(talks: list[Any], rubric: Rubric) -> None:
    for one in talks:
        look_through(one, rubric.source_language, rubric.aspect_names)


def time_cpu(work: Any) -> float:
    """Seconds of this process's CPU."""
    before = time.process_time()
    work()
    return time.process_time() - before


def make_long(number: int) -> dict[str, Any]:
    return make_conversation(number, turns=10)


def command(*arguments: str, rubric: str = RUBRIC) -> list[str]:
    return [sys.executable, "-m", "saiten", "offline", "in", *arguments, "--rubric", rubric, "--json"]


def write_input(folder: Path, rows: int) -> None:
    for start in range(0, rows, 1000):
        some = [make_long(number) for number in range(start, min(rows, start + 1000))]
        write_parquet(folder / "in" / f"{start:08}.parquet", some, group=250)


def measure_rates(rows: int, latency_ms: float) -> None:
    """Conversations a second, from the start of the process to its end, and without what one row takes."""
    with tempfile.TemporaryDirectory() as name, started_judge(latency_ms=latency_ms) as asked:
        folder = Path(name)
        write_input(folder, rows)
        write_parquet(folder / "one" / "a.parquet", [make_conversation(0, turns=10)])
        for engine in (["--engine", "local"], ["--engine", "ray", "--workers", "2"]):
            label = engine[1]
            start = time_command(folder, asked, ["one", f"{label}-one", *engine])
            whole = time_command(folder, asked, ["in", label, *engine])
            rate = rows / (whole - start)
            print(f"{label}: {rows} in {whole:.0f} s; {rate:.0f} a second after {start:.0f} s to start", flush=True)
        print(f"service: {time_service(folder, asked, rows):.0f} a second")


def time_command(folder: Path, asked: JudgeProcess, arguments: list[str]) -> float:
    source, *rest = arguments
    began = time.monotonic()
    full = command(*rest)
    full[full.index("in")] = source
    done = subprocess.run(full, cwd=folder, env=variables(folder, asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.monotonic() - began


def time_service(folder: Path, asked: JudgeProcess, rows: int) -> float:
    """What the embedded service scores a second of the same conversations."""
    site = Site(folder, asked)
    site.start_service()
    try:
        items = [make_conversation(number, turns=10) for number in range(rows)]
        body = {"rubric": RUBRIC, "items": items}
        batch = site.client.post("/v1/batches", json=body).raise_for_status().json()["id"]
        began = time.monotonic()
        while site.client.get(f"/v1/batches/{batch}").json()["status"] != "completed":
            time.sleep(0.2)
        return rows / (time.monotonic() - began)
    finally:
        site.stop()


def measure_memory(sizes: list[int], latency_ms: float) -> None:
    """The largest resident set of the command and its helpers, in MB."""
    with tempfile.TemporaryDirectory() as name, started_judge(latency_ms=latency_ms) as asked:
        for rows in sizes:
            folder = Path(name) / str(rows)
            write_input(folder, rows)
            process = subprocess.Popen(
                command("out"),
                cwd=folder,
                env=variables(folder, asked),
                stdout=subprocess.DEVNULL,
            )
            peaks: Counter[int] = Counter()
            began = time.monotonic()
            while process.poll() is None:
                for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                    try:
                        peaks[one.pid] = max(peaks[one.pid], one.memory_info().rss)
                    except psutil.Error:
                        continue
                time.sleep(0.2)
            own, total = peaks[process.pid] / 1e6, sum(peaks.values()) / 1e6
            rate = rows / (time.monotonic() - began)
            print(f"{rows} rows: {own:.0f} MB, with helpers {total:.0f} MB; {rate:.0f} a second", flush=True)


def measure_kills(rows: int, kills: int, options: list[str], latency_ms: float, seed: int) -> None:
    """Kills a run again and again: the driver, and with Ray a worker every other time."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, started_judge(latency_ms=latency_ms) as asked:
        folder = Path(name)
        write_input(folder, rows)
        process: subprocess.Popen[bytes] | None = None
        for kill in range(kills):
            target = asked.stats()["ok"] + draw.uniform(0.02, 1.6) * rows / kills
            if process is None or process.poll() is not None:
                process = begin(folder, asked, options)
            while asked.stats()["ok"] < target and process.poll() is None:
                time.sleep(0.05)
            if process.poll() is not None:
                break
            victim = find_worker(process.pid) if "ray" in options and kill % 2 else None
            if victim is not None:
                victim.send_signal(signal.SIGKILL)
            else:
                kill_all(process)
                process = None
            print(
                f"kill {kill + 1}: {'worker' if victim else 'driver'}, {asked.stats()['requests']} calls so far",
                flush=True,
            )
        if process is None:
            process = begin(folder, asked, options)
        process.communicate()
        calls = asked.stats()["requests"]
        found = read_values(folder / "out")
        begin(folder, asked, [], output="whole").communicate()
        whole = read_values(folder / "whole")
        print(
            f"{' '.join(options)}: {rows} rows, {kills} kills, {calls} calls ({calls / rows:.3f} ×), "
            f"exit {process.returncode}, {len(found)} keys, equal to an undisturbed run: {found == whole}"
        )


def begin(folder: Path, asked: JudgeProcess, options: list[str], output: str = "out") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(output, *options),
        cwd=folder,
        env=variables(folder, asked),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills the driver with everything below it, as the end of a node does."""
    for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        try:
            one.kill()
        except psutil.Error:
            continue
    process.wait()


def find_worker(pid: int) -> psutil.Process | None:
    """A process of Ray that scores."""
    for one in psutil.Process(pid).children(recursive=True):
        try:
            if "ShardScorer" in " ".join(one.cmdline()):
                return one
        except psutil.Error:
            continue
    return None


def read_values(folder: Path) -> dict[str, str]:
    """What every row says, by key, but for what was spent on it."""
    found = {}
    for path in folder.rglob("*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            found[row["key"]] = json.dumps({key: value for key, value in row.items() if key not in SPENT})
    return found


SPENT = frozenset({"judge_calls", "prompt_tokens", "completion_tokens", "cost_usd"})


def variables(folder: Path, asked: JudgeProcess) -> dict[str, str]:
    return environment(folder, OPENAI_BASE_URL=asked.base_url, OPENAI_API_KEY="k")


class started_judge:  # noqa: N801 - a context, called as a function
    """The counting judge, for as long as the block lasts."""

    def __init__(self, **knobs: Any) -> None:
        self._judge = JudgeProcess(**knobs)

    def __enter__(self) -> JudgeProcess:
        self._judge.start()
        return self._judge

    def __exit__(self, *_: object) -> None:
        self._judge.stop()


class SimulatedTime:
    """Stands for the selector of an event loop: instead of waiting, it turns the clock on."""

    def __init__(self, selector: Any) -> None:
        self._selector = selector
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(0.0, timeout or 0.0)
        return self._selector.select(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


def measure_limiter(processes: int, per_minute: int, seconds: float) -> None:
    """Each process always has calls to make; the judge refuses those beyond its rate. Time is simulated."""
    loop: Any = asyncio.new_event_loop()
    simulated = loop._selector = SimulatedTime(loop._selector)
    loop.time = lambda: simulated.now
    loop.run_until_complete(ask_at_once(processes, per_minute, seconds, loop.time))
    loop.close()


async def ask_at_once(processes: int, per_minute: int, seconds: float, clock: Callable[[], float]) -> None:
    bounds = FlowLimits(10 * processes, requests_per_minute=per_minute)
    ledger = FlowLedger(bounds, clock=clock)
    states = [
        SharedFlowState(
            partial(ledger.exchange, f"p{number}"),
            bounds,
            leave=partial(ledger.leave, f"p{number}"),
            reopen=ledger.reopen,
        )
        for number in range(processes)
    ]
    flows = [FlowControl(state, clock=clock) for state in states]
    burst = per_minute / 600 + 2  # a tenth of a second may come at once
    room, refilled, made, refused, draw = burst, clock(), Counter[int](), 0, random.Random(1)
    began = clock()

    async def ask(number: int) -> None:
        nonlocal room, refilled, refused
        while clock() < began + seconds:
            async with flows[number].passage(lane="batch", max_wait_seconds=600) as call:
                room = min(burst, room + (clock() - refilled) * per_minute / 60)
                refilled = clock()
                if room < 1:
                    refused += 1
                    call.throttled(1.0)
                    continue
                room -= 1
                made[number] += clock() < began + seconds
                await asyncio.sleep(draw.uniform(0.1, 0.4))
                call.succeeded()

    await asyncio.gather(*(ask(number) for number in range(processes) for _ in range(8)))
    share = made.total() / (per_minute * seconds / 60)
    print(
        f"{processes} processes, {per_minute} calls a minute for {seconds:.0f} s: {share:.1%} of the limit used, "
        f"{refused} refused, {min(made.values())} to {max(made.values())} calls a process"
    )
    await asyncio.gather(*(flow.close() for flow in flows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "rate", "memory", "kills", "limiter"])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    machine = describe_machine()
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']}")
    if given.what == "overhead":
        measure_overhead(given.rows)
    elif given.what == "rate":
        measure_rates(given.rows, given.latency_ms)
    elif given.what == "memory":
        measure_memory(given.sizes, given.latency_ms)
    elif given.what == "kills":
        options = ["--concurrency", str(given.concurrency)]
        options += ["--engine", "ray", "--workers", "2"] if given.engine == "ray" else []
        measure_kills(given.rows, given.kills, options, given.latency_ms, given.seed)
    else:
        measure_limiter(64, 6000, 300)


if __name__ == "__main__":
    main()
