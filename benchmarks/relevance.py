"""Our pairs a second beside bert-score's on the same encoder, and beside the encoder's forward passes alone.

    python -m benchmarks.relevance                       # encoders with random weights, small and of BERT's size
    python -m benchmarks.relevance --threads 1 --cpu-time   # on a machine that others use too
    python -m benchmarks.relevance --encoder FOLDER --layer 9 --pairs 500

Both have the model loaded. A round measures one after the other; what ours keeps of texts is let go of between rounds.
The limit is the model's best rate, passes of one length without any padding, on the tokens of the distinct texts: no
tokenizer, no matching. F1 is held against bert-score asked about the pair alone.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.record import Beside, Figure, Report, Target, at_least, at_most, finish, make_parser
from benchmarks.relevance_encoders import BASE, SAVERS, SMALL, Size
from benchmarks.relevance_texts import Pair, write_pairs
from saiten_server.providers.bertscore.encoder import BertScoreEncoder, EncoderChoice, load_encoder
from saiten_server.providers.bertscore.similarity import CPU_TOKENS, LoadedEncoder
from saiten_server.providers.huggingface import quiet_transformers

NAME = "relevance"
ROUNDS = 3
LIMIT_PASSES = 3
CLOSE_ENOUGH = 1e-5

Way = Callable[["Bench", list[Pair]], Awaitable[list[float]]]


class SkippingClock:
    """Monotonic seconds that can be made to jump, so that nothing is kept from one round to the next."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped

    def skip(self) -> None:
        self.skipped += 3600.0


@dataclass
class Bench:
    """One encoder, loaded by both. `read_clock` tells seconds: of the wall, or of the process's CPU."""

    folder: str
    layer: int
    language: str
    threads: int
    device: str
    read_clock: Callable[[], float]
    clock: SkippingClock = field(default_factory=SkippingClock)
    loaded: list[LoadedEncoder] = field(default_factory=list)

    def __post_init__(self) -> None:
        import torch
        from bert_score import BERTScorer

        torch.set_num_threads(self.threads)
        self.theirs = BERTScorer(model_type=self.folder, num_layers=self.layer, device=self.device)
        self.ours = BertScoreEncoder(
            encoder=self.folder,
            layers={self.folder: self.layer},
            device=self.device,
            threads=self.threads,
            timeout_seconds=None,
            load=self._load,
        )

    def _load(self, choice: EncoderChoice) -> LoadedEncoder:
        self.loaded.append(load_encoder(choice, clock=self.clock))
        return self.loaded[-1]

    def ask_theirs(self, pairs: Sequence[Pair]) -> list[float]:
        """What bert-score says in one run."""
        found = self.theirs.score([response for _, response in pairs], [last for last, _ in pairs])
        return [float(value) for value in found[2]]

    def find_limit(self, pairs: Sequence[Pair]) -> float:
        """Seconds of the forward passes at their best rate."""
        import torch

        encoder = self.loaded[0]
        distinct = {encoder.tokenizing.read(text).ids for pair in pairs for text in pair}
        tokens = sum(map(len, distinct))
        length = max(1, round(tokens / len(distinct)))
        ids = torch.full((max(1, CPU_TOKENS // length), length), 5, device=self.device)
        with torch.inference_mode():
            seconds = min(self._time(partial(self._pass_once, encoder.model, ids)) for _ in range(LIMIT_PASSES))
        return float(seconds * tokens / ids.numel())

    def _pass_once(self, model: Any, ids: Any) -> None:
        model(ids, attention_mask=ids.new_ones(ids.shape))[0].sum().item()

    def _time(self, work: Callable[[], None]) -> float:
        started = self.read_clock()
        work()
        return self.read_clock() - started


async def ask_at_once(bench: Bench, pairs: list[Pair]) -> list[float]:
    """Ours, all pairs in one call."""
    return [one.f1 for one in await bench.ours.compare(bench.language, pairs)]


async def ask_together(bench: Bench, pairs: list[Pair]) -> list[float]:
    """Ours, each pair a call of its own, all waiting at the same time: as single evaluations come."""
    answers = await asyncio.gather(*(bench.ours.compare(bench.language, [pair]) for pair in pairs))
    return [one.f1 for answer in answers for one in answer]


async def ask_by_context(bench: Bench, pairs: list[Pair]) -> list[float]:
    """Ours, each context's candidates a call, all waiting at the same time."""
    answers = await asyncio.gather(*(bench.ours.compare(bench.language, ten) for ten in split(pairs)))
    return [one.f1 for answer in answers for one in answer]


async def ask_one_by_one(bench: Bench, pairs: list[Pair]) -> list[float]:
    """Ours, a call at a time."""
    return [(await bench.ours.compare(bench.language, [pair]))[0].f1 for pair in pairs]


async def ask_theirs_at_once(bench: Bench, pairs: list[Pair]) -> list[float]:
    """bert-score, all pairs in one call."""
    return bench.ask_theirs(pairs)


async def ask_theirs_by_context(bench: Bench, pairs: list[Pair]) -> list[float]:
    """bert-score, a call a context."""
    return [value for ten in split(pairs) for value in bench.ask_theirs(ten)]


async def ask_theirs_one_by_one(bench: Bench, pairs: list[Pair]) -> list[float]:
    """bert-score, a call a pair."""
    return [value for pair in pairs for value in bench.ask_theirs([pair])]


def split(pairs: list[Pair]) -> list[list[Pair]]:
    """The candidates of each context."""
    return [list(group) for _, group in itertools.groupby(pairs, key=itemgetter(0))]


@dataclass(frozen=True)
class Task:
    """`candidates` of a context follow each other."""

    name: str
    pairs: int
    candidates: int = 1
    ask: Way = ask_at_once
    ask_theirs: Way = ask_theirs_at_once
    target: Target | None = None


def list_tasks(language: str, size: Size | None, count: int) -> list[Task]:
    """What is measured on an encoder of the language; `count` pairs, fewer where bert-score is asked for each."""
    few = max(8, count // 4)
    if language == "en":
        return [Task("English, one call", count, target=at_least(1.05, of="peer"))]
    if size == BASE:
        return [
            Task("Japanese, one call", count, target=at_least(3, of="peer")),
            Task("ten candidates a context, one call", count, 10, target=at_least(4, of="peer")),
            Task("ten candidates a context, a call each", few, 10, ask_by_context, ask_theirs_by_context),
            Task("single evaluations at the same time", few, 1, ask_together, ask_theirs_one_by_one),
        ]
    growing = [Task(f"Japanese, one call of {pairs}", pairs) for pairs in (count // 16, count // 4) if pairs > 1]
    return [
        *growing,
        Task(f"Japanese, one call of {count}", count, target=at_least(3, of="peer")),
        Task("ten candidates a context, one call", count, 10, target=at_least(4, of="peer")),
        Task("ten candidates a context, a call each", few, 10, ask_by_context, ask_theirs_by_context),
        Task("single evaluations at the same time", few, 1, ask_together, ask_theirs_one_by_one),
        Task("ten candidates a context, one by one", few, 10, ask_one_by_one, ask_theirs_one_by_one),
    ]


async def measure_task(report: Report, bench: Bench, task: Task, label: str, rounds: int) -> float:
    """Adds the task's figure. The largest difference from the pair alone, of as many as bert-score is asked for so."""
    rates: dict[str, list[float]] = {"ours": [], "peer": [], "limit": []}
    gap = 0.0
    for seed in range(rounds):
        pairs = write_pairs(bench.language, task.pairs, candidates=task.candidates, seed=seed)
        found: dict[str, list[float]] = {}
        for side, ask in (("ours", task.ask), ("peer", task.ask_theirs)):
            bench.clock.skip()
            started = bench.read_clock()
            found[side] = await ask(bench, pairs)
            rates[side].append(task.pairs / (bench.read_clock() - started))
        rates["limit"].append(task.pairs / bench.find_limit(pairs))
        alone = [bench.ask_theirs([pair])[0] for pair in pairs[:16]]
        gap = max(gap, *(abs(ours - one) for ours, one in zip(found["ours"], alone, strict=False)))
    report.add(
        Figure(
            NAME,
            f"{task.name} ({label})",
            "pairs/s",
            rates["ours"],
            peer=Beside("bert-score", rates["peer"]),
            limit=Beside("forward passes alone", rates["limit"]),
            target=task.target,
            better="higher",
        )
    )
    return gap


async def measure_encoder(report: Report, bench: Bench, tasks: Sequence[Task], label: str, rounds: int) -> None:
    """All tasks on one encoder, and how far its scores are from those of the pair alone."""
    warm = write_pairs(bench.language, 4, seed=-1)
    await bench.ours.compare(bench.language, warm)
    bench.ask_theirs(warm)
    gaps = [await measure_task(report, bench, task, label, rounds) for task in tasks]
    report.add(Figure(NAME, f"largest |ΔF1| to the pair alone ({label})", "", max(gaps), target=at_most(CLOSE_ENOUGH)))
    await bench.ours.close()


@dataclass(frozen=True)
class Conditions:
    """`pairs` and `threads` None take what suits the encoder and the machine."""

    quick: bool = False
    pairs: int | None = None
    threads: int | None = None
    device: str = "cpu"
    cpu_time: bool = False

    @property
    def rounds(self) -> int:
        return 1 if self.quick else ROUNDS

    def prepare(self, folder: str, layer: int, language: str) -> Bench:
        """Both sides loaded."""
        import torch

        read_clock = time.process_time if self.cpu_time else time.perf_counter
        return Bench(folder, layer, language, self.threads or torch.get_num_threads(), self.device, read_clock)


def measure(report: Report, *, quick: bool = False) -> None:
    """What `make bench` has of it."""
    measure_sizes(report, Conditions(quick=quick))


def measure_sizes(report: Report, conditions: Conditions) -> None:
    """Three encoders: a small Japanese and a small English one, and a Japanese one of BERT's size."""
    if missing := [package for package in ("bert_score", "fugashi") if importlib.util.find_spec(package) is None]:
        report.skip(NAME, "similarities", f"{', '.join(missing)} is not installed")
        return
    sizes = [(language, SMALL, conditions.pairs or (64 if conditions.quick else 512)) for language in SAVERS]
    if not conditions.quick:
        sizes.append(("ja", BASE, conditions.pairs or 192))
    for language, size, count in sizes:
        with tempfile.TemporaryDirectory() as place, quiet_transformers():
            folder = SAVERS[language](Path(place) / f"random-{language}", size)
            bench = conditions.prepare(str(folder), size.layers, language)
            tasks = list_tasks(language, size, count)
            asyncio.run(measure_encoder(report, bench, tasks, f"{size}, {bench.threads} threads", conditions.rounds))


def main() -> None:
    """Reads the command line."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--encoder", help="Hugging Face name or local folder of a Japanese encoder, in place of random ones"
    )
    parser.add_argument("--layer", type=int, help="layer of that encoder")
    parser.add_argument("--pairs", type=int, help="default: 512, and 192 for the encoder of BERT's size")
    parser.add_argument("--threads", type=int, help="PyTorch's; default: as it chooses")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of the process's CPU in place of the wall's")
    options = parser.parse_args()
    if options.encoder and options.layer is None:
        parser.error("--encoder needs --layer")
    from benchmarks.machine import introduce

    report = Report()
    report.say(introduce(report.machine))
    conditions = Conditions(options.quick, options.pairs, options.threads, options.device, options.cpu_time)
    if options.encoder:
        bench = conditions.prepare(options.encoder, options.layer, "ja")
        tasks = list_tasks("ja", None, options.pairs or 512)
        asyncio.run(measure_encoder(report, bench, tasks, Path(options.encoder).name, conditions.rounds))
    else:
        measure_sizes(report, conditions)
    finish(report, options)


if __name__ == "__main__":
    main()
