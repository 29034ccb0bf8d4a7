"""`saiten analyze` in this process, and small records for it."""

import io
import json
from collections.abc import Sequence
from typing import Any

import openpyxl
from click.testing import CliRunner, Result

from saiten_server.cli import saiten

Record = dict[str, Any]

AGREED: list[Record] = [
    {"system": "会話-A", "item": item, "rater": rater, "ratings": {"自然さ": value}}
    for rater, values in ((1, (1, 2, 3)), (2, (1, 3, 2)))
    for item, value in enumerate(values, start=1)
]


def analyze(*arguments: str, stdin: bytes | None = None) -> Result:
    """Runs `saiten analyze …` in this process."""
    return CliRunner().invoke(saiten, ["analyze", *arguments], input=stdin)


def ndjson(records: list[Record]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def report(*arguments: str, records: list[Record] | bytes) -> Any:
    """The JSON that the analysis of the records prints."""
    stdin = records if isinstance(records, bytes) else ndjson(records)
    done = analyze(arguments[0], "-", *arguments[1:], "--json", stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments: str, stdin: bytes) -> list[str]:
    """The lines on standard error of a command that refuses its input."""
    done = analyze(arguments[0], "-", *arguments[1:], stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return done.stderr.splitlines()


def table(*, separator: str = ",", end: str = "\n") -> str:
    rows = ["system,item,rater,自然さ"]
    rows += [f"{each['system']},{each['item']},{each['rater']},{each['ratings']['自然さ']}" for each in AGREED]
    return "".join(row.replace(",", separator) + end for row in rows)


def make_workbook(rows: Sequence[Sequence[Any]]) -> bytes:
    """A workbook with one sheet of these rows."""
    book = openpyxl.Workbook()
    book.active.title = "評価"
    for row in rows:
        book.active.append(list(row))
    saved = io.BytesIO()
    book.save(saved)
    return saved.getvalue()
