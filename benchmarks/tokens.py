"""Tokens of the shipped rubrics' prompts, what of them a provider's prompt cache can keep, and what 1,000 items cost.

    python -m benchmarks.tokens            # the tables of docs/cost.md, and the figures that are held against targets

Nobody is asked. Tokens are counted with a real tokenizer where it is installed (the extra `bench`), else the last
counts are told, if they are of the prompts of now.
"""

from __future__ import annotations

from benchmarks.cost_table import (
    SHARE,
    Job,
    Way,
    price_job,
    share_of,
    table_of_conversations,
    table_of_costs,
    table_of_prompts,
    table_of_rubrics,
)
from benchmarks.prompt_tokens import Counts, NoTokenizer, count_all, find_rubrics, list_stale, load_counts
from benchmarks.record import Beside, Figure, Report, at_least, at_most, run_alone
from saiten_server.providers.openai.judge import DEFAULT_MODEL
from saiten_server.providers.openai.prices import CACHEABLE_TOKENS, Prices, read_prices

NAME = "tokens"


def measure(report: Report, *, quick: bool = False) -> None:
    """Adds shares and costs to the report, and says the tables."""
    counts, prices = find_counts(report), read_prices()
    if counts is None:
        return
    for rubric in find_rubrics():
        for language in rubric.languages:
            add_share(report, counts, rubric.id, language, rubric.calls)
    add_costs(report, counts, prices)
    report.say("")
    for table in (
        table_of_prompts(counts),
        table_of_costs(counts, prices),
        table_of_rubrics(counts, prices, DEFAULT_MODEL),
        table_of_conversations(counts, prices, DEFAULT_MODEL),
    ):
        report.say(table + "\n")


def find_counts(report: Report) -> Counts | None:
    """Counts of now; None, and said so, where none can be had."""
    try:
        counts = count_all()
    except NoTokenizer as error:
        counts = load_counts()
        if list_stale(counts):
            report.skip(NAME, "tokens of all prompts", str(error))
            return None
        report.say(f"  counted before, by {counts.tokenizer}: {error}")
        return counts
    report.say(f"  counted by {counts.tokenizer}")
    return counts


def add_share(report: Report, counts: Counts, rubric: str, language: str, calls: str) -> None:
    """The least share of a question's typical prompt that all dialogues have in common."""
    asked = counts.find(rubric, language, calls)
    shortest = min(asked.prefixes)
    kept = sum(prefix >= CACHEABLE_TOKENS for prefix in asked.prefixes)
    report.add(
        Figure(
            NAME,
            f"{rubric} in {language}: shared beginning of a typical prompt",
            "%",
            100 * share_of(shortest, counts, rubric),
            target=at_least(100 * SHARE),
            note=f"{shortest:,} tokens; {kept} of {len(asked.prefixes)} long enough to be kept",
            better="higher",
        )
    )


def add_costs(report: Report, counts: Counts, prices: Prices) -> None:
    """What 1,000 typical items with six aspects cost, beside what the other way of asking costs."""

    def price(way: Way, job: Job) -> float:
        return price_job(prices, DEFAULT_MODEL, counts, job, way)

    cached, six = price("cached", Job()), Job(calls="independent")
    report.add(
        Figure(
            NAME,
            f"1,000 items, six aspects in one call, beginning cached, {DEFAULT_MODEL}",
            "USD",
            cached,
            peer=Beside("one call an aspect, cached", price("cached", six)),
            limit=Beside("dialogue and reply alone", price("cached", Job()) - price_beginning(counts, prices)),
            target=at_most(1.0, of="peer"),
        )
    )
    others: tuple[tuple[Way, str], ...] = (
        ("fresh", "nothing cached"),
        ("batch", "the provider's batch"),
        ("unmarked", "not marked"),
    )
    for way, name in others:
        report.add(
            Figure(
                NAME, f"the same, beginning cached, against {name}", "USD", cached, peer=Beside(name, price(way, Job()))
            )
        )


def price_beginning(counts: Counts, prices: Prices) -> float:
    """What of the cached cost is the beginning's: without it there would be nothing to ask."""
    price = prices.models[DEFAULT_MODEL]
    (reply,), message = counts.find("ja-dialogue", "ja").replies, counts.texts["ja-dialogue"].message.median
    return (
        price_job(prices, DEFAULT_MODEL, counts, Job(), "cached")
        - 1000 * (message * price.input + reply * price.output) / 1e6
    )


def main() -> None:
    run_alone(measure, __doc__)


if __name__ == "__main__":
    main()
