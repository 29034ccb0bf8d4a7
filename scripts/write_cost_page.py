"""Writes docs/cost.md from counted tokens and the shipped prices; `--check` says whether it is up to date.

Where the tokenizer is installed (the extra `bench`) tokens are counted again and kept in benchmarks/token_counts.json.
Without it the kept counts are used as long as they are those of the current prompts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from app.providers.openai.prices import read_prices
from benchmarks.cost_page import render
from benchmarks.prompt_tokens import FILE, NoTokenizer, count_all, dump_counts, list_stale, load_counts

PAGE = Path(__file__).parents[1] / "docs" / "cost.md"


def main() -> int:
    """Writes the page, or compares it."""
    if "--check" in sys.argv[1:]:
        counts = load_counts()
        return int(bool(list_stale(counts)) or PAGE.read_text(encoding="utf-8") != render(counts, read_prices()))
    try:
        counts = count_all()
    except NoTokenizer as error:
        counts = load_counts()
        if list_stale(counts):
            print(f"the prompts have changed and cannot be counted: {error}", file=sys.stderr)
            return 1
    FILE.write_text(dump_counts(counts), encoding="utf-8")
    PAGE.write_text(render(counts, read_prices()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
