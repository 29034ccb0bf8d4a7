"""Messages in the code against the catalogues: each has an entry with its values, and none is left over."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from saiten.core.faults import FAULTS
from saiten.core.messages import LANGUAGES, Message, read_catalogues
from saiten_server.core import errors
from saiten_server.platform.web.problems import CODES, title_of

ROOT = Path(__file__).parents[2]
ERRORS = {
    *(name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)),
    *("RequestRefused", "InvalidDocument", "Unfit", "StrictJSONError", "Misfit"),
}


@cache
def list_calls() -> list[tuple[str, ast.Call]]:
    """Every call in the code of the service and the client, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for folder in ("app", "client/saiten")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def list_messages() -> Iterator[tuple[str, str, set[str]]]:
    """Place, id and names of values of each message that the code makes with an id that stands there."""
    for place, call in list_calls():
        if name_of(call.func) == "Message" and call.args and isinstance(call.args[0], ast.Constant):
            yield place, str(call.args[0].value), {keyword.arg or MORE for keyword in call.keywords}
    for kind, (name, *values) in FAULTS.items():
        yield kind, name, set(values)


MORE = "**"
"""Stands for values that are not named where a message is made."""


def fits(named: set[str], values: set[str]) -> bool:
    """Whether a template has the values of a message."""
    return values - {MORE} <= named if MORE in values else named == values


@cache
def list_ids() -> tuple[set[str], list[re.Pattern[str]]]:
    """Texts that may be an id, and patterns of ids that are put together."""
    texts: set[str] = set()
    patterns = []
    for path in (path for folder in ("app", "client/saiten") for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.Constant) for part in node.values):
                parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values]
                if re.fullmatch(r"[a-z.+\\-]+", "".join(parts)):
                    patterns.append(re.compile("".join(parts)))
    return texts, patterns


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def test_every_message_has_an_entry_with_its_values() -> None:
    known = read_catalogues()
    wrong = [
        (place, name)
        for place, name, values in list_messages()
        if name not in known or any(not fits(names_in(known[name][language]), values) for language in LANGUAGES)
    ]
    assert wrong == []


def test_every_entry_is_used() -> None:
    texts, patterns = list_ids()
    used = texts | {name for _, name, _ in list_messages()} | {title_of(code).id for code in CODES}
    left = sorted(read_catalogues().keys() - used)
    assert [name for name in left if not any(pattern.fullmatch(name) for pattern in patterns)] == []


def test_no_error_is_raised_with_a_sentence() -> None:
    """Whose translation nobody would find."""
    raised = [
        place
        for place, call in list_calls()
        if name_of(call.func) in ERRORS and not place.startswith(("app/cli/", "client/saiten/"))
        for argument in call.args
        if isinstance(argument, ast.JoinedStr)
        or (isinstance(argument, ast.Constant) and isinstance(argument.value, str) and " " in argument.value)
    ]
    assert raised == []


def test_what_stands_in_a_message_is_no_template() -> None:
    assert str(Message("verbatim", text="{x}")) == "{x}"


def test_numbers_of_numpy_are_pythons_in_json() -> None:
    counted: Any = np.int64(7)
    assert json.dumps(Message("line", number=counted).as_json()) == '{"number": 7}'
