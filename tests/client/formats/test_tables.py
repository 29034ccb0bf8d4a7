"""Tables and JSON as teams have them, in every encoding: what items they give, and what the report tells."""

import csv
import datetime
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arro3.core
import arro3.io
import openpyxl
import pytest

from saiten.core.formats import ItemReader, UnreadableInput, parse_map, read_items
from saiten.core.formats.reading import UNSAVED

Item = dict[str, Any]


def read(name: str, content: bytes | str, **options: Any) -> tuple[list[Item], ItemReader]:
    """The items of a file with this content, and their reader with its report."""
    file = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    file.name = name
    reader = read_items(file, **options)
    return [item.value for item in reader], reader


def said(item: Item) -> list[str]:
    """Everything that was said, the response last."""
    return [*(spoken["text"] for spoken in item["context"]), item["response"]]


def speakers(item: Item) -> list[str]:
    return [spoken["speaker"] for spoken in item["context"]]


def workbook(*sheets: tuple[str, list[list[Any]]], change: Callable[[Any], None] | None = None) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    if change:
        change(book)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


JA = "番号,質問,回答\r\n1,今日は暑いですね,そうですね\r\n2,好きな食べ物は？,カレーです\r\n"
KO = "번호\t질문\t답변\r\n1\t오늘 날씨 어때요?\t맑아요\r\n2\t뭐 좋아해요?\t김치찌개요\r\n"


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        (JA, "utf-8", "UTF-8"),
        (JA, "utf-8-sig", "UTF-8 with a byte order mark"),
        (JA, "cp932", "CP932 (Shift_JIS)"),
        (JA, "euc_jp", "EUC-JP"),
        (JA, "utf-16", "UTF-16"),
        (JA, "utf-16-le", "UTF-16-LE"),
        (JA, "utf-16-be", "UTF-16-BE"),
        (KO, "cp949", "CP949 (EUC-KR)"),
        (KO, "utf-8", "UTF-8"),
        (KO, "utf-16", "UTF-16"),
    ],
)
def test_encodings_are_detected_and_said(text: str, encoding: str, name: str) -> None:
    items, reader = read("file.csv", text.encode(encoding))
    rows = [line.replace("\t", ",").split(",") for line in text.splitlines()[1:]]
    assert [[item["id"], *said(item)] for item in items] == rows
    assert f"{name}, detected" in next(reader.report.lines())


@pytest.mark.parametrize("encoding", ["utf-8", "cp932"])
def test_a_zero_byte_in_a_line_is_no_sign_of_utf_16(encoding: str) -> None:
    items, _ = read("file.csv", (JA + "9,元気\x00ですか,はい\r\n").encode(encoding))
    assert "\x00" in said(items[-1])[0]  # which is refused as a control character, with its line and column


@pytest.mark.parametrize("encoding", ["utf-8", "cp932", "euc_jp", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    ["質問,回答\n元気ですか,はい\x00\n", "質問,回答\n\x00元気ですか,はい", "質問,回答\r元気\x00ですか,はい\r"],
    ids=["at the end of a line", "at its beginning, and no last end", "lines that end as on old Macs"],
)
def test_a_zero_byte_anywhere_changes_no_encoding(text: str, encoding: str) -> None:
    items, _ = read("file.csv", text.encode(encoding))
    assert [part.replace("\x00", "") for part in said(items[0])] == ["元気ですか", "はい"]


def test_a_named_encoding_decides() -> None:
    text = "質問,回答\nｱ,ｲ\n"
    items, reader = read("file.csv", text.encode("cp932"), input_encoding="shift_jis")
    assert said(items[0]) == ["ｱ", "ｲ"]
    assert "CP932 (Shift_JIS), separated" in reader.report.reads


def test_text_far_into_the_file_decides_the_encoding() -> None:
    text = "question,answer\n" + f"{'hello ' * 2000},hi\n" * 100 + "こんにちは、元気ですか,はい、元気です\n"
    items, _ = read("file.csv", text.replace("、", "").encode("cp932"))
    assert said(items[-1]) == ["こんにちは元気ですか", "はい元気です"]


LONG: list[list[Any]] = [
    ["dialogue_id", "turn", "speaker", "text"],
    ["d1", 1, "user", "やあ"],
    ["d1", 2, "bot", "こんにちは"],
    ["d2", 2, "bot", "김밥요"],
    ["d1", 3, "user", "元気？"],
    ["d1", 4, "bot", "元気です"],
    ["d2", 1, "user", "뭐 먹을까요?"],
]


def delimited(rows: list[list[Any]], delimiter: str = ",", end: str = "\n") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("heading", ["role", "役割", "역할"])
def test_a_role_beside_the_speaker_tells_the_users_last_utterance(heading: str) -> None:
    rows: list[list[Any]] = [
        ["dialogue_id", "turn", "speaker", heading, "text"],
        ["d1", 0, "森", "user", "やあ"],
        ["d1", 1, "ユイ", "system", "こんにちは"],
        ["d2", 0, "ユイ", "system", "どうも"],
        ["d2", 1, "森", "user", "もしもし"],
    ]
    items, reader = read("a.csv", delimited(rows))
    assert [(item["context"], item["response"]) for item in items] == [
        ([{"speaker": "森", "text": "やあ"}], "こんにちは")
    ]
    assert reader.report.skipped == [
        ("a.csv: line 4: dialogue d2", "ends with the user's utterance: there is no response")
    ]


QA = [["質問", "回答"], ["元気？", "元気です"]]

ONE_PAIR: dict[str, tuple[str, bytes | str]] = {
    "semicolons": ("a.csv", delimited(QA, ";")),
    "bars": ("a.txt", delimited(QA, "|")),
    "CRLF": ("a.csv", delimited(QA, end="\r\n")),
    "old line ends of the Mac": ("a.csv", delimited(QA, end="\r")),
    "Unicode text of Excel": ("a.txt", delimited(QA, "\t", "\r\n").encode("utf-16")),
    "trailing empty columns": ("a.csv", "質問,回答,,,\n元気？,元気です,,,\n,,,,\n"),
    "leading blank rows": ("a.csv", "\n,,\n,質問,回答\n,元気？,元気です\n"),
    "a title above the headings": ("a.csv", "評価シート2026,,\n,,\n質問,回答,点\n元気？,元気です,3\n"),
    "two rows of headings": ("a.csv", "対話,,評価,\n質問,回答,自然さ,関連性\n元気？,元気です,3,2\n"),
    "headings below headings": ("a.csv", "質問,回答,評価,\n,,自然さ,関連性\n元気？,元気です,3,2\n"),
    "headings in two languages": ("a.csv", "質問,回答\nquestion,answer\n元気？,元気です\n"),
    "capitals and spaces": ("a.csv", " User Input ,Bot-Response\n元気？,元気です\n"),
    "full width": ("a.csv", "ＱＵＥＳＴＩＯＮ,ＡＮＳＷＥＲ\n元気？,元気です\n"),
    "what headings add": ("a.csv", "質問（ユーザー）,AIの回答※\n元気？,元気です\n"),
    "Q and A": ("a.csv", "Q,A,q1\n元気？,元気です,3\n"),
    "a line for Excel": ("a.csv", "sep=;\n質問;回答\n元気？;元気です\n"),
    "a list as pandas writes it": (
        "a.csv",
        delimited(
            [["messages"], [str([{"role": "user", "content": "元気？"}, {"role": "ai", "content": "元気です"}])]]
        ),
    ),
    "turns of dialogues": (
        "a.json",
        json.dumps(
            {
                "dialogues": [
                    {"turns": [{"speaker": "U", "utterance": "元気？"}, {"speaker": "S", "utterance": "元気です"}]}
                ]
            }
        ),
    ),
    "a number of turns": ("a.csv", "turns,question,answer\n1,元気？,元気です\n"),
    "user and system": ("a.csv", "user,system\n元気？,元気です\n"),
    "NDJSON": ("a.jsonl", '{"prompt": "元気？", "completion": "元気です"}\n\n'),
    "JSON array": ("a.json", json.dumps([{"input": "元気？", "output": "元気です"}], indent=1)),
    "JSON with one list": (
        "a.json",
        json.dumps({"version": 1, "data": [{"question": "元気？", "answer": "元気です"}]}),
    ),
    "JSON by columns": ("a.json", json.dumps({"question": {"0": "元気？"}, "answer": {"0": "元気です"}})),
    "JSON by rows": ("a.json", json.dumps({"x": {"question": "元気？", "answer": "元気です"}})),
    "JSON of lists": ("a.json", json.dumps({"question": ["元気？"], "answer": ["元気です"]})),
    "JSON of rows": ("a.json", json.dumps({"columns": ["question", "answer"], "data": [["元気？", "元気です"]]})),
    "rows of Hugging Face": (
        "a.json",
        json.dumps({"features": [], "rows": [{"row_idx": 0, "row": {"question": "元気？", "answer": "元気です"}}]}),
    ),
    "messages": (
        "a.jsonl",
        json.dumps({"messages": [{"role": "user", "content": "元気？"}, {"role": "assistant", "content": "元気です"}]}),
    ),
    "parts of messages": (
        "a.json",
        json.dumps(
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "元気？"}]},
                    {"role": "assistant", "content": [{"type": "output_text", "text": "元気です"}]},
                ]
            },
            indent=2,
        ),
    ),
    "ShareGPT": (
        "a.json",
        json.dumps([{"conversations": [{"from": "human", "value": "元気？"}, {"from": "gpt", "value": "元気です"}]}]),
    ),
    "messages in a cell": (
        "a.csv",
        delimited([["messages", "response"], [json.dumps([{"role": "user", "content": "元気？"}]), "元気です"]]),
    ),
    "lines that name speakers": ("a.csv", delimited([["対話"], ["A: 元気？\nB: 元気です"]])),
    "a workbook": ("a.xlsx", workbook(("Sheet1", QA))),
    "the second sheet": (
        "a.xlsx",
        workbook(("表紙", [["この調査について"], ["2026年"]]), ("データ", [[], [], ["", *QA[0]], ["", *QA[1]]])),
    ),
}


@pytest.mark.parametrize("kind", ONE_PAIR)
def test_a_question_and_its_answer(kind: str) -> None:
    name, content = ONE_PAIR[kind]
    items, _ = read(name, content)
    assert [said(item) for item in items] == [["元気？", "元気です"]]


def test_quotes_and_line_breaks_in_cells() -> None:
    items, _ = read("a.csv", '質問,回答\n"一行目\n二行目","「はい」と""言った"", うん"\n"x, y",z\n')
    assert [said(item) for item in items] == [["一行目\n二行目", '「はい」と"言った", うん'], ["x, y", "z"]]


def test_quotes_as_typed_in_a_table_with_tabs() -> None:
    items, _ = read("a.tsv", '질문\t답변\n"네" 뭐라고요?\t"아니요"라고 했어요\n')
    assert said(items[0]) == ['"네" 뭐라고요?', '"아니요"라고 했어요']


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "jsonl"])
def test_a_table_with_a_row_for_each_utterance(suffix: str) -> None:
    content: bytes | str = delimited(LONG)
    if suffix == "xlsx":
        content = workbook(("対話", LONG))
    if suffix == "jsonl":
        content = "\n".join(json.dumps(dict(zip(LONG[0], row, strict=True))) for row in LONG[1:])
    items, reader = read(f"a.{suffix}", content)
    assert [(item["id"], item["dialogue"], said(item)) for item in items] == [
        ("d1", "d1", ["やあ", "こんにちは", "元気？", "元気です"]),
        ("d2", "d2", ["뭐 먹을까요?", "김밥요"]),
    ]
    assert speakers(items[0]) == ["user", "bot", "user"]
    assert (reader.report.rows, reader.report.items) == (6, 2)


def test_a_long_table_with_japanese_headings_and_names() -> None:
    items, reader = read("a.csv", "対話ID,ターン,話者,発話,メモ\n1,1,花子,やあ,\n1,2,太郎,どうも,良\n2,1,花子,ねえ,\n")
    assert said(items[0]) == ["やあ", "どうも"]
    assert speakers(items[0]) == ["花子"]
    assert reader.report.left_out["メモ", ""] == 1
    assert reader.report.skipped == [("a.csv: line 4: dialogue 2", "has a single utterance")]


def test_numbered_columns() -> None:
    items, _ = read("a.csv", "発話1,発話2,発話3,応答\nあ,い,う,え\nか,,,き\n")
    assert [said(item) for item in items] == [["あ", "い", "う", "え"], ["か", "き"]]
    assert speakers(items[0]) == ["user", "assistant", "user"]


def test_numbered_columns_of_two_speakers() -> None:
    items, reader = read("a.csv", "ユーザー1,ボット1,ユーザー2,ボット2\nあ,い,う,え\nか,き,,\nさ,し,す,\n")
    assert [said(item) for item in items] == [["あ", "い", "う", "え"], ["か", "き"]]
    assert speakers(items[0]) == ["ユーザー", "ボット", "ユーザー"]
    assert reader.report.skipped == [("a.csv: line 4", "has no response")]


def test_numbered_columns_grouped_by_speaker_keep_their_order() -> None:
    items, _ = read("a.csv", "질문1,질문2,답변1,답변2\n가,다,나,라\n")
    assert said(items[0]) == ["가", "나", "다", "라"]


def test_numbered_answers_to_one_question_are_candidates() -> None:
    items, _ = read("a.csv", "質問,回答1,回答2\nあ,い,う\n")
    assert items[0]["responses"] == ["い", "う"]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (["a", "b"], [("user", "a"), ("assistant", "b"), ("user", "q")]),
        (["a"], [("assistant", "a"), ("user", "q")]),
        ("A: a\nB: b", [("A", "a"), ("B", "b"), ("A", "q")]),
        ([["a", "b"]], [("user", "a"), ("assistant", "b"), ("user", "q")]),
        (
            [["花子", "a"], ["太郎", "b"], ["花子", "c"], ["太郎", "d"]],
            [*zip(["花子", "太郎"] * 2, "abcd", strict=True), ("花子", "q")],
        ),
        ([{"speaker": "S", "text": "a"}], [("S", "a"), ("user", "q")]),
        ([{"role": "system", "content": "Be kind."}], [("user", "q")]),
    ],
)
def test_history_before_the_question(history: Any, expected: list[tuple[str, str]]) -> None:
    items, _ = read("a.jsonl", json.dumps({"history": history, "question": "q", "response": "r"}))
    assert [(spoken["speaker"], spoken["text"]) for spoken in items[0]["context"]] == expected


@pytest.mark.parametrize(
    "text", ["材料: 卵\n粉: 200g", "12:30に会おう", "see http://example.com", "注意：火を使います"]
)
def test_colons_in_what_was_said_name_no_speaker(text: str) -> None:
    items, _ = read("a.jsonl", json.dumps({"question": text, "answer": "はい"}))
    assert items[0]["context"] == [{"speaker": "user", "text": text}]


def test_an_instruction_is_left_out_and_told() -> None:
    messages = [
        {"role": "system", "content": "親切に。"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": "r"},
    ]
    items, reader = read("a.json", json.dumps([{"messages": messages}]))
    assert said(items[0]) == ["q", "r"]
    left = set(reader.report.left_out)
    assert {("messages[].content", "system messages"), ("messages[].content", "messages of tools")} <= left
    assert ("messages[].tool_calls", "") in left


def test_a_dialogue_system_called_system_is_no_instruction() -> None:
    turns = [
        {"role": role, "text": text} for role, text in [("user", "a"), ("system", "b"), ("user", "c"), ("system", "d")]
    ]
    items, _ = read("a.json", json.dumps([{"dialogue": turns}]))
    assert said(items[0]) == ["a", "b", "c", "d"]


def test_messages_that_end_with_the_user_have_no_response() -> None:
    messages = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    items, reader = read("a.json", json.dumps([{"messages": messages}]))
    assert items == []
    assert reader.report.skipped == [("a.json: item 1", "has no response")]


def test_logs_that_repeat_the_response() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]
    items, _ = read("a.json", json.dumps([{"messages": messages, "response": {"choices": [{"message": messages[1]}]}}]))
    assert said(items[0]) == ["q", "r"]


def test_a_response_that_echoes_the_user() -> None:
    said_before = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]
    record = {"messages": [*said_before, {"role": "user", "content": "ありがとう"}], "response": "ありがとう"}
    items, _ = read("a.json", json.dumps([record]))
    assert said(items[0]) == ["q", "r", "ありがとう", "ありがとう"]


def test_results_are_items_again_under_the_ids_of_their_items() -> None:
    item = {"context": [{"speaker": "A", "text": "q"}], "response": "r", "metadata": {"system": "s"}, "dialogue": "d"}
    result = {"id": "ev_1", "status": "scored", "rubric": {"id": "ja-dialogue"}, "judge": {}, "path": "source", **item}
    named, unnamed = {**result, "item": "007", "ids_given": True}, {**result, "item": "0", "ids_given": False}
    items, reader = read("a.ndjson", f"{json.dumps(named)}\n{json.dumps(unnamed)}\n")
    assert items == [{"id": "007", **item}, item]
    assert reader.report.renamed == {"item": ["id"]}


def test_numbers_dates_and_errors_in_cells() -> None:
    rows: list[list[Any]] = [
        ["質問", "回答", "正解"],
        ["合計は？", 42, 42.0],
        ["いつ？", datetime.datetime(2026, 11, 22), datetime.datetime(2026, 11, 22, 9, 30)],
        ["割合は？", 0.5, True],
        ["壊れた？", "#N/A", "x"],
    ]
    items, reader = read("a.xlsx", workbook(("s", rows)))
    assert [[*said(item), item["reference"]] for item in items] == [
        ["合計は？", "42", "42"],
        ["いつ？", "2026-11-22", "2026-11-22T09:30:00"],
        ["割合は？", "0.5", "true"],
    ]
    assert reader.report.skipped == [("a.xlsx: sheet s, row 5", "has no response")]


def test_a_formula_whose_value_was_not_saved() -> None:
    rows: list[list[Any]] = [["質問", "回答"], ["あ", "い"], ["う", '=A2&"え"']]
    with pytest.raises(UnreadableInput, match="sheet s, cell B3: the value of its formula was not saved"):
        read("a.xlsx", workbook(("s", rows)))


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="B3"><f>A2&amp;"え"</f><v>3</v></c>',
        '<c r="B3" t="str"><f>A2</f><v></v></c>',
        '<c r="B3"><f t="shared" si="0"/><v>3</v></c>',
        '<c r="B3"><v></v></c>',
    ],
)
def test_a_formula_whose_value_was_saved(cell: str) -> None:
    assert UNSAVED.search(cell.encode()) is None


@pytest.mark.parametrize(
    "cell", ['<c r="B3" s="1"><f t="shared" si="0"/></c>', '<x:c r="B3"><x:f>A1</x:f><x:v/></x:c>']
)
def test_formulas_without_a_value_are_found_in_all_spellings(cell: str) -> None:
    found = UNSAVED.search(cell.encode())
    assert found is not None
    assert found[1] == b"B3"


def test_a_question_merged_beside_two_answers() -> None:
    rows: list[list[Any]] = [["質問", "回答"], ["あ", "い"], [None, "う"], ["か", "き"]]
    items, _ = read("a.xlsx", workbook(("s", rows), change=lambda book: book["s"].merge_cells("A2:A3")))
    assert [said(item) for item in items] == [["あ", "い"], ["あ", "う"], ["か", "き"]]


def test_parquet(tmp_path: Path) -> None:
    turns = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]] * 600
    table = arro3.core.Table.from_pydict(
        {
            "messages": arro3.core.Array([json.dumps(t) for t in turns], type=arro3.core.DataType.string()),
            "score": arro3.core.Array([1.5] * 600, type=arro3.core.DataType.float64()),
        }
    )
    arro3.io.write_parquet(table, tmp_path / "a.parquet")
    reader = read_items(tmp_path / "a.parquet")
    assert [said(item.value) for item in reader] == [["q", "r"]] * 600
    assert reader.report.left_out["score", ""] == 600


def test_columns_of_parquet_with_one_name() -> None:
    table = arro3.core.Table.from_arrays(
        [arro3.core.Array(["q"], type=arro3.core.DataType.string())] * 3, names=["context", "response", "response"]
    )
    file = io.BytesIO()
    arro3.io.write_parquet(table, file)
    with pytest.raises(UnreadableInput, match="two columns are named 'response'"):
        list(read_items(file))


def test_texts_that_parquet_holds_as_bytes() -> None:
    table = arro3.core.Table.from_pydict(
        {
            name: arro3.core.Array([text.encode()], type=arro3.core.DataType.binary())
            for name, text in (("context", "やあ"), ("response", "はい"))
        }
    )
    file = io.BytesIO()
    arro3.io.write_parquet(table, file)
    assert [said(item.value) for item in read_items(file)] == [["やあ", "はい"]]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_a_row_with_more_cells_than_headings(separator: str) -> None:
    rows = ["id,質問,回答", "1,q,r,,", "2,Hello, world,r"]
    text = "\n".join(rows).replace(",", separator)
    with pytest.raises(UnreadableInput, match="line 3: has 4 cells below 3 headings"):
        read("a.csv", text)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "発話1,発話2,発話3,応答\nあ,,う,え\n"),
        ("a.jsonl", json.dumps({"context": ["あ", "", "う"], "response": "え"})),
        ("a.jsonl", json.dumps({"context": [None, "あ", None, "う", None], "response": "え"})),
    ],
)
def test_a_turn_without_a_text_counts_between_others(name: str, content: str) -> None:
    items, _ = read(name, content)
    assert items[0]["context"] == [{"speaker": "user", "text": "あ"}, {"speaker": "user", "text": "う"}]
    assert items[0]["response"] == "え"


def test_mapped_columns() -> None:
    mapping = parse_map(["response=出力文,context=ログ", "metadata.annotator=担当"])
    items, reader = read(
        "a.csv", delimited([["ログ", "出力文", "担当"], ["A: x\nB: y\nA: z", "w", "佐藤"]]), mapping=mapping
    )
    assert said(items[0]) == ["x", "y", "z", "w"]
    assert items[0]["metadata"] == {"annotator": "佐藤"}
    assert reader.report.renamed == {"ログ": ["context"], "出力文": ["response"], "担当": ["metadata.annotator"]}


def test_mapped_paths_into_objects() -> None:
    record = {"a": {"b": {"c": "q"}}, "d": {"e": "r"}}
    items, _ = read("a.jsonl", json.dumps(record), mapping={"context": "a.b.c", "response": "d.e"})
    assert said(items[0]) == ["q", "r"]


def test_every_column_is_accounted_for() -> None:
    items, reader = read("a.csv", "id,質問,回答,model,評価,担当,,\nx,q,r,m1,5,佐藤,?,\ny,,r,,,,,\nz,q,,,,,,\n")
    assert items[0]["metadata"] == {"model": "m1"}
    report = reader.report
    assert report.kept == ["id"]
    assert report.renamed == {"model": ["metadata.model"], "回答": ["response"], "質問": ["context"]}
    assert dict(report.left_out) == {("評価", ""): 1, ("担当", ""): 1, ("column G", "without a heading"): 1}
    assert report.skipped == [("a.csv: line 3", "has no context"), ("a.csv: line 4", "has no response")]


def test_saitens_own_items_are_kept_whole() -> None:
    item = {
        "id": "1",
        "context": [{"speaker": "A", "text": "q"}],
        "responses": ["r", "s"],
        "reference": ["t"],
        "metadata": {"system": "bot"},
        "dialogue": "d",
        "rubric": "ko-comment",
    }
    items, reader = read("a.jsonl", json.dumps({**item, "extra": 1}))
    assert items == [item]
    assert dict(reader.report.left_out) == {("extra", ""): 1}


def test_a_file_that_is_written_anew_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{number},何?,はい\n" for number in range(100_000))
    path.write_text(f"id,質問,回答\n{rows}", encoding="utf-8")
    items = iter(read_items(path))
    assert next(items).value["id"] == "0"
    with path.open("ab") as file:
        file.write("100000,何?,はい\n".encode())
    os.truncate(path, 500_000)
    with pytest.raises(UnreadableInput, match="became shorter while it was read"):
        list(items)
