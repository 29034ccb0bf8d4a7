"""How many spans a second are taken in, how long a POST of 512 takes at the rate that is wanted, and how memory grows.

    python -m benchmarks.traces                      # 100,000 spans into SQLite and, by two processes, into PostgreSQL
    python -m benchmarks.traces --quick              # 10,000
    python -m benchmarks.traces --spans 1000000      # a million; some minutes

Spans are those of conversations of ten turns, each with its history and ten attributes that nobody needs. Rates are
given by the clock and by the CPU seconds of the service's processes: on a shared machine only the latter say something.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import httpx
import psutil

from benchmarks.record import Figure, Report, at_least, at_most, run_alone
from tests.support.command import served
from tests.support.services import private_postgres
from tests.support.spans import export, talk

NAME = "traces"
SPANS, QUICK_SPANS = 100_000, 10_000
OF_BODY = 512
TURNS = 10
CALLERS = 2
PACED_BODIES = 60
TRACE, CONVERSATION = b"\x54" * 8, b"CCCCCCCC"
HEADERS = {"Content-Type": "application/x-protobuf"}


def make_template() -> bytes:
    """A body of 512 spans, in which ids are to be replaced."""
    spans = []
    for number in range(0, OF_BODY, TURNS):
        spans += talk(TURNS, f"{CONVERSATION.decode()}-{number}", first=number)
    request = export(spans[:OF_BODY])
    for of_resource in request.resource_spans:
        span = of_resource.scope_spans[0].spans[0]
        span.trace_id = TRACE + span.trace_id[8:]
        for number in range(10):
            span.attributes.add(key=f"app.detail.{number}").value.string_value = "x" * 20
    return bytes(request.SerializeToString())


def make_bodies(count: int) -> Iterator[bytes]:
    """So many bodies, each of spans of its own."""
    template = make_template()
    for number in range(1, count + 1):
        own = template.replace(CONVERSATION, f"{number:08x}".encode())
        yield own.replace(TRACE, (number + 2**62).to_bytes(8, "big"))


class Callers:
    """Send bodies to the services, and note how long each took: as fast as they are answered, or `per_second`."""

    def __init__(
        self,
        urls: Sequence[str],
        bodies: Iterator[bytes],
        processes: Sequence[psutil.Process],
        per_second: float | None = None,
    ) -> None:
        self._bodies, self._urls, self._processes = bodies, urls, processes
        self._gap = 0.0 if per_second is None else 1 / per_second
        self._due = time.perf_counter()
        self._lock = threading.Lock()
        self.seconds: list[float] = []
        self.memory: list[float] = []
        self.refused = 0

    def run(self) -> float:
        """Sends all; returns the seconds that it took."""
        threads = [
            threading.Thread(target=self._send, args=(url,), daemon=True) for url in self._urls for _ in range(CALLERS)
        ]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - begun

    def _send(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as client:
            while True:
                with self._lock:
                    body = next(self._bodies, None)
                    self.memory.append(sum(one.memory_info().rss for one in self._processes) / 2**20)
                    begun = self._due = max(self._due + self._gap, 0 if self._gap else time.perf_counter())
                if body is None:
                    return
                time.sleep(max(0.0, begun - time.perf_counter()))
                answer = client.post("/v1/traces", content=body, headers=HEADERS)
                self.refused += answer.status_code != 200 or bool(answer.content)
                self.seconds.append(time.perf_counter() - begun)


def count_cpu(processes: Sequence[psutil.Process]) -> float:
    """The CPU seconds of the processes so far."""
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def measure_database(
    report: Report, name: str, settings: dict[str, str], *, processes: int, spans: int, rate: int
) -> None:
    """Sends spans to services on one database. `rate` are the spans a second that all are to take together."""
    with ExitStack() as stack:
        services = []
        for _ in range(processes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saiten-bench-")))
            services.append(stack.enter_context(served(folder, **settings)))
        running = [psutil.Process(process.pid) for _, process in services]
        urls = [url for url, _ in services]
        bodies = make_bodies(spans // OF_BODY + PACED_BODIES)
        callers = Callers(urls, islice(bodies, spans // OF_BODY), running)
        before = count_cpu(running)
        seconds = callers.run()
        cpu = count_cpu(running) - before
        paced = Callers(urls, bodies, running, per_second=rate / OF_BODY)
        paced.run()
    if callers.refused or paced.refused:
        raise RuntimeError(f"{callers.refused + paced.refused} bodies were refused")
    sent = len(callers.seconds) * OF_BODY
    note = f"{sent:,} spans, {processes} process(es), {sent / seconds:,.0f} a second by the clock"
    wanted = at_least(rate / processes)
    report.add(Figure(NAME, f"{name}, spans per CPU second", "1/s", sent / cpu, target=wanted, note=note))
    p99 = statistics.quantiles(paced.seconds, n=100)[98]
    note = f"at {rate:,} spans a second, median {1000 * statistics.median(paced.seconds):.0f} ms"
    report.add(Figure(NAME, f"{name}, p99 of a POST of {OF_BODY}", "ms", 1000 * p99, target=at_most(250), note=note))
    quarter = max(1, len(callers.memory) // 4)
    grown = statistics.median(callers.memory[-quarter:]) - statistics.median(callers.memory[quarter : 2 * quarter])
    note = f"from the second to the last quarter; {max(callers.memory):.0f} MiB at most"
    report.add(Figure(NAME, f"{name}, memory grown", "MiB", grown, note=note))


def measure(report: Report, *, quick: bool = False) -> None:
    """Measures both databases."""
    spans = QUICK_SPANS if quick else SPANS
    if "--spans" in sys.argv:
        spans = int(sys.argv.pop(sys.argv.index("--spans") + 1))
        sys.argv.remove("--spans")
    common = {"SAITEN_LOG_LEVEL": "error", "SAITEN_JUDGE": "lexical", "SAITEN_ENCODER": "off"}
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as folder:
        url = f"sqlite+aiosqlite:///{folder}/traces.db"
        measure_database(report, "SQLite", {**common, "DATABASE_URL": url}, processes=1, spans=spans, rate=1_000)
    with private_postgres() as url:
        measure_database(report, "PostgreSQL", {**common, "DATABASE_URL": url}, processes=2, spans=spans, rate=5_000)


if __name__ == "__main__":
    run_alone(measure, __doc__)
