"""Messages in the code against the catalogues: each has an entry with its values, and none is left over."""

import ast
import json
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saiten.core.faults import FAULTS
from saiten.core.messages import Message, read_catalogues
from saiten_server.core import errors
from saiten_server.platform.memory import without_collection
from saiten_server.platform.web.problems import PROBLEM_CODES, title_of

ROOT = Path(__file__).parents[2]
ERRORS = {
    *(name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)),
    *("RequestRefused", "InvalidDocument", "Unfit", "StrictJSONError", "Misfit"),
}


def list_files() -> list[Path]:
    return [path for folder in ("app", "client/saiten") for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def parse(path: Path) -> ast.Module:
    with without_collection():  # a collection amid its recursion makes the parser fail
        return ast.parse(path.read_text("utf-8"))


def texts_of(path: Path) -> set[str]:
    return {one.value for one in ast.walk(parse(path)) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


@cache
def list_calls() -> list[tuple[str, ast.Call]]:
    """Every call in the code of the service and the client, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in list_files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
    ]


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def find_ids(node: ast.expr) -> Iterator[str]:
    """The ids that an expression may be, as patterns; none where it is a name."""
    if isinstance(node, ast.Constant):
        yield re.escape(str(node.value))
    elif isinstance(node, ast.IfExp):
        yield from (*find_ids(node.body), *find_ids(node.orelse))
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z-]*" for part in node.values
        )


def list_messages() -> list[tuple[str, ast.Call]]:
    """Every message that the code makes, with its place."""
    return [(place, call) for place, call in list_calls() if name_of(call.func) == "Message"]


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_every_message_has_an_entry_with_its_values() -> None:
    known = read_catalogues()
    for place, call in list_messages():
        given = {one.arg for one in call.keywords if one.arg is not None}
        open_ended = any(one.arg is None for one in call.keywords)
        for pattern in find_ids(call.args[0]) if call.args else ():
            fitting = [names_in(known[name]["en"]) for name in known if re.fullmatch(pattern, name)]
            assert any(given <= one if open_ended else given == one for one in fitting), (place, pattern, given)
    assert {name: set(values) for name, *values in FAULTS.values()} == {
        name: names_in(known[name]["en"]) for name, *_ in FAULTS.values()
    }


def list_patterns() -> Iterator[re.Pattern[str]]:
    """The ids that the code puts together, such as `one-item` of a noun: they hold three letters at least that stand."""
    for path in list_files():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.JoinedStr):
                fixed = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
                if re.fullmatch("[a-z-]*", fixed) and len(fixed) > 2:
                    yield from map(re.compile, find_ids(node))


def test_every_entry_is_used() -> None:
    """Its id stands in the code, whole, as the singular of what is counted, or with a part that is put in."""
    texts = {name for path in list_files() for name in texts_of(path)} | {title_of(code).id for code in PROBLEM_CODES}
    patterns = list(list_patterns())
    left = {name for name in read_catalogues() if name not in texts and name.removesuffix("s") not in texts}
    assert [name for name in sorted(left) if not any(one.fullmatch(name) for one in patterns)] == []


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_no_sentence_is_left_in_english(language: str) -> None:
    """But for names of commands and settings, which stand in backticks."""
    left = [
        name
        for name, told in read_catalogues().items()
        if re.search(
            "[A-Za-z]{4,} [A-Za-z]{2,}",
            re.sub(
                "`[^`]*`|\\{[^}]*\\}|Authorization: Bearer KEY|saiten rubric check|Kubernetes( Service)?|REDIS_URL|Hugging Face( Hub)?|SQLAlchemy URL",
                "",
                told[language],
            ),
        )
    ]
    assert left == []


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
