"""The sentences of errors, as they stand in the code: what a catalogue of translations must know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from app.domain import errors

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "client/saiten")

ELSEWHERE = (
    "app/charts",
    "app/cli",
    "app/finetuning",
    "app/metrics",
    "app/openers.py",
    "app/runtime",
    "app/providers/causal_lm.py",
    "app/providers/huggingface.py",
    "app/providers/openai/__init__.py",
    "app/providers/registry.py",
    "app/storage/rubric_files.py",
    "app/storage/sql/schema.py",
    "app/stats/attacks.py",
    "app/text/facts.py",
    "app/text/faults.py",
    "app/container.py",
    "client/saiten/commands",
    "client/saiten/client.py",
    "client/saiten/connection.py",
    "client/saiten/core/addresses.py",
    "client/saiten/core/formats",
    "client/saiten/private.py",
    "client/saiten/pytest_plugin.py",
    "client/saiten/testing.py",
)
"""What no request is refused with: commands, settings and rubric files at the start, findings of rules."""

KINDS = {
    *(name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)),
    *("RequestRefused", "InvalidDocument", "Unfit", "StrictJSONError", "ValueError", "at_most"),
    *("refuse", "stop", "refused", "fail", "too_slow", "invalid_json", "unsupported", "Treatment"),
}
VARIABLES = {"detail", "what", "why"}

Sentence = tuple[str, ...]
"""The fixed parts of a sentence, in order; values stand between them."""

CATALOGUED = re.compile(r"\{[a-z]+\}")
MARKED = "\0"


@cache
def find_sentences() -> dict[Sentence, str]:
    """Every sentence of an error that may answer a request, with one place where it stands."""
    found: dict[Sentence, str] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(ELSEWHERE):
                for line, text in read_sentences(ast.parse(path.read_text("utf-8"))):
                    found.setdefault(cut(text), f"{name}:{line}")
    return found


def read_sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The sentences of one module, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in KINDS:
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                yield from ((node.lineno, text) for text in texts_in(argument))
        elif isinstance(node, ast.Assign) and name_of(node.targets[0]) in VARIABLES:
            yield from ((node.lineno, text) for text in texts_in(node.value))


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def texts_in(node: ast.AST) -> Iterator[str]:
    """The outermost texts of an expression that are sentences: with a space, and more than a value."""
    text = text_of(node)
    if text is None:
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.Call) and name_of(child.func) in KINDS):
                yield from texts_in(child)
    elif " " in text.replace(MARKED, "").strip():
        yield text


def text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else MARKED for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None and right is None else (left or MARKED) + (right or MARKED)
    return None


def cut(text: str) -> Sentence:
    """The parts of a text; values that stand side by side are one."""
    return tuple(re.split(f"{MARKED}+", CATALOGUED.sub(MARKED, text)))
