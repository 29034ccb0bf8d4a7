"""What of a batch grows with it, as figures: rates, memory and reads at the largest size beside the smallest.

    python -m benchmarks.scale_growth      # 1 k, 10 k and 100 k items; `benchmarks.scale` has all columns, and 1 M

A rate is flat where it is at least 1 / 1.25 of that at the smallest size, memory and time where they are at most 1.25
of it; a read may also take 25 ms more.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence

from benchmarks.record import Beside, Figure, Report, at_least, at_most, run_alone
from benchmarks.scale import FLAT, FLAT_MS, SIZES, Row, measure_stage, show_table
from tests.support.services import find_binary

NAME = "scale"
QUICK_SIZES = (200, 1000)
WORKERS = 2
LABELS = {
    "intake_per_second": "taken in",
    "work_per_second": "scored",
    "intake_peak_mb": "memory while taken in, most",
    "work_steady_mb": "memory while scored, of who scores",
    "service_steady_mb": "memory while scored, of the service",
}


def measure(report: Report, *, quick: bool = False) -> None:
    """Embedded, and on servers where they are."""
    sizes = QUICK_SIZES if quick else SIZES
    for kind in ("embedded", "servers"):
        if kind == "servers" and (find_binary("initdb") is None or shutil.which("redis-server") is None):
            report.skip(NAME, kind, "it needs the binaries of PostgreSQL and Redis")
            continue
        options = argparse.Namespace(items=sizes, workers=WORKERS, judge="fast", latency_ms=0.0, folder=None, json=None)
        rows = measure_stage(kind, options)
        show_table(rows)
        for figure in compare(kind, rows):
            report.add(figure)


def compare(kind: str, rows: Sequence[Row]) -> list[Figure]:
    """A figure each measure that is to be flat: the last size's, with the first size's as its limit."""
    first, last = rows[0], rows[-1]
    where, limit = f"{kind}, {last.items:,} items", f"at {first.items:,} items"
    found = []
    for column, label in LABELS.items():
        one, other = getattr(first, column), getattr(last, column)
        if one:
            rate = column.endswith("per_second")
            found.append(
                Figure(
                    NAME,
                    f"{where}: {label}",
                    "items/s" if rate else "MB",
                    other,
                    limit=Beside(limit, one),
                    target=at_least(round(1 / FLAT, 2), of="limit") if rate else at_most(FLAT, of="limit"),
                    better="higher" if rate else "lower",
                    once=True,
                )
            )
    for name, one in first.reads_ms.items():
        if name in last.reads_ms:
            bound = at_most(round(max(FLAT * one, one + FLAT_MS), 1))
            beside = Beside(limit, one)
            found.append(
                Figure(NAME, f"{where}: {name}", "ms", last.reads_ms[name], limit=beside, target=bound, once=True)
            )
    return found


if __name__ == "__main__":
    run_alone(measure, __doc__)
