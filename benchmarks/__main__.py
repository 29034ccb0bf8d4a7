"""`make bench`: every benchmark, one after the other, with what it ran on."""

from __future__ import annotations

import importlib.util
import os
import platform

from benchmarks import analysis, batches, dashboard, evaluations, gate


def main() -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {platform.system()}\n")
    batches.main()
    print()
    evaluations.main()
    print()
    analysis.main()
    print()
    gate.main()
    print()
    dashboard.main()
    print()
    if importlib.util.find_spec("bert_score") is None:
        print("relevance: not measured, the bertscore extra is not installed")
        return
    from benchmarks import relevance

    relevance.main()


if __name__ == "__main__":
    main()
