"""Files that cannot be read, or that want to hurt: one line that says what to do, and bounded work."""

import gzip
import io
import json
import random
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from saiten.core.formats import UnreadableInput, parse_map, read_items
from saiten.core.formats.tables import sniff
from tests.client.formats.test_tables import read, said, workbook

DATA = Path(__file__).parents[2] / "data" / "formats"


def refuse(name: str, content: bytes | str, **options: Any) -> str:
    with pytest.raises(UnreadableInput) as caught:
        read(name, content, **options)
    assert "\n" not in caught.value.detail
    return caught.value.detail


def archive(**entries: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries.items():
            packed.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    return file.getvalue()


BOMB = "a0: &a0 haha\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
"""Lists of ten times the list before: 10^11 texts."""


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "a.csv: is empty"),
        ("a.csv", "\n\n", "a.csv: is empty"),
        ("a.csv", ",,\n,,\n", "a.csv: is empty; the first row should name the columns"),
        ("a.csv", "質問,回答\n", "a.csv: has no rows"),
        ("a.json", "[]", "a.json: has no rows"),
        (
            "a.csv",
            "質問,回答,メモ,回答\nq,r,m,s\n",
            "a.csv: line 1: two columns are named '回答' (B and D); rename one",
        ),
        (
            "a.csv",
            "foo,bar\n1,2\n",
            "a.csv: no column is known as context or response (foo, bar); name them: --map response=COLUMN,context=COLUMN",
        ),
        (
            "a.csv",
            '質問,回答\n"あ,い\nう,え\n',
            "a.csv: line 2: unexpected end of data; a quotation mark in a quoted cell is written twice, and every cell that "
            "begins with one ends with one",
        ),
        (
            "a.jsonl",
            '{"question": "q", "answer": "r"}\n[1]\n',
            "a.jsonl:2: an item is a JSON object with context and response",
        ),
        (
            "a.jsonl",
            '{"question": "q", "answer": "r"}\n{"question": \n',
            "a.jsonl:2: is not valid JSON: Expecting value column",
        ),
        ("a.jsonl", '{"answer": "r", "answer": "s"}\n', "a.jsonl:1: an object holds the same key twice"),
        ("a.jsonl", '{"question": "\\ud800", "answer": "s"}\n', "a.jsonl:1: a string holds a lone surrogate"),
        (
            "a.json",
            '{"rows": [{"a": 1}], "items": [{"b": 2}]}',
            "a.json:1: holds several lists (rows, items); give one of",
        ),
        (
            "a.xlsx",
            workbook(("表", []), ("二", [])),
            "a.xlsx: its sheets are empty; the first row of one should name the",
        ),
        (
            "a.xlsx",
            workbook(("表", [["x", "y"], [1, 2]])),
            "a.xlsx: no column is known as context or response (x, y); name",
        ),
        (
            "a.xlsx",
            workbook(("表", [["x"], [1]]), ("二", [["y"], [1]])),
            "a.xlsx: no sheet (表, 二) names its columns as context",
        ),
        ("a.xlsx", b"PK\x03\x04 damaged", "a.xlsx: is damaged"),
        ("a.zip", archive(x=b"y"), "a.zip: is an archive without a table, NDJSON or JSON in it"),
        ("a.zip", archive(**{"a.csv": archive(x=b"y")}), "a.zip: a.csv: is an archive in an archive; unpack it first"),
        ("a.yaml", "a: [b\n", "a.yaml: line 2: "),
        ("a.yaml", "a: 1\na: 2\n", "a.yaml: line 2: an object holds the same key twice"),
        (
            "a.yaml",
            "a: !!python/object:os.system {}\n",
            "a.yaml: line 1: a tag such as tag:yaml.org,2002:python/object",
        ),
        ("a.yaml", "a: !!binary aGFsbG8=\n", "a.yaml: line 1: a tag such as tag:yaml.org,2002:binary is not read"),
        ("a.yaml", "a: &x [*x]\n", "a.yaml: line 1: an alias names nothing that stands before it"),
        ("a.yaml", "a: &x {b: 1}\nc:\n  <<: *x\n", "a.yaml: line 3: << is not read"),
        ("a.yaml", "[" * 100_000, "a.yaml: line 1: is nested too deeply"),
        ("a.yaml", "- " * 100_000, "a.yaml: line 1: is nested too deeply"),
        ("a.yaml", BOMB, "a.yaml: line 9: its aliases repeat more than is read"),
        ("a.xlsx", archive(xl__workbook_xml=b"<x/>"), "a.xlsx: is damaged (KeyError); save it again as .xlsx"),
        (
            "a.xlsx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.xlsx: is a workbook with a password; save it without one",
        ),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.xls: is a workbook of the old format .xls; save it as .xlsx"),
        ("a.csv.gz", b"\x1f\x8b\x08", "a.csv.gz: is damaged: "),
        ("a.csv.gz", gzip.compress(gzip.compress(b"", mtime=0), mtime=0), "a.csv.gz: is compressed; unpack it first"),
        ("a.csv.gz", gzip.compress(b"0" * 3_000_000, mtime=0), "a.csv.gz: unpacks to "),
        ("a.parquet", b"PAR1 damaged PAR1", "a.parquet: is damaged after row 0"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(name: str, content: bytes | str, message: str) -> None:
    assert refuse(name, content).startswith(message)


def test_the_wrong_encoding_names_the_line() -> None:
    content = "質問,回答\n" + "あ,い\n" * 5000 + "日本語,テスト\n"
    mixed = content.encode() + "困った,行\n".encode("cp932")
    assert refuse("a.csv", mixed).startswith(
        "a.csv: line 5003: is not utf-8 as the lines before it; name its encoding with"
    )
    wrong = refuse("a.csv", content.encode("cp932"), input_encoding="utf-8")
    assert wrong.startswith("a.csv: line 1: is not utf-8; name its encoding with")
    assert "not an encoding" in refuse("a.csv", content, input_encoding="klingon")
    assert "not an encoding" in refuse("a.csv", content, input_encoding="base64")


def test_text_in_another_encoding_is_not_guessed() -> None:
    text = "question,answer\ncafé ou thé,du thé s'il vous plaît\n"
    assert "was not recognised; name its encoding with --input-encoding" in refuse("a.csv", text.encode("cp1252"))
    items, _ = read("a.csv", text.encode("cp1252"), input_encoding="cp1252")
    assert items[0]["context"][0]["text"] == "café ou thé"


@pytest.mark.parametrize("text", ["answer", "foo=bar", "=x", "context="])
def test_a_map_that_is_none(text: str) -> None:
    with pytest.raises(UnreadableInput, match="is not TARGET=COLUMN"):
        parse_map([text])


def test_a_mapped_column_that_is_not_there() -> None:
    message = refuse("a.csv", "q,r\n1,2\n", mapping={"response": "x", "context": "q"})
    assert message == "a.csv: there is no column 'x' to map; there are: q, r"


@pytest.mark.parametrize("text", ["質問,回答\nq,r\nq2,\n", '{"question": "q", "answer": "r"}\n{"question": "q2"}\n'])
def test_rows_without_a_response_are_refused_where_that_is_asked_for(text: str) -> None:
    message = refuse("a.txt", text, on_missing="refuse")
    assert "has no response; add it, or leave such rows out with `saiten convert`" in message
    assert message.startswith(("a.txt: line 3, column 回答:", "a.txt:2:"))


def test_saitens_own_items_are_passed_on_for_the_service_to_check() -> None:
    lines = [{"context": [{"speaker": "A", "text": "q"}], "response": "r"}, {"context": [], "extra": 1}]
    items, _ = read("a.jsonl", "\n".join(map(json.dumps, lines)), on_missing="refuse")
    assert items == lines


@pytest.mark.parametrize("on_missing", ["skip", "refuse"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_json_has_not(on_missing: str, number: str) -> None:
    weight = '"relevance": {"weight": ' + number + "}"
    item = '{"context": [{"speaker": "A", "text": "q"}], "response": "r", ' + weight + "}"
    assert refuse("a.jsonl", item, on_missing=on_missing) == "a.jsonl:1: a number is not finite"
    items, _ = read("a.jsonl", '{"question": "q", "answer": "r", "reference": NaN}')
    assert "reference" not in items[0]


def test_text_from_the_file_is_shown_without_control_characters() -> None:
    assert "\x1b" not in refuse("a.csv", "\x1b[31mfoo,bar\n1,2\n")


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_json(depth: int) -> None:
    deep = '{"answer": "r", "question": ' + "[" * depth + "]" * depth + "}"
    if depth > 1000:
        assert refuse("a.jsonl", deep).endswith("is nested too deeply")
    else:
        assert read("a.jsonl", deep)[1].report.skips == 1


def test_a_deep_cell_is_a_text() -> None:
    cell = "[" * 100_000
    items, _ = read("a.csv", f"質問,回答\n{cell},r\n")
    assert items[0]["context"][0]["text"] == cell


def test_a_million_columns() -> None:
    assert refuse("a.csv", "質問,回答" + ",x" * 1_000_000 + "\n1,2\n").startswith(
        "a.csv: line 1: has 1,000,002 columns"
    )
    assert refuse("a.csv", "質問,回答\nq,r" + ",x" * 1_000_000 + "\n").startswith(
        "a.csv: line 2: has 1,000,002 cells below 2 headings"
    )


def test_headings_beyond_the_columns_that_are_read_decide_nothing() -> None:
    assert sniff(["応答;" + "x," * 1000 + "質問,文脈\n"], {}) == (";", True)


def test_a_million_keys_are_counted_together() -> None:
    record = {"question": "q", "answer": "r", "scores": {f"k{number}": 1 for number in range(5000)}}
    _, reader = read("a.jsonl", json.dumps(record))
    assert len(reader.report.left_out) < 400
    assert sum(reader.report.left_out.values()) == 5000
    assert len("".join(reader.report.lines())) < 10_000


def test_an_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten.core.formats.reading.MOST_LINE", 1000)
    assert refuse("a.csv", "質問,回答\n" + "あ" * 1001).startswith("a.csv: line 2: has more than 1,000 characters")


def test_a_document_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten.core.formats.reading.MOST_DOCUMENT", 1000)
    text = json.dumps([{"question": "q", "answer": "r" * 100}] * 20, indent=1)
    assert refuse("a.json", text) == "a.json: a JSON document may have 1,000 characters; write it as NDJSON"


def test_a_workbook_that_unpacks_to_very_much() -> None:
    assert "unpacks to 300,000,0" in refuse("a.xlsx", archive(xl__workbook_xml=b"", bomb=b"0" * 300_000_000))


def test_a_workbook_whose_entities_multiply() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{entities}]><worksheet><sheetData><row><c><v>&a11;</v></c></row></sheetData></worksheet>'
    good = workbook(("s", [["質問", "回答"], ["q", "r"]]))
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(file, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, bomb if "sheet1" in entry.filename else old.read(entry.filename))
    assert refuse("a.xlsx", file.getvalue()).startswith("a.xlsx: is damaged (")


def test_a_cell_far_from_the_others() -> None:
    book = openpyxl.Workbook()
    for place, value in (("A1", "質問"), ("B1", "回答"), ("A2", "q"), ("B2", "r"), ("XFD9999", "x")):
        book.active[place] = value
    file = io.BytesIO()
    book.save(file)
    tracemalloc.start()
    items, reader = read("a.xlsx", file.getvalue())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(items) == 1
    assert ("columns after ALL", "without a heading") not in reader.report.left_out  # its row gave no item
    assert peak < 50_000_000


def test_columns_merged_far_below_their_values() -> None:
    def merge(book: Any) -> None:
        for column in "AB":
            book["s"].merged_cells.add(f"{column}2:{column}5000")

    rows: list[list[Any]] = [["質問", "回答"], ["q", "r"], *[[None, None]] * 4998, ["q2", "r2"]]
    items, reader = read("a.xlsx", workbook(("s", rows), change=merge))
    assert [said(item) for item in items] == [["q", "r"], ["q2", "r2"]]
    assert reader.report.rows == 2


def test_half_a_character_in_a_workbook() -> None:
    rows = [["質問", "回答"], ["q", "_xD83D__xDE00_ _x005F_x0041_"], ["q", "_xD83D_"]]
    assert refuse("a.xlsx", workbook(("s", rows))) == (
        "a.xlsx: sheet s, row 3: a string holds a lone surrogate, half of a character"
    )
    items, _ = read("a.xlsx", workbook(("s", rows[:2])))
    assert said(items[0]) == ["q", "😀 _x0041_"]


def test_csv_and_ndjson_are_streams() -> None:
    def lines() -> Iterator[bytes]:
        yield "質問,回答\n".encode()
        for number in range(3_000):
            yield f"これは質問の{number}番目です{'。' * 3000},これは回答です\n".encode()

    file = io.BytesIO(b"".join(lines()))
    tracemalloc.start()
    assert sum(1 for _ in read_items(file)) == 3_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 7_000_000


FUZZ = """
import io, pathlib, random, sys
from saiten.core.formats import UnreadableInput, read_items
path, rounds = sys.argv[1], int(sys.argv[2])
content = pathlib.Path(path).read_bytes()
dice = random.Random(1)
for number in range(rounds):
    changed = bytearray(content)
    for _ in range(dice.randint(1, 8)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    file = io.BytesIO(bytes(changed[: dice.choice([len(changed), dice.randrange(len(changed))])]))
    try:
        list(read_items(file))
    except UnreadableInput:
        pass
print("done")
"""


@pytest.mark.parametrize(
    "name", ["huggingface.parquet", "inspect_ai.eval", "a.xlsx", "promptfoo.jsonl", "deepeval_dataset.csv"]
)
def test_damaged_files_raise_nothing_else(name: str, tmp_path: Path) -> None:
    path = DATA / name
    if name == "a.xlsx":
        path = tmp_path / name
        path.write_bytes(workbook(("s", [["質問", "回答"], ["q", "r"], ["", "s"]])))
    rounds = "15" if name.endswith(".parquet") else "150"  # each of Parquet is a process of its own
    command = [sys.executable, "-c", FUZZ, str(path), rounds]
    client = Path(__file__).parents[3] / "client"
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(client)}, timeout=300
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-2000:]


def test_random_bytes_raise_nothing_else() -> None:
    dice = random.Random(2)
    for size in (1, 10, 1000):
        for _ in range(30):
            try:
                read("a.csv", dice.randbytes(size))
            except UnreadableInput as error:
                assert "\n" not in error.detail


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UnreadableInput, match=r"^nowhere\.csv: No such file or directory$"):
        list(read_items("nowhere.csv"))


def test_a_row_that_ends_early_is_named_with_its_column() -> None:
    sheet = workbook(("評価", [["質問", "回答"], ["q", "r"], ["q2"]]))
    told = refuse("a.xlsx", sheet, on_missing="refuse")
    assert told.startswith("a.xlsx: sheet 評価, row 3, column 回答: has no response; add it")


def test_a_line_in_another_encoding_is_named() -> None:
    told = refuse("a.csv", "質問,回答\nあ,い\n".encode() + "う,え\n".encode("cp932"))
    assert told.startswith("a.csv: line 3: is not UTF-8, and its encoding was not recognised; name its encoding")


def test_damaged_parquet_is_one_line_and_never_the_end_of_the_process() -> None:
    whole = (DATA / "huggingface.parquet").read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    damages = [whole[:-8], whole[:100], whole[: footer // 2] + bytes(64) + whole[footer // 2 + 64 :]]
    # The number of rows, as the footer states it, and what follows it.
    damages.append(whole[:footer] + b"\xff" * 16 + whole[footer + 16 :])
    for damaged in damages:
        assert refuse("a.parquet", damaged).startswith("a.parquet: is damaged after row 0; write")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("packed", [gzip.compress(BOMB.encode(), mtime=0), archive(**{"a.yaml": BOMB.encode()})])
def test_a_full_disk_is_no_damage_to_what_is_unpacked(packed: bytes, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "packed"
    path.write_bytes(packed)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: io.FileIO("/dev/full", "r+"))
    with pytest.raises(UnreadableInput, match="packed: the disk for temporary files is full"):
        list(read_items(path))
    with pytest.raises(OSError, match="No space left"):  # of a stream its reader tells it, as the service does
        list(read_items(io.BytesIO(packed)))


def renumber(content: bytes, before: str, after: str) -> bytes:
    """A workbook whose sheet says something else."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in given.namelist():
            part = given.read(entry)
            if entry.endswith("sheet1.xml"):
                assert before.encode() in part
                part = part.replace(before.encode(), after.encode())
            packed.writestr(entry, part)
    return file.getvalue()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('<row r="2"', '<row r="2000000000"', "row 1048577: a sheet has at most 1,048,576 rows and 16,384 columns"),
        ('r="C2"', 'r="XFE2"', "row 2: a sheet has at most 1,048,576 rows and 16,384 columns"),
        ("<v>7</v>", "<v>1e999999</v>", "row 2: a number is not finite"),
    ],
)
def test_a_workbook_states_no_more_than_a_sheet_has(before: str, after: str, message: str) -> None:
    content = workbook(("表", [["質問", "回答", "点"], ["q", "r", 7]]))
    assert refuse("a.xlsx", renumber(content, before, after)) == f"a.xlsx: sheet 表, {message}"


def test_the_last_row_and_column_of_a_sheet_are_read() -> None:
    content = workbook(("表", [["質問", "回答", "点"], ["q", "r", 7]]))
    for before, after in (('<row r="2"', '<row r="1048576"'), ('r="C2"', 'r="XFD2"')):
        items, _ = read("a.xlsx", renumber(content, before, after))
        assert len(items) == 1


@pytest.mark.parametrize("number", ["1e999999", "-1e999999", "9" * 100_000, "Infinity", "-Infinity"])
def test_numbers_that_would_be_infinite_are_refused(number: str) -> None:
    assert refuse("a.jsonl", f'{{"question": "q", "answer": {number}}}') == "a.jsonl:1: a number is not finite"


@pytest.mark.parametrize("cell", ["[1e999]", "{'text': 1e999}"])
def test_a_cell_whose_number_would_be_infinite_stays_a_text(cell: str) -> None:
    items, _ = read("a.csv", f'question,answer\nq,"{cell}"\n')
    assert items[0]["response"] == cell


@pytest.mark.parametrize("number", ["9" * 1000, "1.0e+999"])
def test_a_number_of_yaml_that_would_be_infinite_stays_a_text(number: str) -> None:
    items, _ = read("a.yaml", f"- question: q\n  answer: {number}\n")
    assert items[0]["response"] == number
