"""How long a caller waits for what is stored of a batch, however much that is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import suppress

import httpx

from saiten_server.explorer.pages.exploration import LINES

PAGE = 200
VISITS = 9
EXPORTED = 20_000
"""Results after which an export is broken off: its rate is known by then."""

READS: Mapping[str, str] = {
    "batch": "/v1/batches/{id}",
    "summary": "/v1/batches/{id}/summary",
    "results, first 200": "/v1/batches/{id}/results?limit={page}",
    "results, middle": "/v1/batches/{id}/results?limit={page}&after={middle}",
    "results, last": "/v1/batches/{id}/results?limit={page}&after={last}",
    "list of batches": "/v1/batches",
    "page /": "/",
    "page of the run": "/runs/{id}",
    "items, worst first": "/explore?run={id}",
    "items, in order": "/explore?run={id}&sort=item",
    "items, middle page": "/explore?run={id}&page={middle_page}",
    "items, last page": "/explore?run={id}&page={last_page}",
    "items, by level": "/explore?run={id}&value=overall:5",
}
"""What is read, by name."""


def time_reads(client: httpx.Client, batch_id: str, items: int) -> dict[str, float]:
    """Milliseconds of each read, the median of `VISITS` after one that warms up; nothing of a page that fails."""
    values = {
        "id": batch_id,
        "page": min(PAGE, items),
        "middle": items // 2,
        "last": max(-1, items - PAGE - 1),
        "middle_page": max(1, items // LINES // 2),
        "last_page": -(-items // LINES),
    }
    found = {}
    for name, template in READS.items():
        path = template.format(**values)
        with suppress(httpx.HTTPStatusError):
            time_read(client, path)
            found[name] = round(statistics.median(time_read(client, path) for _ in range(VISITS)), 2)
    return found


def time_read(client: httpx.Client, path: str) -> float:
    """Milliseconds to the last byte."""
    accept = "application/json" if path.startswith("/v1") else "text/html"
    started = time.perf_counter()
    client.get(path, headers={"Accept": accept}).raise_for_status()
    return 1000 * (time.perf_counter() - started)


def time_export(client: httpx.Client, batch_id: str, items: int) -> dict[str, float]:
    """Milliseconds to an export's first bytes, and results a second from there."""
    wanted, lines = min(items, EXPORTED), 0
    started = time.perf_counter()
    begun = None
    with client.stream("GET", f"/v1/batches/{batch_id}/results") as answer:
        answer.raise_for_status()
        for piece in answer.iter_bytes():
            begun = begun or time.perf_counter()
            lines += piece.count(b"\n")
            if lines >= wanted:
                break
    ended = time.perf_counter()
    if begun is None or lines < wanted:
        raise RuntimeError(f"the export held {lines} of {wanted} results")
    return {
        "export_start_ms": round(1000 * (begun - started), 1),
        "exported_per_second": round(lines / (ended - started)),
    }
