"""Tables as CSV that a spreadsheet shows without running anything in them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

Cell = str | int | float | None
"""None is an empty cell."""

FORMULA = re.compile(
    r"[\t\r\n]|[\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]*[=+\-@＝＋－＠]"
)
"""What a spreadsheet takes for the beginning of a formula, and what it or an importer passes over in front of one:
white space and characters that are not seen (OWASP, CSV injection)."""


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take the text for a formula."""
    return FORMULA.match(text) is not None


def write_rows(rows: Sequence[Sequence[Cell]], is_delicate: Callable[[str], bool] = is_formula) -> bytes:
    """The rows as CSV. Every text is quoted, so that a spreadsheet that cuts at other characters cannot cut one in
    two, the second of which might be a formula."""
    sheet = io.StringIO()
    writer = csv.writer(sheet, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([defuse(cell, is_delicate) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return sheet.getvalue().encode()


def defuse(text: str, is_delicate: Callable[[str], bool] = is_formula) -> str:
    """The text, after an apostrophe where it is delicate, or looks as if it had one already: `restore` gives every
    text back as it was."""
    return f"'{text}" if is_delicate(text.lstrip("'")) else text


def restore(cell: str, is_delicate: Callable[[str], bool] = is_formula) -> str:
    """The text that `defuse` made this cell of."""
    return cell[1:] if cell.startswith("'") and is_delicate(cell.lstrip("'")) else cell


OWN_TABLES = (
    {"item", "status", "evaluation", "signature", "failure.code", "failure.detail"},
    {"item", "context", "run", "position", "change"},
    {"item", "context", "A.run", "A.position", "A.change"},
)
"""Columns by which tables of results and of the explorer's cases are known: their texts went through `defuse`."""


def is_own_table(names: Iterable[str]) -> bool:
    """Whether Saiten wrote the table with these columns."""
    given = {*names}
    return any(columns <= given for columns in OWN_TABLES)


BATCH_METADATA = "batch_metadata"
"""The batch's metadata in each of its results, beside `metadata`, which is the item's."""

TEXT_COLUMNS = {
    "context": "context",
    "response": "response",
    "turns": "turns",
    "persona": "given.persona",
    "goal": "given.goal",
}
"""The columns of an item's texts. Rubrics of conversations have aspects named `persona` and `goal`."""


def write_text(text: Sequence[Mapping[str, str]] | Mapping[str, Any] | str | None) -> str | None:
    """A text of an item in one cell: utterances with their speakers, a line each; a persona as JSON, and utterances
    that `read_utterances` would take for others."""
    if text is None or isinstance(text, str):
        return text
    if not isinstance(text, Mapping):
        spoken = [{"speaker": one["speaker"], "text": one["text"]} for one in text]
        lines = "\n".join(f"{one['speaker']}: {one['text']}" for one in spoken)
        if read_utterances(lines) == spoken:
            return lines
    return json.dumps(text, ensure_ascii=False, separators=(",", ":"))


def read_utterances(cell: str) -> list[dict[str, str]]:
    """The utterances that `write_text` made this cell of. A line that names no speaker goes on with the one before."""
    if cell.startswith("[{"):
        with suppress(ValueError, RecursionError):
            found: list[dict[str, str]] = json.loads(cell)
            return found
    spoken: list[dict[str, str]] = []
    for line in cell.split("\n"):
        speaker, named, text = line.partition(": ")
        if named or not spoken:
            spoken.append({"speaker": speaker, "text": text})
        else:
            spoken[-1]["text"] += f"\n{line}"
    return spoken


class FaultyTurn(Protocol):
    """A finding of a conversation."""

    @property
    def turn(self) -> int: ...
    @property
    def code(self) -> str | None: ...
    @property
    def aspect(self) -> str | None: ...
    @property
    def kind(self) -> str | None: ...


def name_findings(findings: Iterable[FaultyTurn]) -> Cell:
    """The findings in one cell, as `turn:code/aspect;…`, with `judge` for the code of the judge's; None without any."""
    told = (f"{one.turn}:{one.code or 'judge'}{f'/{one.aspect}' if one.aspect else ''}" for one in findings)
    return ";".join(told) or None


def name_kinds(findings: Iterable[FaultyTurn]) -> Cell:
    """The kinds of faults in one cell, as `turn:kind;…`, each once; None where no finding has one."""
    told = dict.fromkeys(f"{one.turn}:{one.kind}" for one in findings if one.kind is not None)
    return ";".join(told) or None
