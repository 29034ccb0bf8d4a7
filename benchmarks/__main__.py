"""`make bench`: what takes minutes, one benchmark after the other, each beside its peers and limits.

    python -m benchmarks                          # all of it
    python -m benchmarks peers relevance          # some of it
    python -m benchmarks --quick                  # does everything run? (the figures mean nothing)
    python -m benchmarks --json FILE --plot FILE  # all figures as JSON, their ratios as a drawing

A benchmark that breaks is reported, the others still run, and the exit status is 1. Those that take longer, or want a
machine of their own, are called by name: `benchmarks.correlations`, `benchmarks.faults`, `benchmarks.rolling`,
`benchmarks.sizing`, `benchmarks.soak`, `benchmarks.traces`, `benchmarks.verdicts`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import introduce
from benchmarks.record import Measure, Report, finish, make_parser, read_names


@dataclass(frozen=True)
class Benchmark:
    """`module` has `measure(report, quick=…)`; `needs` are modules that may be missing, each with its extra."""

    module: str
    about: str
    needs: Mapping[str, str] = field(default_factory=dict)


BERTSCORE = {"bert_score": "bertscore", "torch": "bertscore"}
BENCHMARKS: Mapping[str, Benchmark] = {
    "start": Benchmark("benchmarks.start", "from the command to the first answer"),
    "hot": Benchmark("benchmarks.hot", "a cached evaluation against an empty endpoint"),
    "evaluations": Benchmark("benchmarks.evaluations", "single evaluations over HTTP"),
    "judge_path": Benchmark("benchmarks.judge_path", "from the judge's socket to the stored result"),
    "conversations": Benchmark("benchmarks.conversations", "batches of whole conversations beside the judge alone"),
    "batches": Benchmark("benchmarks.batches", "under a rate limit, and after everything was killed"),
    "peers": Benchmark("benchmarks.peers", "the tools that a team could pick instead"),
    "tokens": Benchmark("benchmarks.tokens", "what a prompt costs"),
    "relevance": Benchmark("benchmarks.relevance", "BERTScore against bert-score", BERTSCORE),
    "scale": Benchmark("benchmarks.scale_growth", "what grows with the work, and what stays"),
    "analysis": Benchmark("benchmarks.analysis", "dependencies and decorrelation against SciPy in a loop"),
    "analysis_scale": Benchmark("benchmarks.analysis_scale", "analyses of ten million ratings"),
    "gate": Benchmark("benchmarks.gate", "how often the gate is wrong"),
    "dashboard": Benchmark("benchmarks.dashboard", "pages over 100,000 results"),
    "live": Benchmark("benchmarks.live", "from a stored result to the open page", {"playwright": "dev"}),
    "explorer": Benchmark("benchmarks.explorer", "two runs of 100,000 results beside each other"),
}


def find_missing(benchmark: Benchmark) -> str:
    """What it needs and is not installed; an empty text where all is there."""
    missing = {name: extra for name, extra in benchmark.needs.items() if importlib.util.find_spec(name) is None}
    if not missing:
        return ""
    extras = ", ".join(dict.fromkeys(missing.values()))
    return f"{', '.join(missing)} not installed (extra {extras})"


def run(chosen: Sequence[str], report: Report, *, quick: bool, file: Path | None = None) -> None:
    """Runs the benchmarks of these names in their order; one that is not whole, or breaks, is in the report.

    The file is written after each, so that the figures of an hour are not lost with the last.
    """
    for name in chosen:
        benchmark = BENCHMARKS[name]
        report.say(f"\n{name}: {benchmark.about}")
        if missing := find_missing(benchmark):
            report.skip(name, name, missing)
            continue
        started = time.perf_counter()
        try:
            measure: Measure = importlib.import_module(benchmark.module).measure
            measure(report, quick=quick)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one that breaks must not take the others with it
            traceback.print_exc()
            report.fail(name, f"{type(error).__name__}: {error}".splitlines()[0])
        report.say(f"  ({name} took {time.perf_counter() - started:.0f} s)")
        if file:
            report.write_json(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a benchmark broke. A missed target breaks nothing."""
    parser = make_parser(__doc__, prog="python -m benchmarks")
    options = read_names(parser, BENCHMARKS, "benchmark", arguments)
    report = Report()
    report.say(introduce(report.machine))
    run(options.names, report, quick=options.quick, file=options.json)
    finish(report, options)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
