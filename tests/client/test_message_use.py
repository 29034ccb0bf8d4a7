"""Messages in the code, and the catalogues that have them."""

import ast
import re
import string
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

import saiten
import saiten_server
from saiten.core.messages import read_catalogues

FILES = [file for package in (saiten_server, saiten) for file in Path(package.__file__ or "").parent.rglob("*.py")]


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


def list_fields(name: str) -> Set[str]:
    """What a message's English template names."""
    return {field for _, field, _, _ in string.Formatter().parse(read_catalogues()[name]["en"]) if field}


def list_calls() -> list[tuple[str, ast.Call]]:
    return [
        (f"{file.parent.name}/{file.name}:{node.lineno}", node)
        for file in FILES
        if "Message(" in (text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message"
    ]


def test_each_message_is_in_a_catalogue_which_names_its_values() -> None:
    calls = list_calls()
    assert len(calls) > 100
    for place, call in calls:
        given = {one.arg for one in call.keywords if one.arg is not None}
        open_ended = any(one.arg is None for one in call.keywords)
        for pattern in find_ids(call.args[0]) if call.args else ():
            fitting = [name for name in read_catalogues() if re.fullmatch(pattern, name)]
            assert fitting, (place, pattern)
            wanted = [list_fields(name) for name in fitting]
            assert any(given <= each if open_ended else given == each for each in wanted), (place, pattern, given)


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_no_sentence_is_left_in_english(language: str) -> None:
    left = [
        name
        for name, told in read_catalogues().items()
        if re.search("[A-Za-z]{4,} [A-Za-z]{2,}", re.sub("`[^`]*`|\\{[^}]*\\}", "", told[language]))
    ]
    assert left == []
