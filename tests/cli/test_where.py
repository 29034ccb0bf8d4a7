"""Files of several builds: what tells them apart is said, and `--where` takes one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from saiten.commands.files import InvalidItems
from saiten.commands.gate_settings import GateSettings
from saiten.commands.items import choose_reading, read_whole
from saiten.commands.runs import is_result, read_item_file
from tests.support.command import saiten
from tests.support.gate_files import make_result, write_lines

ROWS = [
    ("q1", "a-1", "7", "はい。"),
    ("q2", "a-1", "8", "いいえ。"),
    ("q1", "a-2", "7", "そう。"),
    ("q2", "a-2", "8", "いいえ。"),
]


def write_table(folder: Path, rows: Sequence[tuple[str, ...]] = ROWS) -> str:
    lines = ["番号,ビルド,回,質問,回答", *(f"{i},{b},{n},元気ですか,{r}" for i, b, n, r in rows)]
    (folder / "対話.csv").write_text("\r\n".join(lines), encoding="cp932")
    return str(folder / "対話.csv")


def take(path: str, *wheres: str) -> list[dict[str, Any]]:
    return [found.value for found in read_whole(path, choose_reading(None, (), None, wheres))]


@pytest.mark.parametrize(
    ("wheres", "expected"),
    [
        (["ビルド=a-2"], [("q1", "そう。"), ("q2", "いいえ。")]),
        (["build=a-1"], [("q1", "はい。"), ("q2", "いいえ。")]),  # as items call it
        (["build=a-1", "回=8"], [("q2", "いいえ。")]),
        (["build=a-1", "build=a-2", "番号=q1"], [("q1", "はい。"), ("q1", "そう。")]),
    ],
)
def test_rows_are_taken_by_what_their_columns_say(
    tmp_path: Path, wheres: list[str], expected: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = take(write_table(tmp_path), *wheres)
    assert [(one["id"], one["response"]) for one in found] == expected
    assert f"left out by --where: {len(ROWS) - len(found)} row" in capsys.readouterr().err


def test_two_builds_in_one_file_are_said_with_what_tells_them_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take(write_table(tmp_path))
    told = capsys.readouterr().err
    assert "different responses have the same id (such ids: 1, first q1)" in told
    assert "--where build=a-1 takes one" in told
    # Twice the same response, or one id each, is no such file.
    take(write_table(tmp_path, ROWS[:2] + ROWS[1:2]))
    assert "different responses" not in capsys.readouterr().err


def test_the_baseline_of_one_build_is_compared_with_another_one(tmp_path: Path) -> None:
    options = ("--candidate", write_table(tmp_path), "--where", "build=a-1", "--judge", "lexical")
    done = saiten("gate", *options, "--record", "base.ndjson", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "saiten gate --baseline base.ndjson --where build=…" in done.stderr


def test_items_and_results_in_our_own_form_are_looked_at_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        {"id": i, "context": [{"speaker": "A", "text": "元気？"}], "response": r, "metadata": {"build": b, "kind": "x"}}
        for i, b, _, r in ROWS
    ]
    path = write_lines(tmp_path / "items.ndjson", [{"name": "nightly"}, *items])
    assert path
    found = take(str(tmp_path / "items.ndjson"), "build=a-2")
    assert [one.get("response") for one in found] == [None, "そう。", "いいえ。"]  # with the batch's options
    results = [make_result(0, rating, metadata={"system": name}) for name, rating in (("甲", 3), ("乙", 2))]
    write_lines(tmp_path / "results.ndjson", results)
    capsys.readouterr()
    read_whole(str(tmp_path / "results.ndjson"), beside=is_result)
    assert "--where system=甲 takes one" in capsys.readouterr().err.replace("'", "")
    settings = GateSettings(where={"system": "乙"})
    file = str(tmp_path / "results.ndjson")
    assert [len(read_item_file(file, role, settings)) for role in ("candidate", "baseline")] == [1, 2]


def test_what_cannot_be_taken_is_said(tmp_path: Path) -> None:
    path = write_table(tmp_path)
    for where, told in (
        ("build", "write it like build=1a2b"),
        ("バージョン=1", "no row has a column バージョン; there are 番号, ビルド, 回, 質問, 回答"),
        ("ビルド=a-9", "no row is wanted; ビルド has a-1, a-2"),
    ):
        with pytest.raises(InvalidItems, match=told):
            take(path, where)
