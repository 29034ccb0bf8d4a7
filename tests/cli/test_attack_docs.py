"""docs/attack.md names every option, and its item is one."""

import json
from pathlib import Path

from saiten.commands.exits import VERDICT_EXITS
from saiten_server.attacks.values import AttackItem
from saiten_server.cli.attack import command
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import validate

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "attack.md").read_text(encoding="utf-8")


def test_every_option_is_named() -> None:
    options = [name for option in command.params for name in option.opts if name.startswith("--")]
    assert {name for name in options if name not in PAGE} == {"--concurrency"}


def test_every_exit_code_is_told() -> None:
    assert [f"| {code} |" in PAGE for code in (*VERDICT_EXITS.values(), 3)] == [True] * 4


def test_the_shown_item_is_one_and_names_every_field() -> None:
    shown = json.loads(PAGE.partition("```json\n")[2].partition("```")[0])
    item = validate(AttackItem, shown, DEFAULT_LIMITS)
    assert item.twinned
    named = [*AttackItem.model_fields, *type(item.check).model_fields]
    assert [name for name in named if name not in PAGE] == []
