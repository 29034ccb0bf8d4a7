"""An evaluation whose judge call is in the call cache, over HTTP, beside an endpoint that does nothing.

    python -m benchmarks.hot                # three minutes
    python -m benchmarks.hot --quick

The endpoint is FastAPI's, reads the same body as the same pydantic model and gives an answer of as many bytes. It runs
once on uvicorn as it comes from pip (which parser and loop is printed) and once with the protocol class that Saiten is
served with. Saiten judges, signs, stores and logs each request as always; the reply of the judge is in the call cache:

- `cached`: and was asked for within the last 12 seconds, so that this process still holds it;
- `cached, in the database alone`: each text once, after a restart, as when a test set is scored again.

Service, endpoints, judge and caller are processes of their own; rounds take turns; 48 connections.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fast_judge import fast_judge
from benchmarks.hot_stage import Round, Target, ask, call, empty, make_body, saiten, say_round, write_bodies
from benchmarks.record import Beside, Figure, Report, at_least, run_alone

NAME = "hot"
ROUNDS = 5
SECONDS = 3.0
TEXTS = 200
"""That are asked for again and again."""

SEEN_ONCE = 3000
"""That are asked for once after the restart, in each round."""

PLAIN = "empty endpoint, uvicorn from pip"
OWN = "empty endpoint, Saiten's protocol"


def measure_beside(targets: dict[str, Target], bodies: Path, *, rounds: int, seconds: float) -> dict[str, list[Round]]:
    """The rounds of each, after one that does not count."""
    found: dict[str, list[Round]] = {name: [] for name in targets}
    for number in range(rounds + 1):
        for name, target in targets.items():
            made = call(target, bodies, seconds if number else seconds / 3)
            if number:
                found[name].append(made)
    return found


def measure_once(folder: Path, judge_url: str, *, rounds: int, texts: int) -> list[Round]:
    """Rounds in which a service that has just started is asked for texts that it has judged before."""
    parts = [
        write_bodies(folder / f"once-{number}", range(number * texts, (number + 1) * texts), "once")
        for number in range(rounds)
    ]
    with saiten(folder, judge_url) as target:
        for part in parts:
            call(target, part, 600, once=True)
    with saiten(folder, judge_url) as target:
        call(target, write_bodies(folder / "warm", range(100), "warm"), 60, once=True)
        return [call(target, part, 600, once=True) for part in parts]


def report_cached(report: Report, found: dict[str, list[Round]], about: dict[str, str]) -> None:
    """The rates, with CPU and latencies beside them."""
    ours, plain, own = found["cached"], found["plain"], found["own"]
    for name, key in ((PLAIN, "plain"), (OWN, "own")):
        rates = [one.rate for one in found[key]]
        note = say_round(f"{about[key]}: ", found[key])
        report.add(Figure(NAME, name, "requests/s", rates, better="higher", note=note))

    def show(name: str, unit: str, of: Callable[[Round], float], **more: Any) -> None:
        """Ours, beside those of the two endpoints."""
        values, own_values, plain_values = ([of(one) for one in rounds] for rounds in (ours, own, plain))
        peer, limit = Beside(OWN, own_values), Beside(PLAIN, plain_values)
        report.add(Figure(NAME, name, unit, values, peer=peer, limit=limit, **more))

    half, note = at_least(0.5, of="limit"), say_round("", ours)
    show("cached evaluation", "requests/s", lambda one: one.rate, target=half, better="higher", note=note)
    show("cached evaluation, CPU", "ms", lambda one: one.cpu_ms)
    show("cached evaluation, p99 under load", "ms", lambda one: one.p99_ms)


def measure(report: Report, *, quick: bool = False) -> None:
    rounds, seconds = (1, 0.6) if quick else (ROUNDS, SECONDS)
    with tempfile.TemporaryDirectory(prefix="saiten-hot-") as name, fast_judge() as judge:
        folder = Path(name)
        bodies = write_bodies(folder / "bodies", range(TEXTS), "hot")
        with saiten(folder, judge.base_url) as target:
            call(target, bodies, 60, once=True)
            # A cached one: its answer is what the endpoint gives.
            answer = ask(target, make_body(0, "hot"))
            if not json.loads(answer)["cached"]:
                raise RuntimeError("the judge was asked again for what it had answered")
            (folder / "answer").write_bytes(answer)
            with empty(folder / "answer") as plain, empty(folder / "answer", "--ours") as own:
                targets = {"plain": plain, "own": own, "cached": target}
                found = measure_beside(targets, bodies, rounds=rounds, seconds=seconds)
        report_cached(report, found, {"plain": plain.about, "own": own.about})
        once = measure_once(folder, judge.base_url, rounds=rounds, texts=200 if quick else SEEN_ONCE)
        rates = [one.rate for one in once]
        about = "cached, in the database alone"
        report.add(Figure(NAME, about, "requests/s", rates, better="higher", note=say_round("", once)))


if __name__ == "__main__":
    run_alone(measure, __doc__)
