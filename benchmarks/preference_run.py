"""A preference run: 12 systems × 500 items, every two of them in both orders, from plan to end.

    python -m benchmarks.preference_run                                    # 66,000 calls, some ten minutes
    python -m benchmarks.preference_run --systems 6 --items 100            # 3,000 calls

The systems' own runs are scored first, by the same judge, which answers after a fixed time in a process of its own.
Prints the seconds of plan, estimate and acceptance, the run's own time beside the judge's own (calls × latency ÷ calls
in flight), what the service's process took of the CPU, and its most memory before and after.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.site import Site, site

LATENCY_MS = 100
IN_FLIGHT = 16


def post_system(made: Site, system: int, items: int) -> str:
    """The id of a completed run of one system."""
    content = [
        {
            "id": f"i{number}",
            "context": [{"speaker": "A", "text": f"週末はどこかに出かけましたか？（{number}）"}],
            "response": f"海まで行ってきました。{system}人で、{number}分くらい歩きました。",
        }
        for number in range(items)
    ]
    body = {"metadata": {"system": f"bot-{system}"}, "items": content, "relevance": None}
    answer = made.client.post("/v1/batches", json=body)
    answer.raise_for_status()
    batch_id: str = answer.json()["id"]
    return batch_id


def wait(made: Site, address: str) -> dict[str, Any]:
    """What ends at that address."""
    while (found := made.client.get(address).json())["status"] != "completed":
        time.sleep(0.5)
    result: dict[str, Any] = found
    return result


def most_memory(made: Site) -> float:
    """MB that the service's process has held at most."""
    if made.service is None:
        raise RuntimeError("the service does not run")
    status = Path(f"/proc/{made.service.pid}/status").read_text(encoding="ascii")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def cpu_seconds(made: Site) -> float:
    """What the service's process has taken of the CPU."""
    if made.service is None:
        raise RuntimeError("the service does not run")
    fields = Path(f"/proc/{made.service.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(made: Site, address: str, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Seconds of a POST, and its answer."""
    started = time.perf_counter()
    answer = made.client.post(address, json=body, timeout=600)
    answer.raise_for_status()
    return time.perf_counter() - started, answer.json()


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=12)
    parser.add_argument("--items", type=int, default=500)
    chosen = parser.parse_args()
    settings: dict[str, Any] = {"SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT), "SAITEN_LOG_LEVEL": "warning"}
    with (
        tempfile.TemporaryDirectory(prefix="saiten-bench-") as folder,
        site(Path(folder), judge={"latency_ms": 0}, **settings) as made,
    ):
        runs = [post_system(made, system, chosen.items) for system in range(chosen.systems)]
        for run in runs:
            wait(made, f"/v1/batches/{run}")
        made.judge.turn(latency_ms=LATENCY_MS, reset=True)
        measure(made, runs)


def measure(made: Site, runs: list[str]) -> None:
    """Plans, estimates and runs the comparison, and prints what it takes."""
    before, body = most_memory(made), {"runs": runs}
    seconds, report = timed(made, "/v1/preference-runs/estimates", body)
    print(f"estimate: {report['calls']:,} calls in {seconds:.2f} s; {most_memory(made) - before:+.0f} MB")
    seconds, accepted = timed(made, "/v1/preference-runs", body)
    total = accepted["counts"]["total"]
    print(f"accepted: {total:,} pairs in {seconds:.2f} s; {most_memory(made) - before:+.0f} MB")
    spent = cpu_seconds(made)
    found = wait(made, f"/v1/preference-runs/{accepted['id']}")
    begun, ended = (datetime.fromisoformat(found[moment]) for moment in ("started_at", "finished_at"))
    took, own = (ended - begun).total_seconds(), report["calls"] * LATENCY_MS / 1000 / IN_FLIGHT
    print(f"run: {took:.1f} s, the judge's own {own:.1f} s, ratio {took / own:.2f}; counts {found['counts']}")
    cpu = cpu_seconds(made) - spent
    print(f"CPU of the service: {cpu:.1f} s, {1000 * cpu / total:.1f} ms a pair")
    print(f"most memory: {before:.0f} MB before, {most_memory(made):.0f} MB after")
    started = time.perf_counter()
    summary = made.client.get(f"/v1/preference-runs/{accepted['id']}/summary", timeout=600).json()
    print(f"summary: {summary['items']} items in {time.perf_counter() - started:.2f} s; {summary['aspects']}")


if __name__ == "__main__":
    main()
