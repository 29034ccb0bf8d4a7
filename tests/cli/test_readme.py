"""What the README shows of the gate and of the analyses is what they print, in each of its languages."""

import re
import shlex
import shutil
from itertools import takewhile
from pathlib import Path

import pytest

from tests.support.command import saiten

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SHOWN = re.compile(r"```text\n(.*?)```", re.DOTALL)


def read_section(title: str) -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def squeeze(text: str) -> str:
    return " ".join(text.split())


def read_tables(text: str) -> list[set[str]]:
    """The heading and the rows of each table, which ends at an empty line."""
    lines = [squeeze(line) for line in text.splitlines()]
    begins = [at - 1 for at, line in enumerate(lines) if line.startswith("──")]
    return [{line.strip("─") for line in takewhile(bool, lines[at:])} for at in begins]


@pytest.mark.parametrize(
    ("title", "codes"),
    [("Fail the build when the bot got worse", [0, 1]), ("Ask what the numbers mean", [0, 0, 0])],
)
def test_commands_print_what_the_readme_shows(title: str, codes: list[int], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    section = read_section(title)
    (commands,), (shown,) = COMMANDS.findall(section), SHOWN.findall(section)
    printed = ""
    for line, code in zip(commands.splitlines(), codes, strict=True):
        _, *arguments = shlex.split(line, comments=True)
        done = saiten(*arguments, folder=tmp_path)
        assert done.returncode == code, done.stderr
        printed += done.stdout
    # A line may be cut short by "…", and a long one stands on two.
    parts = [part for line in shown.splitlines() if (part := squeeze(line.removesuffix("…")))]
    assert len(parts) >= 8
    assert [part for part in parts if part not in squeeze(printed)] == []
    tables = read_tables(printed)
    assert [rows for rows in read_tables(shown) if not any(rows <= table for table in tables)] == []


@pytest.mark.parametrize("translation", ["README.ja.md", "README.ko.md"])
def test_every_language_has_the_same_commands_and_outputs(translation: str) -> None:
    def read_blocks(name: str) -> list[list[str]]:
        page = (ROOT / name).read_text(encoding="utf-8")
        commands = [line.partition(" #")[0].rstrip() for block in COMMANDS.findall(page) for line in block.splitlines()]
        # The texts of a request are in the language of its page, and so is the rubric of the demo's table, which stands first.
        return [[line for line in commands if not line.startswith("  ")], SHOWN.findall(page)[1:]]

    assert read_blocks(translation) == read_blocks("README.md")


def test_the_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700
