"""What 1,000 items cost, from counted tokens and the shipped prices: the figures and tables of docs/cost.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from benchmarks.prompt_tokens import Asked, Counts, find_conversation_rubrics, find_rubrics
from saiten_server.platform.settings import Settings
from saiten_server.providers.openai.prices import CACHEABLE_TOKENS, Prices
from saiten_server.providers.ports import PROVIDER_BATCH_SHARE

ITEMS = 1000
SHARE = 0.8
"""Of a typical prompt of several aspects, the least that is to be the same for all dialogues."""
SAMPLES = 3

Way = Literal["fresh", "cached", "batch", "unmarked"]
"""How the calls are made: live and nothing found in the provider's prompt cache; live and the beginning found there;
through the provider's batch mode; live as if nothing were marked, so that every prompt is written and none found."""

TITLES: dict[Way, str] = {
    "fresh": "live, nothing cached",
    "cached": "live, beginning cached",
    "batch": "the provider's batch",
    "unmarked": "live, each prompt written, none found",
}


@dataclass(frozen=True)
class Job:
    """ITEMS typical items of a rubric, on some language paths, in one call or in one an aspect."""

    rubric: str = "ja-dialogue"
    languages: tuple[str, ...] = ("ja",)
    calls: str = "joint"
    samples: int = 1

    @property
    def questions(self) -> int:
        """Times that each of an item's questions is asked."""
        return ITEMS * self.samples


def count_calls(counts: Counts, job: Job) -> int:
    """The judge's calls for all items."""
    asked = (counts.find(job.rubric, language, job.calls) for language in job.languages)
    return job.questions * sum(len(one.prefixes) for one in asked)


def price_job(prices: Prices, model: str, counts: Counts, job: Job, way: Way) -> float:
    """US dollars; raises KeyError for a model without a price."""
    message = counts.texts[job.rubric].message.median
    total = 0.0
    for language in job.languages:
        asked = counts.find(job.rubric, language, job.calls)
        for prefix, reply in zip(asked.prefixes, asked.replies, strict=True):
            tokens = {"prefix": prefix, "message": message, "reply": reply}
            total += price_question(prices, model, **tokens, times=job.questions, way=way)
    return total


def price_question(prices: Prices, model: str, *, prefix: int, message: int, reply: int, times: int, way: Way) -> float:
    """One question about `times` dialogues."""

    def price(*, cached: int = 0, written: int = 0) -> float:
        found = prices.cost(
            model,
            prompt_tokens=prefix + message,
            cached_tokens=cached,
            written_tokens=written,
            completion_tokens=reply,
        )
        if found is None:
            raise KeyError(model)
        return found

    if way == "batch":
        return times * PROVIDER_BATCH_SHARE * price()
    if way == "unmarked" and prefix + message >= CACHEABLE_TOKENS:
        return times * price(written=prefix + message)
    if way == "cached" and prefix >= CACHEABLE_TOKENS:
        writers = min(times, find_writers())
        return writers * price(written=prefix) + (times - writers) * price(cached=prefix)
    return times * price()


def find_writers() -> int:
    """Calls that go out before the first of them is answered, and find nothing: those that may be in flight."""
    return int(Settings.model_fields["judge_concurrency"].default)


def share_of(prefix: int, counts: Counts, rubric: str) -> float:
    """Of a typical prompt, the part that all dialogues share."""
    return prefix / (prefix + counts.texts[rubric].message.median)


def list_below(counts: Counts) -> list[tuple[str, str, str, tuple[int, ...]]]:
    """Rubric, language, calls and the prefixes of every question that is too short for the provider's cache."""
    found = []
    for rubric in find_rubrics():
        for language, calls in product(rubric.languages, ("joint", "independent")):
            short = tuple(p for p in counts.find(rubric.id, language, calls).prefixes if p < CACHEABLE_TOKENS)
            if short:
                found.append((rubric.id, language, calls, short))
    return found


def tabulate(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def show_dollars(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def show_range(values: Sequence[int]) -> str:
    """`1,074`, or `852–1,090` of several."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def table_of_prompts(counts: Counts) -> str:
    """Tokens by rubric, language and calls."""
    head = ["rubric, asked in", "calls an item", "beginning", "of it examples", "text format", "`explain`"]
    head += ["dialogue (p95)", "reply", "beginning's share"]
    rows = []
    for rubric in find_rubrics():
        for language, calls in product(rubric.languages, ("joint", "independent")):
            rows.append(row_of_prompts(counts, rubric.id, language, calls))
    return tabulate(head, rows)


def row_of_prompts(counts: Counts, rubric: str, language: str, calls: str) -> list[str]:
    asked = counts.find(rubric, language, calls)

    def prefixes(**parts: bool) -> Asked:
        return counts.find(rubric, language, calls, **parts)

    bare = prefixes(examples=False).prefixes
    # The canary is a digest, and another one without examples: where there are none, a token less or more.
    examples = [max(0, full - without) for full, without in zip(asked.prefixes, bare, strict=True)]
    message = counts.texts[rubric].message
    shares = [round(100 * share_of(prefix, counts, rubric)) for prefix in asked.prefixes]
    kept = sum(prefix >= CACHEABLE_TOKENS for prefix in asked.prefixes)
    return [
        f"`{rubric}`, {language}",
        f"{len(asked.prefixes)}",
        show_range(asked.prefixes) + ("" if kept == len(asked.prefixes) else f" ({kept} kept)"),
        show_range(examples),
        show_range(prefixes(structured=False).prefixes),
        show_range(prefixes(explain=True).prefixes),
        f"{message.median} ({message.p95})",
        show_range(asked.replies),
        show_range(shares) + " %",
    ]


def table_of_costs(counts: Counts, prices: Prices) -> str:
    """US dollars for ITEMS dialogues with six aspects, by model."""
    models = sorted(prices.models)
    jobs: list[tuple[str, Job, tuple[Way, ...]]] = [
        ("one call", Job(), ("fresh", "cached", "batch")),
        ("six calls", Job(calls="independent"), ("fresh", "cached", "batch")),
        (f"one call, {SAMPLES} samples", Job(samples=SAMPLES), ("fresh", "cached", "batch")),
        ("one call, both paths", Job(languages=("ja", "en")), ("fresh", "cached", "batch")),
        (
            f"one call, both paths, {SAMPLES} samples",
            Job(languages=("ja", "en"), samples=SAMPLES),
            ("fresh", "cached", "batch"),
        ),
        ("one call, unmarked", Job(), ("unmarked",)),
    ]
    rows = []
    for name, job, ways in jobs:
        for way in ways:
            costs = [show_dollars(price_job(prices, model, counts, job, way)) for model in models]
            rows.append([f"{name}: {TITLES[way]}", f"{count_calls(counts, job):,}", *costs])
    return tabulate(["1,000 items", "calls", *(f"`{model}`" for model in models)], rows)


def table_of_rubrics(counts: Counts, prices: Prices, model: str) -> str:
    """US dollars for ITEMS dialogues of each rubric as it asks by default, by one model."""
    rows = []
    for rubric in find_rubrics():
        for language in rubric.languages:
            job = Job(rubric.id, (language,), rubric.calls)
            costs = [show_dollars(price_job(prices, model, counts, job, way)) for way in ("fresh", "cached", "batch")]
            rows.append([f"`{rubric.id}`, {language}", f"{count_calls(counts, job):,}", *costs])
    return tabulate(["rubric, asked in", "calls", "nothing cached", "beginning cached", "provider's batch"], rows)


def table_of_conversations(counts: Counts, prices: Prices, model: str) -> str:
    """Tokens of ITEMS typical conversations by each rubric, and US dollars by one model."""
    head = ["rubric, asked in", "beginning", "of it example", "conversation (p95)", "reply"]
    rows = []
    for rubric in find_conversation_rubrics():
        for language in rubric.languages:
            full, bare = (counts.find(rubric.id, language, explain=True, examples=one) for one in (True, False))
            (prefix,), (without,), (reply,) = full.prefixes, bare.prefixes, full.replies
            message = counts.texts[rubric.id].message
            tokens = {"prefix": prefix, "message": message.median, "reply": reply}
            costs = [price_question(prices, model, **tokens, times=ITEMS, way=way) for way in ("fresh", "cached")]
            told = [f"{prefix:,}", f"{prefix - without:,}", f"{message.median:,} ({message.p95:,})", f"{reply:,}"]
            rows.append([f"`{rubric.id}`, {language}", *told, *map(show_dollars, costs)])
    return tabulate([*head, "nothing cached", "beginning cached"], rows)
