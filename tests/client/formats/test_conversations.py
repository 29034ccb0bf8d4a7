"""Whole conversations in files of items: they go to the service as they are."""

import json
from pathlib import Path

import pytest

from saiten.answers import ResultRow
from saiten.commands.items import read_whole
from saiten.core.formats import read_items
from saiten.core.formats.report import Report
from saiten.core.formats.writing import write_items
from saiten.run import row_cells

TURNS = [
    {"speaker": "客", "role": "user", "text": "もしもし。"},
    {"speaker": "受付", "role": "system", "text": "はい。"},
]
TALK = {"id": "t-1", "turns": TURNS, "persona": {"name": "受付"}, "goal": "予約する。", "metadata": {"system": "a"}}
UNNAMED = {"turns": [{"speaker": "A", "text": "もしもし。"}, {"speaker": "B", "text": "はい。"}]}


@pytest.mark.parametrize(
    "values", [[TALK, TALK], [{"rubric": "ja-conversation"}, TALK], [{**UNNAMED, "infer_roles": True}], [UNNAMED]]
)
def test_conversations_are_passed_on(tmp_path: Path, values: list[dict[str, object]]) -> None:
    file = tmp_path / "talks.ndjson"
    file.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    assert [found.value for found in read_whole(str(file))] == values


def test_they_are_converted_to_saiten_alone(tmp_path: Path) -> None:
    file = tmp_path / "talks.ndjson"
    file.write_text(json.dumps({**TALK, "note": "x"}, ensure_ascii=False) + "\n", encoding="utf-8")
    items = [found.value for found in read_items(str(file), source="saiten")]
    assert items == [TALK]
    assert [*write_items(items, "saiten", Report())] == items
    assert [*write_items(items, "promptfoo", Report())] == []


def test_findings_are_one_column() -> None:
    findings = [
        {"turn": 1, "aspect": "memory", "code": None, "by": "judge", "detail": "x"},
        {"turn": 3, "aspect": None, "code": "repetition", "by": "rule", "detail": "x"},
    ]
    row = ResultRow.model_validate({"status": "scored", "findings": findings})
    assert dict(row_cells(row, [], []))["findings"] == "1:judge/memory;3:repetition"
    assert "findings" not in dict(row_cells(ResultRow(status="scored"), [], []))
