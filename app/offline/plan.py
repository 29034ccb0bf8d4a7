"""What a run would take, before anything is scored: rows, new rows, calls, tokens, money and hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from saiten_server.core.batch import any_request_of
from saiten_server.core.evaluation import ConversationRequest, EvaluationRequest
from saiten_server.core.model import Value, key_of
from saiten_server.offline.inputs import Block, BlockUnreadable, InputFile, RowCells
from saiten_server.offline.parts import KeyIndex
from saiten_server.offline.running import Job
from saiten_server.platform.settings import Settings
from saiten_server.providers import registry
from saiten_server.scoring.admission import Bill, plan_evaluation, plan_whole

MOST_PLANNED = 50_000
"""Rows that are priced at most: a plan of more is made from so many, spread over the input."""

FEWEST_PLACES = 100
"""Row groups that a sample is spread over, where there are so many."""


class OfflinePlan(Value):
    """What a run would take. `rows` are those of the input, `sampled` how many of them were looked at, from which the
    rest is projected; equal figures are exact. `unreadable_blocks` are files and pieces of lines whose rows are not
    among them. `hours` is how long it takes by what `bound` names: the limit of calls
    or of tokens a minute, or the calls in flight at `seconds_per_call`. `cost_usd` is null without a price, and
    `signature` names the folder of the output."""

    signature: str
    rows: int
    sampled: int
    new_rows: int
    unusable_rows: int
    unreadable_blocks: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    hours: float
    bound: Literal["calls", "tokens", "concurrency"]
    seconds_per_call: float


def plan_run(job: Job, settings: Settings, *, seconds_per_call: float, most: int = MOST_PLANNED) -> OfflinePlan:
    """Looks through the input, at most at so many rows of it. Raises InvalidRequest for what cannot be scored."""
    blocks = job.source.list_blocks()
    index = KeyIndex(job.open_output().read_keys())
    counted = [count_rows(job.source, block) for block in blocks]
    counts = [count or 0 for count in counted]
    reading, context = job.scorer.open_reading(), job.scorer.context
    bill, options = Bill(context.judge), job.scorer.exact_options
    sampled = candidates = fresh = unusable = 0
    for cells in sample(job.source, blocks, counts, most):
        sampled += 1
        rows = [] if cells.value is None else reading.read(cells.value, cells.where)
        unusable += not rows or rows[0].candidate is None
        candidates += len(rows)
        for row in rows:
            if row.candidate is None or not index.add(key_of(row.key)):
                continue
            fresh += 1
            request = any_request_of(options, row.candidate)
            if isinstance(request, ConversationRequest):
                bill.add(plan_whole(request, reading.rubric, context.window_tokens))
            elif isinstance(request, EvaluationRequest):
                bill.add(plan_evaluation(request, reading.rubric))
    scale = sum(counts) / sampled if sampled else 0.0
    calls, prompt, completion = (
        round(scale * each) for each in (bill.calls, bill.prompt_tokens, bill.completion_tokens)
    )
    hours, bound = find_bound(calls, prompt + completion, settings, seconds_per_call)
    return OfflinePlan(
        signature=job.scorer.signature,
        rows=sum(counts),
        sampled=sampled,
        new_rows=round(scale * fresh),
        unusable_rows=round(scale * unusable),
        unreadable_blocks=counted.count(None),
        calls=calls,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_usd=None if bill.cost_usd is None else scale * bill.cost_usd,
        hours=hours,
        bound=bound,
        seconds_per_call=seconds_per_call,
    )


def find_bound(
    calls: int, tokens: int, settings: Settings, seconds_per_call: float
) -> tuple[float, Literal["calls", "tokens", "concurrency"]]:
    """The hours that a run takes, and what they are due to."""
    found: list[tuple[float, Literal["calls", "tokens", "concurrency"]]] = [
        (calls * seconds_per_call / settings.judge_concurrency / 3600, "concurrency")
    ]
    if registry.find_judge(settings).in_process:
        return max(found)
    if settings.judge_requests_per_minute:
        found.append((calls / settings.judge_requests_per_minute / 60, "calls"))
    if settings.judge_tokens_per_minute:
        found.append((tokens / settings.judge_tokens_per_minute / 60, "tokens"))
    return max(found)


def sample(source: InputFile, blocks: Sequence[Block], counts: Sequence[int], most: int) -> Iterator[RowCells]:
    """The rows of all blocks if they are at most so many, else of blocks that are spread evenly over the input. Blocks
    that cannot be read are left out."""
    chosen = range(len(blocks))
    each: int | None = None
    if sum(counts) > most and blocks:
        step = max(1, len(blocks) // FEWEST_PLACES)
        chosen = range(0, len(blocks), step)
        each = -(-most // len(chosen))
    for number in chosen:
        try:
            yield from islice(source.read(blocks[number]), each)
        except BlockUnreadable:
            continue


def count_rows(source: InputFile, block: Block) -> int | None:
    """The rows of a block, of lines by counting them; None of one that cannot be read."""
    if block.fault is not None:
        return None
    if block.rows is not None:
        return block.rows
    try:
        return source.count_lines(block)
    except BlockUnreadable:
        return None
