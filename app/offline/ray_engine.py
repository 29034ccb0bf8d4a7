"""A run on Ray: an actor pool of Ray Data, each of whose processes scores blocks with many calls in flight.

The calls, tokens and money of all processes go through one named actor, or through Redis where REDIS_URL is set.
Results are written by the processes that make them, and not sent through Ray: a shard that Ray runs again, after the
death of a worker or a node, finds what it finished by its keys.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from saiten.core.messages import Message, rebuild
from saiten_server.core.errors import SaitenError, SettingsInvalid
from saiten_server.offline.inputs import Block, name_error
from saiten_server.offline.judging import LocalBudget, Silence
from saiten_server.offline.parts import SETTLE_ROWS, KeyIndex, Output, Writer
from saiten_server.offline.running import Job, OfflineTally, read_tally, score_blocks
from saiten_server.offline.scorer import SECRETS, WATCH_SECONDS, SharedParts
from saiten_server.offline.shared_flow import LIVE_SECONDS, FlowLedger, SharedFlowState
from saiten_server.platform.flow_state import Demand, FlowLimits, FlowReport, FlowState, Grant
from saiten_server.platform.settings import Settings, read_settings
from saiten_server.providers import registry

NAMESPACE = "saiten"
SHARD_ROWS = 2_000
"""Rows that a process is given at once, if a row group has no more."""

SHARDS_A_PROCESS = 4
RAY_CONNECT_SECONDS = 10.0


class RunLedger:
    """The actor that all processes of a run share: flow control, the budget, how long the judge is silent, and what
    stopped the run."""

    def __init__(
        self, bounds: FlowLimits, budget_usd: float | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._flow = FlowLedger(bounds, clock=clock)
        self._budget = None if budget_usd is None else LocalBudget(budget_usd)
        self._silences: dict[str, tuple[float, Silence]] = {}
        self._stopped: dict[str, Any] | None = None

    async def exchange(self, process: str, report: FlowReport, demand: Demand) -> Grant:
        """As of `FlowLedger`."""
        return await self._flow.exchange(process, report, demand)

    async def reopen(self) -> None:
        """As of `FlowLedger`."""
        await self._flow.reopen()

    async def leave(self, process: str) -> None:
        """As of `FlowLedger`."""
        await self._flow.leave(process)

    async def reserve(self, expected_usd: float) -> bool:
        """As of `Budget`; any sum without one."""
        return self._budget is None or await self._budget.reserve(expected_usd)

    async def settle(self, expected_usd: float, cost_usd: float) -> None:
        """As of `Budget`."""
        if self._budget is not None:
            await self._budget.settle(expected_usd, cost_usd)

    async def note_silence(self, process: str, silence: Silence) -> None:
        """Notes how long the judge has been silent for a process."""
        self._silences[process] = self._clock(), silence

    async def find_silence(self) -> Silence:
        """How long the judge has been silent for all processes, of those that said something lately."""
        now = self._clock()
        found = [silence for noted_at, silence in self._silences.values() if now - noted_at < LIVE_SECONDS]
        if not found:
            return Silence(0.0, 0, None)
        faults = [one.fault for one in found if one.fault is not None]
        failures = sum(one.failures for one in found)
        return Silence(min(one.seconds for one in found), failures, faults[0] if faults else None)

    async def stop(self, error: dict[str, Any]) -> None:
        """Notes the first error that stops the run."""
        self._stopped = self._stopped or error

    async def stopped(self) -> dict[str, Any] | None:
        """The error that stopped the run."""
        return self._stopped


class RayBudget:
    """`Budget` of a process of the run."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    async def reserve(self, expected_usd: float) -> bool:
        return bool(await self._ledger.reserve.remote(expected_usd))

    async def settle(self, expected_usd: float, cost_usd: float) -> None:
        await self._ledger.settle.remote(expected_usd, cost_usd)


def open_flow(ledger: Any, processes: int, settings: Settings) -> FlowState:
    """The state of flow control of a process, whose ledger is an actor."""
    from ray.exceptions import RayError

    name = secrets.token_hex(8)
    return SharedFlowState(
        lambda report, demand: ledger.exchange.remote(name, report, demand),
        bounds_of(settings),
        leave=partial(ledger.leave.remote, name),
        reopen=ledger.reopen.remote,
        processes=processes,
        failures=(RayError,),
    )


def bounds_of(settings: Settings) -> FlowLimits:
    """The limits of all processes together."""
    return FlowLimits(
        settings.judge_concurrency,
        settings.judge_requests_per_minute,
        settings.judge_tokens_per_minute,
        settings.longest_pause_seconds,
    )


@dataclass(frozen=True)
class RayRun:
    """What every process of a run is given. `shards` and `known` are references to objects of Ray, and `ledger` is the
    actor."""

    job: Job
    signature: str
    name: str
    shards: Any
    known: Any
    ledger: Any

    def label_of(self, shard: int) -> str:
        """What the names of the files of a shard begin with."""
        return f"{self.name}-{shard}-"


class ShardScorer:
    """What the actor pool runs: takes numbers of shards, and returns a tally of each as JSON."""

    def __init__(self, run: RayRun) -> None:
        import ray

        self._run = run
        self._shards = ray.get(run.shards)
        self._known = ray.get(run.known)
        self._since = time.monotonic()
        self._name = secrets.token_hex(8)
        self._noted_at = 0.0

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        return {"tally": [json.dumps(self._score(int(number))) for number in batch["item"]]}

    def _score(self, number: int) -> dict[str, Any]:
        import ray

        ledger, tally = self._run.ledger, OfflineTally()
        if ray.get(ledger.stopped.remote()) is None:
            try:
                self._score_shard(number, tally)
            except SaitenError as error:
                ray.get(ledger.stop.remote(write_error(error)))
        return {**tally.as_json(), "shard": number}

    def _score_shard(self, number: int, tally: OfflineTally) -> None:
        job = self._run.job
        if job.scorer.signature != self._run.signature:
            raise SettingsInvalid(Message("offline-worker-settings"))
        output, label = job.open_output(), self._run.label_of(number)
        # An earlier try of this shard, whose process died, may have finished some of it.
        index = KeyIndex(self._known, output.read_keys(output.list_labelled(label)))
        writer = Writer(output, job.scorer.make_table, label=label, since=self._since)
        score_blocks(job, self._shards[number], index=index, writer=writer, tally=tally, watch=self._note_silence)

    def _note_silence(self, silence: Silence) -> None:
        """Tells the ledger about every second."""
        now = time.monotonic()
        if now - self._noted_at >= WATCH_SECONDS:
            self._noted_at = now
            self._run.ledger.note_silence.remote(self._name, silence)


def write_error(error: SaitenError) -> dict[str, Any]:
    """An error as JSON."""
    return {"code": error.code, "message": error.message.id, "values": error.message.as_json()}


def read_error(value: dict[str, Any]) -> SaitenError:
    """The error that `write_error` wrote."""
    error = SaitenError(rebuild(value["message"], value["values"]))
    error.code = value["code"]
    return error


def cut_shards(blocks: Sequence[Block], processes: int) -> list[list[Block]]:
    """Blocks in groups of about `SHARD_ROWS` rows, fewer where there would not be several for each process; those of
    unknown length by themselves."""
    known = sum(block.rows or 0 for block in blocks)
    most = min(SHARD_ROWS, max(1, known // (SHARDS_A_PROCESS * processes)))
    shards: list[list[Block]] = []
    rows = most
    for block in blocks:
        size = most if block.rows is None else block.rows
        if rows + size > most:
            shards.append([])
            rows = 0
        shards[-1].append(block)
        rows += size
    return shards


def run_on_ray(
    job: Job,
    blocks: Sequence[Block],
    tally: OfflineTally,
    advance: Callable[[], None],
    *,
    address: str | None = None,
    workers: int | None = None,
    budget_usd: float | None = None,
    give_up_seconds: float | None = None,
    watch: Callable[[Silence], None] = lambda _: None,
) -> None:
    """Scores everything on a cluster, or on one of this machine without an `address`. `watch` is told about every
    second how long the judge is silent, in a thread of its own. Raises the error that stops the run, and
    SettingsInvalid where Ray is not installed; `tally` says what was done before."""
    output = job.open_output()
    output.begin(job.scorer.described)
    output.settle()
    settings = read_settings(**job.scorer.settings)
    with opened_ray(address, workers) as ray:
        resources = ray.cluster_resources()
        # A judge in the process takes a GPU of its own where the cluster has any.
        gpus = int(resources.get("GPU", 0)) if registry.find_judge(settings).in_process else 0
        processes = workers or gpus or max(1, int(resources.get("CPU", 1)))
        shards = cut_shards(blocks, processes)
        processes = max(1, min(processes, len(shards)))
        actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(RunLedger)
        name = secrets.token_hex(6)
        ledger = actor.options(name=f"ledger-{name}").remote(bounds_of(settings), budget_usd)
        budget = None if budget_usd is None else partial(RayBudget, ledger)
        shared = SharedParts(partial(open_flow, ledger, processes), budget, give_up_seconds)
        sent = replace(job, scorer=job.scorer.sharing(shared, settings=list_shareable(settings)))
        run = RayRun(sent, job.scorer.signature, name, ray.put(shards), ray.put(output.read_keys()), ledger)
        settling = Settling(output, run)
        with watching(partial(ask_silence, ledger), watch):
            for told in score_shards(run, len(shards), processes, gpus_each=min(1.0, gpus / processes)):
                one = read_tally(told)
                tally.merge(one)
                settling.take(told["shard"], one.scored)
                advance()
        stopped = ray.get(ledger.stopped.remote())
    output.settle()
    if stopped is not None:
        raise read_error(stopped)


def ask_silence(ledger: Any) -> Silence | None:
    """How long the judge is silent; None where the ledger does not say so soon."""
    import ray
    from ray.exceptions import RayError

    try:
        found: Silence = ray.get(ledger.find_silence.remote(), timeout=LIVE_SECONDS)
    except RayError:
        return None
    return found


@contextmanager
def watching(ask: Callable[[], Silence | None], watch: Callable[[Silence], None]) -> Iterator[None]:
    """Tells `watch` about every second, until the block ends."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(WATCH_SECONDS):
            if (silence := ask()) is not None:
                watch(silence)

    thread = threading.Thread(target=look, name="saiten-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Settling:
    """Puts the files of finished shards together, whenever they hold enough rows."""

    def __init__(self, output: Output, run: RayRun) -> None:
        self._output = output
        self._run = run
        self._shards: list[int] = []
        self._rows = 0

    def take(self, shard: int, rows: int) -> None:
        """Notes a finished shard."""
        self._shards.append(shard)
        self._rows += rows
        if self._rows >= SETTLE_ROWS:
            labels = [self._run.label_of(one) for one in self._shards]
            paths = [path for label in labels for path in self._output.list_labelled(label)]
            self._output.replace(paths)
            self._shards, self._rows = [], 0


def score_shards(run: RayRun, count: int, processes: int, *, gpus_each: float = 0.0) -> Iterator[dict[str, Any]]:
    """What `ShardScorer` tells of each shard, as they are done. Each process has so many GPUs, or a part of one."""
    import ray.data
    from ray.exceptions import RayError

    context = ray.data.DataContext.get_current()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context.enable_progress_bars = context.print_on_execution_start = False
    numbers = ray.data.from_items([*range(count)], override_num_blocks=max(1, count))
    pool = ray.data.ActorPoolStrategy(
        size=processes,
        # Two shards at a time: while the last rows of one wait for the judge, the next has begun.
        max_concurrent_calls_per_actor=2,
        enable_true_multi_threading=True,
    )
    scored = numbers.map_batches(
        ShardScorer, fn_constructor_args=(run,), batch_size=1, compute=pool, num_cpus=1, num_gpus=gpus_each or None
    )
    try:
        for row in scored.iter_rows():
            yield json.loads(row["tally"])
    except RayError as error:
        raise SaitenError(Message("offline-engine-failed", reason=name_error(error))) from error


def require_reachable(address: str | None) -> None:
    """Raises SaitenError where nothing listens at HOST:PORT: Ray itself would try for minutes."""
    host, separator, port = (address or "").removeprefix("ray://").rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), RAY_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SaitenError(Message("offline-engine-failed", reason=f"{address}: {name_error(error)}")) from error


@contextmanager
def opened_ray(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected to the cluster at the address, or to one of its own that ends with the block. It sends nothing to
    its makers. Raises SettingsInvalid where it is not installed, and SaitenError where the cluster is not reached."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
    except ImportError as error:
        raise SettingsInvalid(Message("offline-ray-missing")) from error
    require_reachable(address)
    own = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(address=address or "local", namespace=NAMESPACE, log_to_driver=False, logging_level="error", **own)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise SaitenError(Message("offline-engine-failed", reason=name_error(error))) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def list_shareable(settings: Settings) -> dict[str, Any]:
    """The settings in force that every process of the run is to have, without keys and passwords."""
    named = {name: getattr(settings, name) for name in settings.model_fields_set - SECRETS}
    return {name: value for name, value in named.items() if not (isinstance(value, str) and "@" in value)}
