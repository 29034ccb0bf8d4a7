"""Writes docs/cost.md and its translation: the words of cost_page.md with figures from counted tokens and the shipped
prices.

With `--check` it says whether the page is up to date. Where the tokenizer is installed (the extra `bench`) tokens are
counted again and kept in benchmarks/token_counts.json. Without it the kept counts are used as long as they are those of
the current prompts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType

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

PAGES: Mapping[str, tuple[Path, Path]] = MappingProxyType(
    {
        language: (
            Path(__file__).parents[1] / "docs" / f"cost{suffix}.md",
            Path(__file__).parent / f"cost_page{suffix}.md",
        )
        for language, suffix in (("en", ""), ("ja", ".ja"))
    }
)
"""By language the page, and its words with a place for each figure."""

JAPANESE: tuple[tuple[str, str], ...] = (
    (r"(\d+) of (`[a-z-]+`)", r"\2 \1 件"),
    (r"件, ", "件、"),
    (r"(\d+) % to (\d+) %", r"\1〜\2 % "),
    (
        r"one call an aspect: (\d+) of (\d+), (\S+) tokens at the least",
        r"観点ごとに 1 回：\2 問中 \1 問、最短 \3 トークン",
    ),
    (r"(`[a-z-]+`), (ja|ko|en), ", r"\1（\2）、"),
    (r"(`[a-z-]+`), (ja|ko|en)", r"\1（\2）"),
    (r" \((\d+) kept\)", r"（うち保存 \1）"),
    (r"rubric, asked in", "ルーブリック（言語）"),
    (r"calls an item", "1 項目の呼び出し"),
    (r"beginning's share", "先頭部分の割合"),
    (r"of it examples?", "うち例"),
    (r"text format", "テキスト形式"),
    (r"(dialogue|conversation) \(p95\)", "対話（p95）"),
    (r"one call", "1 回の呼び出し"),
    (r"six calls", "6 回の呼び出し"),
    (r", (\d) samples", r"、\1 サンプル"),
    (r", both paths", "、両方のパス"),
    (r", unmarked", "、印なし"),
    (r": live, each prompt written, none found", "：通常、毎回書き込み、見つからない"),
    (r": live, ", "：通常、"),
    (r": the provider's batch", "：バッチ API"),
    (r"provider's batch", "バッチ API"),
    (r"nothing cached", "キャッシュなし"),
    (r"beginning cached", "先頭部分がキャッシュにある"),
    (r"1,000 items", "1,000 項目"),
    (r"beginning", "先頭部分"),
    (r"reply", "返答"),
    (r"calls", "呼び出し"),
)
"""Words in tables and lists, longer ones before their parts, and what they are in Japanese."""


def translate(text: object, language: str) -> object:
    """Words that stand among figures, in the page's language."""
    if language == "en" or not isinstance(text, str):
        return text
    for found, meant in JAPANESE:
        text = re.sub(found, meant, text)
    return text


def render(counts: Counts, prices: Prices, model: str = DEFAULT_MODEL, language: str = "en") -> str:
    """The whole page. Raises KeyError where the model has no price."""
    price, job = prices.models[model], Job()
    asked, texts = counts.find(job.rubric, "ja"), counts.texts
    costs = {way: price_job(prices, model, counts, job, way) for way in ("fresh", "cached", "batch")}
    (prefix,), (reply,), message = asked.prefixes, asked.replies, texts[job.rubric].message.median
    writers = find_writers()
    writing, reading = sum_up(price, prefix, message, reply, writers)
    figures = {
        "updated": prices.updated,
        "model": model,
        "one_call": f"${show_dollars(costs['cached'])}",
        "six_calls": f"${show_dollars(price_job(prices, model, counts, Job(calls='independent'), 'cached'))}",
        "batch": f"${show_dollars(costs['batch'])}",
        "fresh": f"${show_dollars(costs['fresh'])}",
        "examples": f"${show_dollars(price_examples(counts, price, writers))}",
        "tokenizer": counts.tokenizer,
        "texts": ", ".join(f"{texts[one.id].dialogues} of `{one.id}`" for one in find_rubrics()),
        "talks": ", ".join(f"{texts[one.id].dialogues} of `{one.id}`" for one in find_conversation_rubrics()),
        "turns": TURNS,
        "reason": REASON_TOKENS,
        "prompts": table_of_prompts(counts),
        "least": CACHEABLE_TOKENS,
        "surely": SURELY_CACHEABLE_TOKENS,
        "share": describe_share(counts),
        "writers": writers,
        "readers": ITEMS - writers,
        "below": describe_below(counts),
        "characters": ITEMS * texts[job.rubric].characters,
        "costs": table_of_costs(counts, prices),
        "input": price.input,
        "cached": price.cached_input,
        "write": price.input if price.cache_write is None else price.cache_write,
        "output": price.output,
        "prefix": prefix,
        "message": message,
        "reply": reply,
        "writing": f"{writing:.4f}",
        "reading": f"{reading:.4f}",
        "batch_share": PROVIDER_BATCH_SHARE,
        "rubrics": table_of_rubrics(counts, prices, model),
        "conversations": table_of_conversations(counts, prices, model),
    }
    _, words = PAGES[language]
    return words.read_text(encoding="utf-8").format_map(
        {name: translate(figure, language) for name, figure in figures.items()}
    )


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
    return f"{min(shares)} % to {max(shares)} %"


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
        counts, prices = load_counts(), read_prices()
        old = [
            one for one, (page, _) in PAGES.items() if page.read_text("utf-8") != render(counts, prices, language=one)
        ]
        return int(bool(list_stale(counts) or old))
    try:
        counts = count_all()
    except NoTokenizer as error:
        counts = load_counts()
        if list_stale(counts):
            print(f"the prompts have changed and cannot be counted: {error}", file=sys.stderr)
            return 1
    FILE.write_text(dump_counts(counts), encoding="utf-8")
    for language, (page, _) in PAGES.items():
        page.write_text(render(counts, read_prices(), language=language), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
