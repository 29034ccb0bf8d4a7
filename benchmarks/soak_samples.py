"""How processes grow: their memory, descriptors and threads at times, and a line through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil


@dataclass(frozen=True)
class Sample:
    """One process at one time: seconds since the start, bytes, counts.

    Children are the process that draws charts; `descriptors` are those without connections that callers opened, which
    are as many as callers keep.
    """

    at_seconds: float
    rss_bytes: int
    child_rss_bytes: int
    descriptors: int
    callers: int
    threads: int
    cpu_seconds: float


def take_sample(process: psutil.Process, at_seconds: float) -> Sample:
    """Raises psutil.NoSuchProcess where it has ended."""
    children = 0
    for child in process.children(recursive=True):
        try:
            children += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    callers = count_callers(process)
    with process.oneshot():
        times = process.cpu_times()
        return Sample(
            at_seconds=at_seconds,
            rss_bytes=process.memory_info().rss,
            child_rss_bytes=children,
            descriptors=process.num_fds() - callers,
            callers=callers,
            threads=process.num_threads(),
            cpu_seconds=times.user + times.system,
        )


def count_callers(process: psutil.Process) -> int:
    """Connections to a port on which the process listens."""
    connections = process.net_connections("tcp")
    ports = {one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN}
    return sum(one.status != psutil.CONN_LISTEN and one.laddr.port in ports for one in connections)


def fit_growth(seconds: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Value at the start and growth over the whole, both of the straight line with the least squares."""
    slope, start = np.polyfit(np.asarray(seconds) - seconds[0], np.asarray(values), 1)
    return float(start), float(slope * (seconds[-1] - seconds[0]))


def describe_growth(samples: Sequence[Sample], warm_seconds: float) -> dict[str, Any]:
    """What one process was at its end, and what it gained after the warm-up; {} of too few samples."""
    rest = [sample for sample in samples if sample.at_seconds >= warm_seconds]
    if len(rest) < 3:
        return {}
    seconds = [sample.at_seconds for sample in rest]
    memory, gained = fit_growth(seconds, [float(sample.rss_bytes) for sample in rest])
    opened, more = fit_growth(seconds, [float(sample.descriptors) for sample in rest])
    half = [sample for sample in rest if sample.at_seconds >= (seconds[0] + seconds[-1]) / 2]
    _, later = fit_growth([one.at_seconds for one in half], [float(one.rss_bytes) for one in half])
    return {
        "rss_mb": round(rest[-1].rss_bytes / 1e6, 1),
        "peak_rss_mb": round(max(sample.rss_bytes for sample in samples) / 1e6, 1),
        "chart_process_mb": round(rest[-1].child_rss_bytes / 1e6, 1),
        "memory_growth_percent": round(100 * gained / memory, 2),
        "memory_growth_percent_of_last_half": round(100 * later / memory, 2),
        "descriptors": rest[-1].descriptors,
        "descriptor_mean": round(opened, 1),
        "descriptor_growth": round(more, 1),
        "most_descriptors": max(sample.descriptors for sample in samples),
        "callers_connections": rest[-1].callers,
        "threads": rest[-1].threads,
        "most_threads": max(sample.threads for sample in samples),
        "cpu_share": round((rest[-1].cpu_seconds - rest[0].cpu_seconds) / (seconds[-1] - seconds[0]), 2),
    }


def print_growth(found: Mapping[str, Mapping[str, Any]]) -> None:
    head = f"  {'':10} {'RSS MB':>8} {'growth %':>9} {'2nd half':>9} {'descriptors':>12} {'growth':>7} {'threads':>8}"
    print(f"{head} {'cores':>6}")
    for name, row in found.items():
        if not row:
            continue
        print(
            f"  {name:10} {row['rss_mb']:8.1f} {row['memory_growth_percent']:9.2f}"
            f" {row['memory_growth_percent_of_last_half']:9.2f} {row['descriptors']:12}"
            f" {row['descriptor_growth']:7.1f} {row['threads']:8} {row['cpu_share']:6.2f}",
            flush=True,
        )
