"""Batches from 1 k to 1 M items: whether items/s, memory and the time of a page stay what they are at 1 k.

    python -m benchmarks.scale                              # 1 k, 10 k, 100 k, embedded and, where they are, on servers
    python -m benchmarks.scale --items 1000 1000000         # 1 M takes a quarter of an hour each
    python -m benchmarks.scale --servers --workers 2        # Redis and PostgreSQL only; --embedded for SQLite only
    python -m benchmarks.scale --judge lexical              # the embedded judge in place of a fast one over HTTP
    python -m benchmarks.scale --plan scale.json            # what an earlier run (`--json`) amounts to at 1 G a month

Each size is one batch, streamed in as NDJSON, onto the same database, so that what is stored grows too; service and
workers are started anew for each. The judge answers at once, so what is seen is Saiten and its database alone. A batch
has at most 100,000 candidates by default (`SAITEN_LIMITS__BATCH_ITEMS`); here the limit is raised, for one large batch
is harder than ten small ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.dashboard_results import pose
from benchmarks.ending import end_on_sigterm
from benchmarks.scale_plan import show_plan
from benchmarks.scale_reads import time_export, time_reads
from benchmarks.scale_stage import Seen, Stage, Watch, stage, wait_while
from tests.support.services import find_binary
from tests.support.site import Site

SIZES = (1_000, 10_000, 100_000)
WARM_ITEMS = 400
PIECE_BYTES = 64 * 1024
SLOWEST_PER_SECOND = 50
FLAT = 1.25
"""What grows by no more than this from the smallest size is called flat."""

FLAT_MS = 25.0
"""Nor is a read called grown that takes less than this more."""


@dataclass
class Row:
    """One batch. Rates are items a second, memory is MB (10^6), CPU ms an item, sizes bytes an item; 0 where the stage
    has no such part. `worker_` is of the process that scores: embedded, that is the service."""

    kind: str
    items: int
    body_mb: float = 0.0
    post_seconds: float = 0.0
    answer_seconds: float = 0.0
    intake_per_second: float = 0.0
    intake_cpu_ms: float = 0.0
    intake_peak_mb: float = 0.0
    work_seconds: float = 0.0
    work_per_second: float = 0.0
    work_cpu_ms: float = 0.0
    work_peak_mb: float = 0.0
    work_steady_mb: float = 0.0
    service_steady_mb: float = 0.0
    reads_peak_mb: float = 0.0
    database_bytes: float = 0.0
    wal_bytes: float = 0.0
    redis_bytes: float = 0.0
    transactions: float = 0.0
    database_cpu_ms: float = 0.0
    redis_cpu_ms: float = 0.0
    export_start_ms: float = 0.0
    exported_per_second: float = 0.0
    reads_ms: dict[str, float] = field(default_factory=dict)
    tables: dict[str, float] = field(default_factory=dict)


@dataclass
class Body:
    """A batch as NDJSON, made while it is sent; `ended` is when its last byte went out."""

    name: str
    items: int
    size_bytes: int = 0
    ended: float = 0.0

    def __iter__(self) -> Iterator[bytes]:
        piece = bytearray(json.dumps({"name": self.name, "relevance": None}).encode() + b"\n")
        for number in range(self.items):
            piece += write_item(self.name, number)
            if len(piece) >= PIECE_BYTES:
                self.size_bytes += len(piece)
                yield bytes(piece)
                piece.clear()
        self.size_bytes += len(piece)
        if piece:
            yield bytes(piece)
        self.ended = time.perf_counter()


def write_item(name: str, number: int) -> bytes:
    """An item's line: three utterances and a response of some 45 characters each, as in open dialogue data."""
    posed = pose(number, 0)
    context = [{"speaker": said.speaker, "text": said.text} for said in posed.context]
    item = {"id": f"dialogue-{number}", "context": context, "response": f"{posed.response}（{name}）"}
    return json.dumps(item, ensure_ascii=False).encode() + b"\n"


def post(made: Site, name: str, items: int) -> tuple[str, Body, float, float]:
    """Streams a batch in: its id, its body, seconds until the answer, and of these after the last byte."""
    body = Body(name, items)
    started = time.perf_counter()
    answer = made.client.post("/v1/batches", content=iter(body), headers={"Content-Type": "application/x-ndjson"})
    ended = time.perf_counter()
    if answer.status_code != 202:
        raise RuntimeError(f"{answer.status_code} {answer.text}\n{made.log()}")
    return str(answer.json()["id"]), body, ended - started, ended - body.ended


def work_off(made: Site, batch_id: str, items: int) -> float:
    """Seconds from the first chunk that was taken to the batch's end."""
    pause = min(2.0, max(0.2, items / 20_000))
    wait_while(lambda: made.batch(batch_id)["status"] != "completed", pause, 60 + items / SLOWEST_PER_SECOND)
    batch = made.batch(batch_id)
    if batch["counts"]["scored"] != items:
        raise RuntimeError(f"{batch['counts']}\n{made.log()}")
    begun, ended = (datetime.fromisoformat(batch[moment]) for moment in ("started_at", "finished_at"))
    return (ended - begun).total_seconds()


def measure_size(stage: Stage, items: int) -> Row:
    """One batch of that size, from its POST to its last page."""
    row = Row(stage.kind, items)
    with stage.started() as made, Watch(made) as watch:
        warm, *_ = post(made, f"warm {items}", WARM_ITEMS)
        work_off(made, warm, WARM_ITEMS)
        before = stage.measure()
        with watch.phase() as (service, workers):
            batch_id, body, row.post_seconds, row.answer_seconds = post(made, f"run {items}", items)
        row.body_mb, row.intake_per_second = body.size_bytes / 1e6, items / row.post_seconds
        row.intake_cpu_ms, row.intake_peak_mb = 1000 * service.cpu_seconds / items, service.peak_mb
        with watch.phase() as (service, workers):
            row.work_seconds = work_off(made, batch_id, items)
        note_work(row, service, workers if stage.workers else service)
        note_storage(row, before, stage.measure())
        stage.settle()
        with watch.phase() as (service, _):
            row.reads_ms = time_reads(made.client, batch_id, items)
            for name, value in time_export(made.client, batch_id, items).items():
                setattr(row, name, value)
        row.reads_peak_mb, row.tables = service.peak_mb, stage.tables()
    return row


def note_work(row: Row, service: Seen, scoring: Seen) -> None:
    row.work_per_second = row.items / row.work_seconds
    row.work_cpu_ms = 1000 * scoring.cpu_seconds / row.items
    row.work_peak_mb, row.work_steady_mb = scoring.peak_mb, scoring.steady_mb
    row.service_steady_mb = service.steady_mb


def note_storage(row: Row, before: dict[str, float], after: dict[str, float]) -> None:
    grown = {name: (after[name] - before[name]) / row.items for name in after}
    row.database_bytes, row.wal_bytes = grown["database"], grown.get("wal", 0.0)
    row.redis_bytes, row.transactions = grown.get("redis", 0.0), grown.get("transactions", 0.0)
    row.database_cpu_ms = 1000 * grown.get("database_cpu", 0.0)
    row.redis_cpu_ms = 1000 * grown.get("redis_cpu", 0.0)


COLUMNS: Sequence[tuple[str, str, str]] = (
    ("items", "items", ",d"),
    ("POST s", "post_seconds", ".1f"),
    ("of it after last byte", "answer_seconds", ".1f"),
    ("in/s", "intake_per_second", ",.0f"),
    ("in CPU ms", "intake_cpu_ms", ".3f"),
    ("in peak MB", "intake_peak_mb", ".0f"),
    ("work/s", "work_per_second", ",.0f"),
    ("work CPU ms", "work_cpu_ms", ".3f"),
    ("work peak MB", "work_peak_mb", ".0f"),
    ("steady MB", "work_steady_mb", ".0f"),
    ("API steady MB", "service_steady_mb", ".0f"),
    ("reads peak MB", "reads_peak_mb", ".0f"),
    ("DB B/item", "database_bytes", ",.0f"),
    ("WAL B/item", "wal_bytes", ",.0f"),
    ("Redis B/item", "redis_bytes", ",.0f"),
    ("tx/item", "transactions", ".3f"),
    ("DB CPU ms", "database_cpu_ms", ".3f"),
    ("Redis CPU ms", "redis_cpu_ms", ".3f"),
)
FLAT_COLUMNS = ("intake_per_second", "work_per_second", "intake_peak_mb", "work_steady_mb", "service_steady_mb")


def show_table(rows: Sequence[Row]) -> None:
    """A line a measure, a column a size, and the last size's ratio to the first."""
    head = "".join(f"{row.items:>14,d}" for row in rows)
    print(f"  {'items of a batch':24}{head}   last ÷ first")
    for label, name, form in COLUMNS[1:]:
        values = [getattr(row, name) for row in rows]
        if any(values):
            print(f"  {label:24}{''.join(f'{value:>14{form}}' for value in values)}{tell_growth(values)}")
    print("  ms of")
    reads = {"export: first bytes": [row.export_start_ms for row in rows]}
    reads |= {name: [row.reads_ms.get(name, 0.0) for row in rows] for name in rows[0].reads_ms}
    for name, values in reads.items():
        print(f"    {name:22}{''.join(f'{value:>14.1f}' for value in values)}{tell_growth(values)}")
    rates = [row.exported_per_second for row in rows]
    print(f"  {'exported/s':24}{''.join(f'{value:>14,.0f}' for value in rates)}{tell_growth(rates)}")


def tell_growth(values: Sequence[float]) -> str:
    return f"{values[-1] / values[0]:>12.2f} x" if len(values) > 1 and values[0] else ""


def judge_growth(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By measure that is to be flat: the last size's ratio to the first, and whether it is."""
    first, last = rows[0], rows[-1]
    found: dict[str, dict[str, Any]] = {}
    for name in FLAT_COLUMNS:
        one, other = getattr(first, name), getattr(last, name)
        if not one:
            continue
        ratio = other / one
        grown = 1 / ratio if name.endswith("per_second") else ratio
        found[name] = {"ratio": round(ratio, 2), "flat": grown <= FLAT}
    for name, one in first.reads_ms.items():
        if name in last.reads_ms:
            other = last.reads_ms[name]
            found[name] = {"ratio": round(other / one, 2), "flat": other <= max(FLAT * one, one + FLAT_MS)}
    return found


def measure_stage(kind: str, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="saiten-scale-", dir=options.folder) as folder,
        stage(kind, Path(folder), workers=options.workers, judge=options.judge, latency_ms=options.latency_ms) as built,
    ):
        for items in sorted(options.items):
            rows.append(measure_size(built, items))
            row = rows[-1]
            print(
                f"  … {items:,d} items: in {row.intake_per_second:,.0f}/s, worked off {row.work_per_second:,.0f}/s,"
                f" load {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores",
                flush=True,
            )
            if options.json:
                Path(options.json).with_suffix(f".{kind}.partial").write_text(json.dumps([asdict(one) for one in rows]))
    return rows


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=list(SIZES))
    parser.add_argument(
        "--embedded", action="store_true", help="SQLite, all in one process; the default with --servers"
    )
    parser.add_argument("--servers", action="store_true", help="PostgreSQL, Redis and workers")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--judge", choices=("fast", "lexical"), default="fast")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="of the fast judge")
    parser.add_argument("--folder", help="where SQLite's file goes while it is needed")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plan", metavar="FILE", help="reckon with the figures in FILE, and measure nothing")
    options = parser.parse_args([] if arguments is None else arguments)
    if options.plan:
        found: dict[str, Any] = json.loads(Path(options.plan).read_text(encoding="utf-8"))
        show_plan(found["servers"]["rows"][-1])
        return found
    end_on_sigterm()
    chosen = [kind for kind in ("embedded", "servers") if getattr(options, kind)] or ["embedded", "servers"]
    if find_binary("initdb") is None or shutil.which("redis-server") is None:
        if "servers" in chosen:
            print("  servers: not measured, they need the binaries of PostgreSQL and Redis")
        chosen = [kind for kind in chosen if kind != "servers"]
    found = {}
    for kind in chosen:
        where = "SQLite, one process" if kind == "embedded" else f"PostgreSQL, Redis, {options.workers} workers"
        print(f"scale: {kind} ({where}), judge {options.judge}, {options.latency_ms:g} ms", flush=True)
        rows = measure_stage(kind, options)
        show_table(rows)
        growth = judge_growth(rows) if len(rows) > 1 else {}
        grown = [f"{name} x {one['ratio']}" for name, one in growth.items() if not one["flat"]]
        print(f"  not flat: {', '.join(grown) or 'nothing'}", flush=True)
        found[kind] = {"rows": [asdict(row) for row in rows], "growth": growth}
        if kind == "servers":
            show_plan(asdict(rows[-1]))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
