"""Saiten beside what a team could pick instead: the same dialogues, the same six questions, the same fake judge.

    python -m benchmarks.peers            # five minutes; the first time more, to install the peers

Each peer runs in an environment of its own (`benchmarks/peer_tools/`), with telemetry and look-ups off, its best
reasonable configuration, and a warm-up that does not count. Rounds alternate between all. Ours is a batch over HTTP,
from the POST to completed, every result committed to SQLite; what the others store is told with their figures. CPU is
that of the tool's own processes. Characters and tokens are those of the messages, counted by a judge that weighs them
in a run of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.fast_judge import TEXT, fast_judge
from benchmarks.peer_tools.environments import HERE, Unavailable, open_environment, read_version
from benchmarks.peer_tools.scales import Scales, open_scales
from benchmarks.peer_tools.workload import write_batch, write_work
from benchmarks.prompt_tokens import NoTokenizer, open_tokenizer
from benchmarks.record import Beside, Figure, Report, at_most, run_alone
from tests.support.site import JudgeProcess, Site

ITEMS = 200
WEIGHED = 5
IN_FLIGHT = 100
ROUNDS = 3
LATENCIES_MS = (200.0, 0.0)
PATIENCE_SECONDS = 900
POLL_SECONDS = 0.25
"""Between two looks at a batch: each costs the service some CPU. Its end is the batch's own `finished_at`."""

SERVICE = {"SAITEN_LOG_LEVEL": "warning", "SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT), "SAITEN_ENCODER": "off"}

QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}
"""Nothing but the judge is asked."""


@dataclass(frozen=True)
class Spent:
    """One round: seconds from the first call to the last result, CPU seconds, judge calls and the most at once."""

    wall_seconds: float
    cpu_seconds: float
    calls: float = 0.0
    peak: float = 0.0


@dataclass(frozen=True)
class Peer:
    """`package` names its environment (None: ours). `answer` is what it expects of a judge without a JSON schema."""

    name: str
    script: str
    package: str | None
    stores: str
    answer: str = TEXT
    flags: Sequence[str] = ()
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.name} {read_version(self.package)}" if self.package else self.name


PEERS = (
    Peer("DeepEval", "deepeval_run.py", "deepeval", "one JSON file of the latest run, at its end"),
    Peer("inspect_ai", "inspect_run.py", "inspect-ai", "an .eval log, in pieces", answer="GRADE: 3"),
    Peer(
        "promptfoo",
        "promptfoo_run.mjs",
        "promptfoo",
        "SQLite",
        answer=json.dumps({"reason": "文脈に沿う。", "pass": True, "score": 1}, ensure_ascii=False),
        variables={"PROMPTFOO_ASSERTIONS_MAX_CONCURRENCY": "6", "PROMPTFOO_FETCH_CONNECTIONS": str(IN_FLIGHT)},
    ),
    Peer("AsyncOpenAI loop", "plain_run.py", None, "JSON Lines, no sync"),
    Peer("AsyncOpenAI loop, a call an aspect", "plain_run.py", None, "JSON Lines, no sync", flags=("single",)),
)


@dataclass
class Stage:
    """Where peers run: `programs` by name, each with an interpreter of its own, and a folder."""

    folder: Path
    programs: dict[str, Path]

    def run(self, peer: Peer, work: dict[str, Any], base_url: str) -> Spent:
        """One process of the peer; raises RuntimeError where it fails, or rates fewer than all."""
        folder = self.folder / Path(peer.script).stem
        folder.mkdir(exist_ok=True)
        file = folder / "work.json"
        file.write_text(json.dumps(work), encoding="utf-8")
        program = self.programs[peer.name]
        done = subprocess.run(
            [program, HERE / peer.script, file, base_url, folder, str(IN_FLIGHT), *peer.flags],
            cwd=program.parents[find_depth(program)] if peer.script.endswith(".mjs") else folder,
            env=make_variables(folder, peer),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{peer.name} failed:\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        wanted = len(work["items"]) * len(work["aspects"])
        if found["ratings"] != wanted:
            raise RuntimeError(f"{peer.name} gave {found['ratings']} of {wanted} ratings\n{done.stderr[-2000:]}")
        return Spent(found["wall_seconds"], found["cpu_seconds"])


def find_depth(program: Path) -> int:
    """How far above the program its `node_modules` lies; raises LookupError."""
    for depth, folder in enumerate(program.parents):
        if (folder / "node_modules").is_dir() and (folder / ".made").is_file():
            return depth
    raise LookupError(f"no node_modules above {program.name}")


def make_variables(folder: Path, peer: Peer) -> dict[str, str]:
    """An environment with nothing of the caller's but its PATH: no key, no proxy, a home of its own."""
    own = {"HOME": str(folder), "PROMPTFOO_CONFIG_DIR": str(folder), "NO_PROXY": "*", "PYTHONUTF8": "1"}
    return {"PATH": os.environ.get("PATH", ""), **own, **QUIET, **peer.variables}


def count_cpu(process: psutil.Process) -> float:
    """CPU seconds of a running process and its children."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def run_ours(site: Site, work: dict[str, Any], part: str, name: str) -> Spent:
    """A batch from the POST to completed; raises RuntimeError where an item is not scored."""
    if site.service is None:
        raise RuntimeError("the service does not run")
    process, items = psutil.Process(site.service.pid), write_batch(work, part)
    cpu, started = count_cpu(process), time.time()
    batch_id = site.post_items(items, name=name)
    while (batch := site.batch(batch_id))["status"] != "completed":
        time.sleep(POLL_SECONDS)
    ended = datetime.fromisoformat(batch["finished_at"]).timestamp()
    spent = Spent(ended - started, count_cpu(process) - cpu)
    if batch["counts"]["scored"] != len(items):
        raise RuntimeError(f"{batch['counts']}\n{site.log()}")
    return spent


@contextmanager
def open_site(folder: Path, base_url: str) -> Iterator[Site]:
    """Our service alone, embedded, on SQLite."""
    folder.mkdir(parents=True, exist_ok=True)
    judge = JudgeProcess()
    judge.port = urlsplit(base_url).port or 0
    made = Site(folder, judge, **SERVICE)
    try:
        made.start_service()
        yield made
    finally:
        made.stop()


def open_programs(report: Report) -> dict[str, Path]:
    """The interpreter of each peer that can be had; the others are said to be missing."""
    found = {}
    for peer in PEERS:
        try:
            found[peer.name] = open_environment(peer.package) if peer.package else Path(sys.executable)
        except Unavailable as error:
            report.skip("peers", peer.name, str(error))
    return found


@dataclass(frozen=True)
class Weight:
    """Judge calls, and characters and tokens of messages, of one item; no tokens without a tokenizer."""

    calls: float
    characters: float
    tokens: float


def read_scales(scales: Scales) -> Weight:
    return Weight(scales.calls / WEIGHED, scales.characters / WEIGHED, scales.tokens / WEIGHED)


def weigh(stage: Stage, peers: Sequence[Peer], count: Callable[[str], int] | None) -> tuple[Weight, dict[str, Weight]]:
    """Ours, and that of each peer by name, of a few items."""
    work = write_work(WEIGHED, seed=0, warm=0)
    found = {}
    for peer in peers:
        with open_scales(peer.answer, count) as scales:
            stage.run(peer, work, scales.base_url)
            found[peer.name] = read_scales(scales)
    with open_scales(TEXT, count) as scales, open_site(stage.folder / "weighed", scales.base_url) as site:
        run_ours(site, work, "items", "weighed")
        return read_scales(scales), found


def time_rounds(
    stage: Stage, peers: Sequence[Peer], latency_ms: float, items: int, rounds: int
) -> tuple[list[Spent], dict[str, list[Spent]]]:
    """Ours, and each peer's by name, round by round."""
    ours: list[Spent] = []
    theirs: dict[str, list[Spent]] = {peer.name: [] for peer in peers}
    with ExitStack() as stack:
        judges = {peer.name: stack.enter_context(fast_judge(latency_ms, text=peer.answer)) for peer in peers}
        judge = stack.enter_context(fast_judge(latency_ms))
        site = stack.enter_context(open_site(stage.folder / f"ours-{latency_ms:g}", judge.base_url))
        run_ours(site, write_work(0, seed=0, warm=50), "warm", "warm")
        for number in range(rounds):
            work = write_work(items, seed=1000 * int(latency_ms) + number + 1)
            ours.append(run_ours(site, work, "items", f"round-{number}"))
            for peer in peers:
                judges[peer.name].turn(reset=True)
                spent = stage.run(peer, work, judges[peer.name].base_url)
                stats = judges[peer.name].stats()
                calls = stats["requests"] / (items + len(work["warm"]))
                theirs[peer.name].append(Spent(spent.wall_seconds, spent.cpu_seconds, calls, stats["peak"]))
    return ours, theirs


def report_times(
    report: Report, peers: Sequence[Peer], latency_ms: float, items: int, found: tuple[list[Spent], Any]
) -> None:
    """Seconds, then CPU, beside each peer."""
    ours, theirs = found
    limit = Beside("the judge's own time", items * latency_ms / 1000 / IN_FLIGHT) if latency_ms else None
    for peer in peers:
        spent: list[Spent] = theirs[peer.name]
        calls, peak = max(one.calls for one in spent), max(one.peak for one in spent)
        flight = f", {peak:g} in flight at most" if latency_ms else ""
        report.add(
            Figure(
                "peers",
                f"{items} items, judge {latency_ms:g} ms",
                "s",
                [one.wall_seconds for one in ours],
                peer=Beside(peer.label, [one.wall_seconds for one in spent]),
                limit=limit,
                target=at_most(1, of="peer"),
                note=f"{calls:g} calls an item{flight}; stores {peer.stores}",
            )
        )
    for peer in peers:
        report.add(
            Figure(
                "peers",
                f"CPU an item, judge {latency_ms:g} ms",
                "ms",
                [1000 * one.cpu_seconds / items for one in ours],
                peer=Beside(peer.label, [1000 * one.cpu_seconds / items for one in theirs[peer.name]]),
                target=at_most(1, of="peer"),
            )
        )


def report_weights(report: Report, stage: Stage, peers: Sequence[Peer]) -> None:
    """Calls, characters and tokens beside each peer."""
    units = {"calls": "judge calls an item", "characters": "sent an item", "tokens": "sent an item, tokens"}
    try:
        vocabulary, count = open_tokenizer()
    except NoTokenizer as error:
        vocabulary, count = "", None
        report.skip("peers", units.pop("tokens"), str(error))
    ours, theirs = weigh(stage, peers, count)
    for unit, name in units.items():
        for peer in peers:
            other = Beside(peer.label, getattr(theirs[peer.name], unit))
            note = f"counted by {vocabulary}" if unit == "tokens" else ""
            report.add(Figure("peers", name, unit, getattr(ours, unit), peer=other, note=note, once=True))


def measure(report: Report, *, quick: bool = False) -> None:
    """Every peer that can be had, at every latency."""
    items, rounds, latencies = (20, 1, (0.0,)) if quick else (ITEMS, ROUNDS, LATENCIES_MS)
    report.say(f"  {items} dialogues × six questions, {IN_FLIGHT} calls in flight, rounds in turns")
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        stage = Stage(Path(name), open_programs(report))
        peers = [peer for peer in PEERS if peer.name in stage.programs]
        report_weights(report, stage, peers)
        for latency_ms in latencies:
            report_times(report, peers, latency_ms, items, time_rounds(stage, peers, latency_ms, items, rounds))


if __name__ == "__main__":
    run_alone(measure, __doc__)
