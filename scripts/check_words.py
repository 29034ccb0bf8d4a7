"""Finds words of scripts/words_to_avoid.txt in code, documentation and the dashboard's English.

Prints `file:line: word: replacement` for each and exits with 1; `--count` prints how many there are per file instead.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("words_to_avoid.txt")
PLACES = (
    "app",
    "client",
    "docs",
    "examples",
    "helm",
    "scripts",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Makefile",
    "Dockerfile",
    "compose.yaml",
    "pyproject.toml",
)
SUFFIXES = {"", ".html", ".js", ".json", ".md", ".mako", ".py", ".toml", ".tpl", ".txt", ".yaml", ".yml"}
LEFT_OUT = ("weights.json", "/locales/", "examples/ci", "tests/data", LIST.name)
"""Data, translations, recorded measurements, and the list itself."""


def read_list(text: str) -> list[tuple[re.Pattern[str], str]]:
    """The expressions with their replacements, from lines of `expression<TAB>replacement`; `#` begins a comment."""
    pairs = [line.split("\t", 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(re.compile(rf"(?<![A-Za-z])(?:{pair[0]})(?![A-Za-z])", re.IGNORECASE), pair[1]) for pair in pairs]


def find_files(root: Path) -> Iterator[Path]:
    """The text files to look at, in order."""
    for place in PLACES:
        found = root / place
        for path in sorted(found.rglob("*")) if found.is_dir() else [found]:
            name = path.relative_to(root).as_posix()
            if path.is_file() and path.suffix in SUFFIXES and not any(part in name for part in LEFT_OUT):
                yield path


def find_words(text: str, words: list[tuple[re.Pattern[str], str]]) -> Iterator[tuple[int, str, str]]:
    """(line from 1, word, replacement) of each occurrence."""
    for number, line in enumerate(text.splitlines(), start=1):
        for expression, replacement in words:
            for found in expression.finditer(line):
                yield number, found[0], replacement


def main() -> int:
    """The exit code."""
    words = read_list(LIST.read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    for path in find_files(ROOT):
        name = path.relative_to(ROOT).as_posix()
        for number, word, replacement in find_words(path.read_text(encoding="utf-8"), words):
            counts[name] += 1
            if "--count" not in sys.argv:
                print(f"{name}:{number}: {word!r}: write {replacement}")
    if "--count" in sys.argv:
        for name, count in counts.most_common():
            print(f"{count:5} {name}")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
