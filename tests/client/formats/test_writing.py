"""Items for other tools: what was written is read again as the same items, and what is lost is told."""

import io
import json
from typing import Any

import pytest

from saiten.core.formats import read_items
from saiten.core.formats.report import Report
from saiten.core.formats.writing import TARGET_WRITERS, write_items

ITEMS: list[dict[str, Any]] = [
    {
        "id": "1",
        "context": [
            {"speaker": "user", "text": "こんにちは"},
            {"speaker": "assistant", "text": "やあ"},
            {"speaker": "user", "text": "元気？"},
        ],
        "response": "元気です",
        "reference": "はい",
        "dialogue": "d-1",
        "metadata": {"system": "bot-a", "build": "12"},
    },
    {"id": "2", "context": [{"speaker": "user", "text": "잘 지내요?"}], "response": "네, 잘 지내요."},
]


def convert(items: list[dict[str, Any]], target: str) -> tuple[list[dict[str, Any]], Report]:
    report = Report()
    return list(write_items(items, target, report)), report


@pytest.mark.parametrize("target", ["saiten", "promptfoo", "inspect_ai", "mlflow", "langfuse"])
def test_what_was_written_is_read_again(target: str) -> None:
    written, report = convert(ITEMS, target)
    file = io.BytesIO("\n".join(json.dumps(record) for record in written).encode())
    reader = read_items(file)
    assert [item.value for item in reader] == ITEMS
    assert reader.report.source == target
    assert not report.left_out


def test_a_row_for_weave() -> None:
    written, _ = convert(ITEMS[:1], "wandb")
    assert written == [
        {
            "id": "1",
            "dialogue": "d-1",
            "messages": [
                {"role": "user", "content": "こんにちは"},
                {"role": "assistant", "content": "やあ"},
                {"role": "user", "content": "元気？"},
            ],
            "output": "元気です",
            "reference": "はい",
            "metadata": {"system": "bot-a", "build": "12"},
        }
    ]


@pytest.mark.parametrize("target", sorted(TARGET_WRITERS.keys() - {"saiten"}))
def test_every_candidate_is_a_record(target: str) -> None:
    item = {"id": "1", "context": [{"speaker": "A", "text": "q"}], "responses": ["r", "s"], "rubric": "ja-dialogue"}
    written, report = convert([item], target)
    assert len(written) == 2
    assert all(text in json.dumps(record) for record, text in zip(written, ['"r"', '"s"'], strict=True))
    assert dict(report.left_out) == {
        ("rubric", f"{target} has no place for it"): 1,
        ("speaker A", f"{target} has user and assistant"): 1,
    }


def test_metadata_whose_name_is_taken() -> None:
    item = {**ITEMS[1], "metadata": {"response": "old"}}
    written, report = convert([item], "langfuse")
    assert written[0]["metadata"] == {"response": "네, 잘 지내요."}
    assert ("metadata.response", "the item's own response takes its place") in report.left_out
