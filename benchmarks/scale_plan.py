"""What the figures of one measured batch amount to at a billion evaluations a month: plain multiplication, shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ITEMS_A_MONTH = 1e9
DAYS = 30
SECONDS = DAYS * 86_400
PEAK = 3.0
"""The busiest hour, in means."""

BUSY = 0.6
"""Share of a core that is planned for: above it waiting times grow."""

CACHE_GB = 64.0
SERVER_CORES = 16


def plan(row: Mapping[str, Any]) -> dict[str, float]:
    """Machines, bytes and limits out of a row of `benchmarks.scale` on servers. Cores are those of the peak."""
    mean = ITEMS_A_MONTH / SECONDS
    peak = PEAK * mean
    return {
        "mean_per_second": mean,
        "peak_per_second": peak,
        "worker_cores": cores(row["work_cpu_ms"], peak),
        "service_cores": cores(row["intake_cpu_ms"], peak),
        "database_cores": cores(row["database_cpu_ms"], peak),
        "redis_cores": cores(row["redis_cpu_ms"], peak),
        "database_tb_a_month": row["database_bytes"] * ITEMS_A_MONTH / 1e12,
        "wal_mb_per_second": row["wal_bytes"] * peak / 1e6,
        "wal_tb_a_month": row["wal_bytes"] * ITEMS_A_MONTH / 1e12,
        "cache_gb_a_day": row["redis_bytes"] * mean * 86_400 / 1e9,
        "cache_hours": CACHE_GB * 1e9 / (row["redis_bytes"] * mean) / 3600 if row["redis_bytes"] else 0.0,
        "most_per_second_of_a_worker": 1000 / row["work_cpu_ms"],
        "most_per_second_of_a_database": BUSY * SERVER_CORES * 1000 / row["database_cpu_ms"],
    }


def cores(cpu_ms: float, per_second: float) -> float:
    """Cores that so many items a second keep `BUSY`."""
    return cpu_ms * per_second / 1000 / BUSY


def show_plan(row: Mapping[str, Any]) -> None:
    """Prints the plan with the multiplications."""
    if not row["database_cpu_ms"] or not row["work_cpu_ms"]:
        print("  1 G a month: not reckoned, the processes' CPU was too little to be measured; take a larger batch")
        return
    made = plan(row)
    mean, peak = made["mean_per_second"], made["peak_per_second"]
    print(f"  1 G evaluations a month, from the batch of {row['items']:,d} on servers")
    lines = [
        ("items/s, mean", f"10^9 ÷ ({DAYS} × 86,400 s)", f"{mean:,.0f}"),
        ("items/s, peak", f"{mean:,.0f} × {PEAK:g}", f"{peak:,.0f}"),
    ]
    for part, name in (("workers", "work"), ("the API", "intake"), ("PostgreSQL", "database"), ("Redis", "redis")):
        cpu_ms = row[f"{name}_cpu_ms"]
        needed = f"{peak:,.0f}/s × {cpu_ms:.3f} ms ÷ {BUSY:g}"
        lines.append((f"cores of {part}", needed, f"{cores(cpu_ms, peak):.2f}"))
    lines += [
        ("PostgreSQL grows", f"10^9 × {row['database_bytes']:,.0f} B", f"{made['database_tb_a_month']:.2f} TB a month"),
        ("its write-ahead log", f"10^9 × {row['wal_bytes']:,.0f} B", f"{made['wal_tb_a_month']:.2f} TB a month"),
        ("at the peak", f"{peak:,.0f}/s × {row['wal_bytes']:,.0f} B", f"{made['wal_mb_per_second']:.1f} MB/s"),
        ("the call cache grows", f"{row['redis_bytes']:,.0f} B an item", f"{made['cache_gb_a_day']:.0f} GB a day"),
        (f"{CACHE_GB:g} GB of Redis hold", "", f"{made['cache_hours']:.0f} hours"),
        ("a worker does", f"1000 ÷ {row['work_cpu_ms']:.3f} ms", f"{made['most_per_second_of_a_worker']:,.0f}/s"),
        (
            f"a PostgreSQL of {SERVER_CORES} cores",
            f"{SERVER_CORES} × {BUSY:g} × 1000 ÷ {row['database_cpu_ms']:.3f} ms",
            f"{made['most_per_second_of_a_database']:,.0f}/s",
        ),
    ]
    for label, sum_, result in lines:
        print(f"    {label:26} {sum_:40} {result:>16}")
