"""`saiten batch`: a table becomes a batch, whose summary is printed."""

import json
from pathlib import Path

from tests.support.command import saiten

TABLE = "番号,質問,回答,参考\n1,元気ですか？,はい、元気です。,x\n2,何時ですか？,10時です。,y\n"


def test_a_table_is_scored_as_a_batch(tmp_path: Path) -> None:
    (tmp_path / "chat.csv").write_text(TABLE, encoding="utf-8")
    options = ("--name", "nightly", "--metadata", "build=1a2b")
    done = saiten("batch", "chat.csv", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nightly (ba_")
    assert "): 2 scored" in done.stdout
    assert "回答 → response" in done.stderr
    summary = json.loads(saiten("batch", "chat.csv", *options, "--json", folder=tmp_path).stdout)
    assert (summary["name"], summary["counts"]["scored"]) == ("nightly", 2)


def test_a_row_without_a_response_is_named_before_anything_is_posted(tmp_path: Path, bare_sqlite_url: str) -> None:
    (tmp_path / "chat.csv").write_text("質問,回答\nq,\n", encoding="utf-8")
    done = saiten("batch", "chat.csv", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "chat.csv: line 2, column 回答: has no response" in done.stderr
    assert not (tmp_path / "saiten.db").exists()


def test_what_cannot_be_waited_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat.csv").write_text(TABLE, encoding="utf-8")
    for options, words in {("--no-wait",): "--no-wait goes with --url", ("--metadata", "x"): "build=1a2b"}.items():
        done = saiten("batch", "chat.csv", *options, folder=tmp_path)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
