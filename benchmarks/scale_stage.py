"""What the benchmark of scale runs on: service, workers and a fast judge as processes, and what is seen of them."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks.fast_judge import FastJudge, fast_judge
from tests.support.services import free_port, private_postgres, redis_on
from tests.support.site import JudgeProcess, Site

EVERY_SECONDS = 0.1
"""Between two looks at the processes' memory."""

LIMITS = {"SAITEN_LIMITS__BATCH_ITEMS": "10000000", "SAITEN_LIMITS__BATCH_BYTES": str(2**40)}
"""A contract's batch has at most 100,000 candidates; an operator may raise that, and this one does."""

QUIET = {
    **LIMITS,
    "SAITEN_LOG_LEVEL": "warning",
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
    "SAITEN_JUDGE_CONCURRENCY": "200",
}


class LentJudge(JudgeProcess):
    """A judge that somebody else has started and will end."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self._base_url = base_url

    @property
    def base_url(self) -> str:
        return self._base_url


@dataclass(frozen=True)
class Stage:
    """Where batches are measured: `kind` is `embedded` or `servers`. Processes are started anew for every size."""

    kind: str
    folder: Path
    workers: int
    variables: Mapping[str, str]
    judge: FastJudge | None

    @contextmanager
    def started(self) -> Iterator[Site]:
        """Service and workers on the stage's database."""
        lent = LentJudge(self.judge.base_url if self.judge else "http://127.0.0.1:9/v1")
        made = Site(self.folder, lent, **self.variables)
        made.client.timeout = None
        try:
            made.start_service()
            made.start_workers(self.workers)
            yield made
        finally:
            made.stop()

    @property
    def sqlite(self) -> Path:
        return self.folder / "saiten.db"

    @property
    def postgres(self) -> str:
        return self.variables["DATABASE_URL"].replace("+asyncpg", "")

    def measure(self) -> dict[str, float]:
        """Bytes of the database and, with servers, of Redis; bytes of the write-ahead log, transactions and CPU seconds
        of both servers so far."""
        if self.kind == "embedded":
            files = [self.sqlite, self.sqlite.with_name(self.sqlite.name + "-wal")]
            return {"database": float(sum(file.stat().st_size for file in files if file.exists()))}
        return asyncio.run(ask_postgres(self.postgres)) | ask_redis(self.variables["REDIS_URL"])

    def settle(self) -> None:
        """Leaves the database as an hour of autovacuum would: with statistics of what it holds."""
        if self.kind == "servers":
            asyncio.run(tell_postgres(self.postgres, "VACUUM (ANALYZE)"))

    def tables(self) -> dict[str, float]:
        """Bytes by table with its indexes, the largest first; nothing of SQLite, whose builds seldom tell."""
        return asyncio.run(list_tables(self.postgres)) if self.kind == "servers" else {}


@contextmanager
def stage(kind: str, folder: Path, *, workers: int, judge: str, latency_ms: float) -> Iterator[Stage]:
    """A stage whose servers run as long as the context lasts. PostgreSQL writes to the disk before it answers."""
    with ExitStack() as held:
        lent = held.enter_context(fast_judge(latency_ms)) if judge == "fast" else None
        variables = {**QUIET, "SAITEN_JUDGE": "openai" if lent else "lexical"}
        if kind == "servers":
            variables["DATABASE_URL"] = held.enter_context(private_postgres(durable=True))
            variables["REDIS_URL"] = held.enter_context(redis_on(free_port()))
        yield Stage(kind, folder, workers if kind == "servers" else 0, variables, lent)


async def connect(url: str) -> Any:
    """A connection to PostgreSQL, to be closed."""
    import asyncpg

    return await asyncpg.connect(url)


async def ask_postgres(url: str) -> dict[str, float]:
    """Sizes and counts of the server since it was made."""
    connection = await connect(url)
    try:
        row = await connection.fetchrow(
            "SELECT pg_database_size(current_database()) AS database,"
            " pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS wal,"
            " (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS transactions,"
            " pg_backend_pid() AS process"
        )
        found = {name: float(value) for name, value in row.items() if name != "process"}
        return found | {"database_cpu": use_family_cpu(psutil.Process(row["process"]).parent())}
    finally:
        await connection.close()


async def list_tables(url: str) -> dict[str, float]:
    connection = await connect(url)
    try:
        rows = await connection.fetch(
            "SELECT relname, pg_total_relation_size(oid) AS bytes FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC"
        )
        return {row["relname"]: float(row["bytes"]) for row in rows}
    finally:
        await connection.close()


async def tell_postgres(url: str, statement: str) -> None:
    connection = await connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def use_family_cpu(process: psutil.Process | None) -> float:
    """CPU seconds of a process and of its children, those that have ended too."""
    if process is None:
        return 0.0
    own = process.cpu_times()
    living = use_cpu(process.children(recursive=True))
    return float(own.user + own.system + own.children_user + own.children_system + living)


def ask_redis(url: str) -> dict[str, float]:
    """Bytes that Redis holds, and the CPU seconds that it used."""
    import redis

    with redis.Redis.from_url(url) as client:
        used = client.info("cpu")
        return {
            "redis": float(client.info("memory")["used_memory"]),
            "redis_cpu": used["used_cpu_user"] + used["used_cpu_sys"],
        }


@dataclass
class Seen:
    """One process in one phase: its memory at each look (bytes), and the CPU seconds that it used."""

    rss: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def peak_mb(self) -> float:
        return max(self.rss, default=0) / 1e6

    @property
    def steady_mb(self) -> float:
        """The median of the phase's last half."""
        return statistics.median(self.rss[len(self.rss) // 2 :]) / 1e6 if self.rss else 0.0


class Watch:
    """Looks at the processes of a site from a thread, phase by phase."""

    def __init__(self, made: Site) -> None:
        if made.service is None:
            raise RuntimeError("the service does not run")
        self._service = psutil.Process(made.service.pid)
        self._workers = [psutil.Process(worker.pid) for worker in made.workers]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._phase: tuple[Seen, Seen] = (Seen(), Seen())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    @contextmanager
    def phase(self) -> Iterator[tuple[Seen, Seen]]:
        """What the service and the largest of the workers do meanwhile; CPU is that of all workers together."""
        before = self._use()
        self._phase = found = (Seen(), Seen())
        yield found
        for seen, used, since in zip(found, self._use(), before, strict=True):
            seen.cpu_seconds = used - since

    def _use(self) -> tuple[float, float]:
        return use_cpu([self._service]), use_cpu(self._workers)

    def _look(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            service, workers = self._phase
            try:
                service.rss.append(self._service.memory_info().rss)
                if self._workers:
                    workers.rss.append(max(worker.memory_info().rss for worker in self._workers))
            except psutil.NoSuchProcess:
                return


def use_cpu(processes: list[psutil.Process]) -> float:
    """CPU seconds of the processes themselves so far: the one that draws charts is left out."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def wait_while(true: Any, every_seconds: float, most_seconds: float) -> None:
    """Returns once it is false; raises TimeoutError where it stays true."""
    until = time.monotonic() + most_seconds
    while true():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {most_seconds:g} s")
        time.sleep(every_seconds)
