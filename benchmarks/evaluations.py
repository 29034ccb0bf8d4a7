"""Evaluations a second through the service over HTTP: fresh ones on SQLite, and on servers, and the lexical judge's.

    python -m benchmarks.evaluations

The judge is a process of its own that answers at once, so what is measured is Saiten's work an item. Cached ones are in
`benchmarks.hot`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.batches import servers
from benchmarks.fast_judge import fast_judge
from benchmarks.hot_stage import Round, Target, call, saiten, say_round, write_bodies
from benchmarks.record import Figure, Report, run_alone

NAME = "evaluations"
ROUNDS = 3
TEXTS = 1000


@contextmanager
def embedded() -> Iterator[dict[str, str]]:
    """SQLite, and nobody else."""
    yield {}


KINDS = (("fresh", True, embedded), ("fresh, Redis and PostgreSQL", True, servers), ("lexical", False, embedded))
"""Name, whether the judge is the fast one, and where the service stands."""


def measure_fresh(target: Target, folder: Path, kind: str, *, rounds: int, texts: int) -> list[Round]:
    """Rounds of texts that nobody has asked for, after a few that do not count."""
    call(target, write_bodies(folder / "warm", range(60), f"{kind} warm"), 60, once=True)
    parts = (range(number * texts, (number + 1) * texts) for number in range(rounds))
    return [call(target, write_bodies(folder / "bodies", part, kind), 600, once=True) for part in parts]


def measure(report: Report, *, quick: bool = False) -> None:
    rounds, texts = (1, 100) if quick else (ROUNDS, TEXTS)
    for kind, judged, stage in KINDS:
        with tempfile.TemporaryDirectory(prefix="saiten-evaluations-") as name, fast_judge() as judge, stage() as urls:
            folder = Path(name)
            with saiten(folder, judge.base_url if judged else None, **urls) as target:
                found = measure_fresh(target, folder, kind, rounds=rounds, texts=texts)
        rates = [one.rate for one in found]
        report.add(Figure(NAME, kind, "requests/s", rates, better="higher", note=say_round("", found)))


if __name__ == "__main__":
    run_alone(measure, __doc__)
