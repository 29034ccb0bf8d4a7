"""An item for every turn of the assistant, of any format that holds whole dialogues."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from saiten.commands.convert import command
from saiten.core.formats import read_items, turns

MESSAGES = [
    {"role": "system", "content": "丁寧に。"},
    {"role": "user", "content": "席はありますか。"},
    {"role": "assistant", "content": "何名様ですか。"},
    {"role": "user", "content": "二人です。"},
    {"role": "assistant", "content": "窓際をどうぞ。"},
]
SAID = ["席はありますか。", "何名様ですか。", "二人です。", "窓際をどうぞ。"]
TABLE = "dialogue_id,turn,speaker,text\n" + "".join(
    f"d,{n},{('user', 'bot')[n % 2]},{text}\n" for n, text in enumerate(SAID)
)
TALK = {
    "id": "d",
    "turns": [
        {"speaker": "客係"[n % 2], "role": ["user", "system"][n % 2], "text": text} for n, text in enumerate(SAID)
    ],
}


def read(content: Any, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    text = content if isinstance(content, str) else "\n".join(json.dumps(line) for line in content)
    reader = read_items(io.BytesIO(text.encode()), every_turn=True, **options)
    return [item.value for item in reader], reader.report


def texts(items: list[dict[str, Any]]) -> list[list[str]]:
    return [[*(said["text"] for said in item["context"]), item["response"]] for item in items]


EARLIER, WHOLE = SAID[:2], SAID
CASES: dict[str, tuple[Any, list[list[str]], list[str | None]]] = {
    "messages": ([{"id": "d", "messages": MESSAGES}], [EARLIER, WHOLE], ["d-1", "d"]),
    "messages that the user ends": (
        [{"id": "d", "messages": [*MESSAGES, {"role": "user", "content": "どうも。"}]}],
        [EARLIER, WHOLE],
        ["d-1", "d-2"],
    ),
    "a table, an utterance a row": (TABLE, [EARLIER, WHOLE], ["d-1", "d"]),
    "a table that the user ends": (f"{TABLE}d,4,user,どうも。\n", [EARLIER, WHOLE], ["d-1", "d-2"]),
    "a conversation": ([TALK], [EARLIER, WHOLE], ["d-1", "d-2"]),
    "turns that are records already": (
        [{"id": "d", "questions": SAID[::2], "outputs": SAID[1::2]}],
        [EARLIER, WHOLE],
        ["d-1", "d-2"],
    ),
    "a column of history": ([{"history": SAID[:3], "response": SAID[3]}], [EARLIER, WHOLE], [None, None]),
    "one turn": ([{"id": "d", "messages": MESSAGES[:3]}], [EARLIER], ["d"]),
    "two systems": (
        [{"id": "d", "messages": MESSAGES, "metadata": {"system": name}} for name in "ab"],
        [EARLIER, WHOLE] * 2,
        ["d-1", "d"] * 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_turn_is_an_item(name: str) -> None:
    content, expected, ids = CASES[name]
    items, report = read(content)
    assert texts(items) == expected
    assert [item.get("id") for item in items] == ids
    assert report.items == len(expected)
    assert {item.get("dialogue") for item in items} <= {"d", None}


def test_a_dialogue_has_so_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_TURNS", 2)
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"{n}"} for n in range(10)]
    items, report = read([{"messages": messages}])
    assert [item["response"] for item in items] == ["1", "3", "9"]
    assert any("more than 2 turns" in line for line in report.lines())


def test_convert_makes_items_of_every_turn(tmp_path: Path) -> None:
    path = tmp_path / "talks.ndjson"
    path.write_text(json.dumps({"id": "d", "messages": MESSAGES}))
    result = CliRunner().invoke(command, [str(path), "--every-turn"])
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["d-1", "d"]
