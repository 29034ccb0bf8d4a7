"""docs/gate.md: its example makes what it says, and it names every key, option and code."""

import re
import shutil
from pathlib import Path
from typing import get_args

from saiten.commands.gate import command
from saiten.commands.gate_settings import GateSettings
from saiten_server.comparison.values import GateReason
from tests.support.command import saiten

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def test_the_example_fails_as_the_page_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shown = PAGE.partition("Record what main says")[2].partition("```\n")[2].partition("\n```")[0]
    calls = re.findall(r"^\$ saiten (gate .*)$", shown, re.MULTILINE)
    done = [saiten(*call.split(), folder=tmp_path) for call in calls]
    assert [each.returncode for each in done] == [0, 1], done[-1].stderr
    told = [line.rstrip() for each in done for line in each.stdout.splitlines() if line.strip()]
    expected = [line.rstrip() for line in shown.splitlines() if line.strip() and line[0] not in "$1"]
    assert [hide(line) for line in told] == [hide(line) for line in expected]


def hide(line: str) -> str:
    """The line without what is another each time."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "a time", line)


def test_every_key_option_and_code_is_named() -> None:
    codes = get_args(GateReason.model_fields["code"].annotation)
    options = [name for option in command.params for name in option.opts if name.startswith("--")]
    shown_by_help = {"--reasons", "--rubric", "--path", "--budget", "--name", "--min-mean", "--min-coverage", "--alpha"}
    missing = [name for name in [*GateSettings.model_fields, *codes, *options] if name not in PAGE]
    assert set(missing) <= shown_by_help
