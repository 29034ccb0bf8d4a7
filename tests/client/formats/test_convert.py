"""The command `saiten convert`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from saiten.commands.convert import command


def convert(*arguments: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=given)


def test_items_on_standard_output_and_the_report_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("番号,質問,回答,メモ\r\n1,元気？,元気です,x\r\n2,何？,,\r\n".encode("cp932"))
    ran = convert(str(path))
    assert ran.exit_code == 0
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"id": "1", "context": [{"speaker": "user", "text": "元気？"}], "response": "元気です"}
    ]
    assert ran.stderr.splitlines() == [
        f"saiten: {path}: text, CP932 (Shift_JIS), detected, separated by commas; fields by their names",
        "  1 item from 2 rows",
        "  renamed: 回答 → response, 番号 → id, 質問 → context",
        "  left out:",
        "    メモ (1 row)",
        "  skipped: 1 row",
        "    has no response: line 3",
    ]


def test_standard_input_with_a_map_for_another_tool() -> None:
    given = "問い1つ;出した文\nq;r\n".encode("euc_jp")
    options = ("--to", "mlflow", "--map", "context=問い1つ", "--map", "response=出した文", "--input-encoding", "euc-jp")
    ran = convert("-", *options, given=given)
    assert json.loads(ran.stdout) == {"inputs": {"messages": [{"role": "user", "content": "q"}]}, "outputs": "r"}
    assert ran.stderr.startswith("saiten: standard input: text, EUC-JP, separated by semicolons")


def test_a_file_is_written_whole_or_stays_as_it_is(tmp_path: Path) -> None:
    path, output = tmp_path / "a.csv", tmp_path / "o.ndjson"
    path.write_text("質問,回答\n元気？,元気です\n", encoding="utf-8")
    ran = convert(str(path), "--output", str(output))
    assert (ran.exit_code, ran.stdout, ran.stderr.startswith(f"saiten: {path}: text")) == (0, "", True)
    kept = output.read_bytes()
    assert json.loads(kept)["response"] == "元気です"
    assert convert("-", "--output", str(output), given="質問,回答\nq,\n".encode()).exit_code == 2
    assert convert(str(path), "--output", str(path)).exit_code == 2
    assert output.read_bytes() == kept


def test_what_cannot_be_read_is_one_line_and_exit_code_2() -> None:
    ran = convert("nowhere.csv")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (2, "", "saiten: nowhere.csv: No such file or directory\n")


def test_a_file_without_any_item_fails_after_its_report() -> None:
    ran = convert("-", given="質問,回答\nq,\n".encode())
    assert ran.exit_code == 2
    assert "0 items from 1 row" in ran.stderr
    assert ran.stderr.endswith("no item was found; name the columns: --map response=COLUMN,context=COLUMN\n")
