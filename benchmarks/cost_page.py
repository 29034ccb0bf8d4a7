"""Writes docs/cost.md: the words of cost_page.md with figures from counted tokens and the shipped prices. The page in
another language has its words in cost_page.LANGUAGE.md, and those of its tables in cost_page.LANGUAGE.toml.

With `--check` it says whether the pages are up to date. Where the tokenizer is installed (the extra `bench`) tokens are
counted again and kept in benchmarks/token_counts.json. Without it the kept counts are used as long as they are those of
the current prompts.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

from benchmarks.cost_table import (
    ITEMS,
    Job,
    find_writers,
    list_below,
    price_job,
    show_dollars,
    table_of_conversations,
    table_of_costs,
    table_of_prompts,
    table_of_rubrics,
)
from benchmarks.prompt_tokens import (
    FILE,
    TURNS,
    Counts,
    NoTokenizer,
    count_all,
    dump_counts,
    find_conversation_rubrics,
    find_rubrics,
    list_stale,
    load_counts,
)
from saiten_server.providers.openai.judge import DEFAULT_MODEL
from saiten_server.providers.openai.prices import (
    CACHEABLE_TOKENS,
    REASON_TOKENS,
    SURELY_CACHEABLE_TOKENS,
    Price,
    Prices,
    read_prices,
)
from saiten_server.providers.ports import PROVIDER_BATCH_SHARE

DOCS = Path(__file__).parents[1] / "docs"
WORDS = {path.name.removeprefix("cost_page"): path for path in sorted(Path(__file__).parent.glob("cost_page*.md"))}
"""The words by the ending of the page's name, such as `.ko.md`, with a place for each figure."""


def render(counts: Counts, prices: Prices, model: str = DEFAULT_MODEL, ending: str = ".md") -> str:
    """The whole page in one language. Raises KeyError where the model has no price."""
    told = open_phrases(ending)
    price, job = prices.models[model], Job()
    asked, texts = counts.find(job.rubric, "ja"), counts.texts
    costs = {way: price_job(prices, model, counts, job, way) for way in ("fresh", "cached", "batch")}
    (prefix,), (reply,), message = asked.prefixes, asked.replies, texts[job.rubric].message.median
    writers = find_writers()
    writing, reading = sum_up(price, prefix, message, reply, writers)
    words = WORDS[ending].read_text(encoding="utf-8")
    return words.format(
        updated=prices.updated,
        model=model,
        one_call=f"${show_dollars(costs['cached'])}",
        six_calls=f"${show_dollars(price_job(prices, model, counts, Job(calls='independent'), 'cached'))}",
        batch=f"${show_dollars(costs['batch'])}",
        fresh=f"${show_dollars(costs['fresh'])}",
        examples=f"${show_dollars(price_examples(counts, price, writers))}",
        tokenizer=counts.tokenizer,
        texts=told(", ".join(f"{texts[one.id].dialogues} of `{one.id}`" for one in find_rubrics())),
        talks=told(", ".join(f"{texts[one.id].dialogues} of `{one.id}`" for one in find_conversation_rubrics())),
        turns=TURNS,
        reason=REASON_TOKENS,
        prompts=told(table_of_prompts(counts)),
        least=CACHEABLE_TOKENS,
        surely=SURELY_CACHEABLE_TOKENS,
        share=told(describe_share(counts)),
        writers=writers,
        readers=ITEMS - writers,
        below=told(describe_below(counts)),
        characters=ITEMS * texts[job.rubric].characters,
        costs=told(table_of_costs(counts, prices)),
        input=price.input,
        cached=price.cached_input,
        write=price.input if price.cache_write is None else price.cache_write,
        output=price.output,
        prefix=prefix,
        message=message,
        reply=reply,
        writing=f"{writing:.4f}",
        reading=f"{reading:.4f}",
        batch_share=PROVIDER_BATCH_SHARE,
        rubrics=told(table_of_rubrics(counts, prices, model)),
        conversations=told(table_of_conversations(counts, prices, model)),
    )


def open_phrases(ending: str) -> Callable[[str], str]:
    """What puts the tables and lists, which are made in English, into the language of the page."""
    file = WORDS[ending].with_suffix(".toml")
    phrases = tomllib.loads(file.read_text(encoding="utf-8"))["phrases"] if file.exists() else []

    def tell(text: str) -> str:
        for pattern, words in phrases:
            text = re.sub(pattern, words, text)
        return text

    return tell


def write_pages(counts: Counts, prices: Prices) -> dict[Path, str]:
    """The page in each language that has words."""
    return {DOCS / f"cost{ending}": render(counts, prices, ending=ending) for ending in WORDS}


def sum_up(price: Price, prefix: int, message: int, reply: int, writers: int) -> tuple[float, float]:
    """US dollars of the calls that write the beginning, and of those that find it: the page's own arithmetic."""
    rest = message * price.input + reply * price.output
    write = price.input if price.cache_write is None else price.cache_write
    return writers * (prefix * write + rest) / 1e6, (ITEMS - writers) * (prefix * price.cached_input + rest) / 1e6


def price_examples(counts: Counts, price: Price, writers: int) -> float:
    """What the examples of the rubric with six aspects cost in ITEMS calls that share their beginning."""
    (full,), (bare,) = (
        counts.find("ja-dialogue", "ja").prefixes,
        counts.find("ja-dialogue", "ja", examples=False).prefixes,
    )
    (with_them, found), (without, found_bare) = (sum_up(price, tokens, 0, 0, writers) for tokens in (full, bare))
    return with_them + found - without - found_bare


def describe_share(counts: Counts) -> str:
    """The least and the greatest share of the beginning in a typical prompt, over the rubrics that ask in one call."""
    shares = []
    asked = product((("ja-dialogue", "ja"), ("ko-dialogue", "ko"), ("ko-comment", "ko")), (False, True))
    for (rubric, own), english in asked:
        language = "en" if english else own
        (prefix,) = counts.find(rubric, language).prefixes
        shares.append(round(100 * prefix / (prefix + counts.texts[rubric].message.median)))
    return f"{min(shares)}% to {max(shares)}%"


def describe_below(counts: Counts) -> str:
    """A line for every way to ask whose beginning the provider does not keep."""
    ways = {"joint": "all aspects in one call", "independent": "one call an aspect"}
    lines = []
    for rubric, language, calls, prefixes in list_below(counts):
        total = len(counts.find(rubric, language, calls).prefixes)
        lines.append(
            f"- `{rubric}`, {language}, {ways[calls]}: {len(prefixes)} of {total}, {min(prefixes)} tokens at the least"
        )
    return "\n".join(lines)


def main() -> int:
    """Writes the pages, or compares them."""
    if "--check" in sys.argv[1:]:
        counts = load_counts()
        pages = write_pages(counts, read_prices())
        changed = [
            path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        return int(bool(list_stale(counts) or changed))
    try:
        counts = count_all()
    except NoTokenizer as error:
        counts = load_counts()
        if list_stale(counts):
            print(f"the prompts have changed and cannot be counted: {error}", file=sys.stderr)
            return 1
    FILE.write_text(dump_counts(counts), encoding="utf-8")
    for path, text in write_pages(counts, read_prices()).items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
