"""A run in one process: its blocks are read, what is not finished is scored, and the results go into the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from saiten.core.messages import Message, read_value, value_as_json
from saiten_server.core.errors import SaitenError
from saiten_server.core.evaluation import Usage
from saiten_server.core.model import key_of
from saiten_server.offline.frame_files import ScoredRow
from saiten_server.offline.inputs import Block, BlockUnreadable, InputFile
from saiten_server.offline.judging import LocalBudget, Silence
from saiten_server.offline.parts import KeyIndex, Output, Writer
from saiten_server.offline.rows import Row
from saiten_server.offline.scorer import Scorer, SharedParts

MOST_FAULTS_TOLD = 100
"""Faults of files that are told; all are counted."""

MOST_SIGNATURES = 20


@dataclass
class OfflineTally:
    """What a run has done. `known` rows were finished before, `repeated` ones are there more than once in what was read
    and count once, and `unread` ones stand in `faults`, which say file and row group, as far as it is known how many
    they are. `failures` counts failed rows by code, and `signatures` results."""

    known: int = 0
    repeated: int = 0
    unread: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    signatures: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    faults: list[Message] = field(default_factory=list)
    fault_count: int = 0

    @property
    def scored(self) -> int:
        """Rows that were scored, failed ones among them."""
        return self.statuses.total()

    def take(self, row: ScoredRow) -> None:
        """Counts a result."""
        evaluation = row.record.evaluation if row.record else None
        self.statuses[evaluation.status if evaluation else "failed"] += 1
        self.usage += evaluation.usage if evaluation else row.usage
        if row.failure is not None:
            self.failures[row.failure.code] += 1
        if evaluation is not None and (
            evaluation.signature in self.signatures or len(self.signatures) < MOST_SIGNATURES
        ):
            self.signatures[evaluation.signature] += 1

    def note_fault(self, fault: Message, unread: int = 0) -> None:
        """Counts a block that could not be read to its end."""
        self.unread += unread
        self.fault_count += 1
        self.faults = [*self.faults, fault][:MOST_FAULTS_TOLD]

    def merge(self, other: OfflineTally) -> None:
        """Adds what another process has done."""
        self.known += other.known
        self.repeated += other.repeated
        self.unread += other.unread
        self.statuses += other.statuses
        self.failures += other.failures
        self.signatures += other.signatures
        self.usage += other.usage
        self.fault_count += other.fault_count
        self.faults = [*self.faults, *other.faults][:MOST_FAULTS_TOLD]

    def as_json(self) -> dict[str, Any]:
        """The tally as JSON, from which `read_tally` makes it again."""
        return {
            "known": self.known,
            "repeated": self.repeated,
            "scored": self.scored,
            "unread": self.unread,
            "statuses": dict(self.statuses),
            "failures": dict(self.failures),
            "signatures": dict(self.signatures),
            "usage": self.usage.model_dump(),
            "faults": [value_as_json(one) for one in self.faults],
            "fault_count": self.fault_count,
        }


def read_tally(value: dict[str, Any]) -> OfflineTally:
    """The tally of `OfflineTally.as_json`."""
    return OfflineTally(
        known=value["known"],
        repeated=value["repeated"],
        unread=value["unread"],
        statuses=Counter(value["statuses"]),
        failures=Counter(value["failures"]),
        signatures=Counter(value["signatures"]),
        usage=Usage.model_validate(value["usage"]),
        faults=[read_value(one) for one in value["faults"]],
        fault_count=value["fault_count"],
    )


@dataclass(frozen=True)
class Job:
    """What is to be scored, and where the results go. Picklable."""

    scorer: Scorer
    source: InputFile
    output_url: str

    def open_output(self) -> Output:
        """The output of the scorer's signature."""
        return Output(self.output_url, self.scorer.signature, self.scorer.rubric)


def list_new_rows(job: Job, blocks: Iterable[Block], index: KeyIndex, tally: OfflineTally) -> Iterator[Row]:
    """The rows that are not in the index, which takes them in. Others, and what cannot be read, are counted."""
    reading = job.scorer.open_reading()
    for block in blocks:
        read = 0
        try:
            for cells in job.source.read(block):
                read += 1
                if cells.value is None:
                    error = cells.error or SaitenError(Message("offline-line-object"))
                    rows = [reading.refuse({}, cells.where, error)]
                else:
                    rows = reading.read(cells.value, cells.where)
                for row in rows:
                    number = key_of(row.key)
                    if index.add(number):
                        yield row
                    elif index.was_known(number):
                        tally.known += 1
                    else:
                        tally.repeated += 1
        except BlockUnreadable as fault:
            tally.note_fault(fault.message, max(0, (block.rows or read) - read))


def score_blocks(
    job: Job,
    blocks: Iterable[Block],
    *,
    index: KeyIndex,
    writer: Writer,
    tally: OfflineTally,
    advance: Callable[[], None] = lambda: None,
    watch: Callable[[Silence], None] = lambda _: None,
) -> None:
    """Scores what is new in the blocks. `advance` is called after each result, and `watch` as by `Scorer.stream`. What
    is finished is written even where an error stops the run, which is raised then."""
    try:
        for _, scored in job.scorer.stream(list_new_rows(job, blocks, index, tally), watch=watch):
            tally.take(scored)
            writer.add(scored)
            advance()
    finally:
        writer.flush()


def run_here(
    job: Job,
    blocks: Iterable[Block],
    tally: OfflineTally,
    advance: Callable[[], None],
    *,
    budget_usd: float | None = None,
    give_up_seconds: float | None = None,
    watch: Callable[[Silence], None] = lambda _: None,
) -> None:
    """Scores everything in this process. Raises the error that stops the run; `tally` says what was done before."""
    output = job.open_output()
    output.begin(job.scorer.described)
    output.settle()
    index, writer = KeyIndex(output.read_keys()), Writer(output, job.scorer.make_table)
    open_budget = None if budget_usd is None else partial(LocalBudget, budget_usd)
    job = replace(job, scorer=job.scorer.sharing(SharedParts(open_budget=open_budget, give_up_seconds=give_up_seconds)))
    try:
        score_blocks(job, blocks, index=index, writer=writer, tally=tally, advance=advance, watch=watch)
    finally:
        job.scorer.close()
    output.settle()
