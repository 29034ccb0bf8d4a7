"""Files as teams really have them, each as its program writes it: nothing is refused or misread without cause."""

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml

from saiten.core.formats import UnreadableInput, parse_map, read_items


def read(name: str, content: str | bytes | list[Any] | dict[str, Any], encoding: str = "utf-8", **options: Any) -> Any:
    """Everything that was said in each item, the response last; and the fields that were left out."""
    if isinstance(content, list | dict):
        content = json.dumps(content, ensure_ascii=False)
    file = io.BytesIO(content if isinstance(content, bytes) else content.encode(encoding))
    file.name = name
    reader = read_items(file, **options)
    said = []
    for item in reader:
        spoken = [one["text"] for one in item.value["context"]]
        said.append([*spoken, *item.value.get("responses", [item.value.get("response")])])
    return said, sorted({name for name, _ in reader.report.left_out})


def lines(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def packed(**entries: str) -> bytes:
    """A ZIP archive of these files, with dots for the underlines in their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_", "."), content)
    return file.getvalue()


def span(**attributes: str) -> dict[str, Any]:
    """A span as the SDK prints it."""
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return {"name": "chat", "context": {"span_id": "s"}, "attributes": named, "events": []}


def langchain(kind: str, text: str) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "kwargs": {"type": kind, "content": text}}


SHEET_OF_A_CALL_CENTRE = """顧客対応評価シート（２０２６年１０月）,,,,\r
作成者：田中,,,,\r
\r
Ｎｏ．,ユーザーの発話,ボットの応答,応答時間（秒）,備考\r
①,注文を取り消したい,注文番号は？,1.2,\r
"""

FILES: dict[str, tuple[Any, ...]] = {
    "a sheet of Excel below titles, CP932": (
        ("a.csv", SHEET_OF_A_CALL_CENTRE, "cp932"),
        [["注文を取り消したい", "注文番号は？"]],
        ["line 1", "line 2", "応答時間（秒）"],
    ),
    "Unicode text of Excel, with a line break in a cell": (
        ("a.txt", '番号\t質問\t回答\r\n1\t"改行を\n含む"\tはい\r\n', "utf-16"),
        [["改行を\n含む", "はい"]],
        [],
    ),
    "TSV of Google Sheets with the talk before": (
        ("a.tsv", "ID\t이전 대화\t사용자 질문\t챗봇 답변\t메모\n1\t안녕하세요\t언제 오나요?\t내일요.\t좋음\n"),
        [["안녕하세요", "언제 오나요?", "내일요."]],
        ["메모"],
    ),
    "a talk of LINE, a row an utterance": (
        (
            "a.csv",
            "トークルームID,日時,送信者,送信者タイプ,メッセージ\n"
            "r1,10:00,山田,user,営業時間は？\nr1,10:01,窓口,bot,10時からです。\n",
        ),
        [["営業時間は？", "10時からです。"]],
        ["日時", "送信者"],
    ),
    "threads of Slack": (
        (
            "a.json",
            [
                {"type": "message", "user": "U1", "text": "質問です", "ts": "1.0", "thread_ts": "1.0"},
                {"type": "message", "user": "B1", "text": "回答です", "ts": "2.0", "thread_ts": "1.0"},
            ],
        ),
        [["質問です", "回答です"]],
        ["type"],
    ),
    "Label Studio": (
        (
            "a.json",
            [{"id": 1, "data": {"dialogue": [{"author": "user", "text": "晴れ？"}, {"author": "bot", "text": "はい"}]}}]
            * 2,
        ),
        [["晴れ？", "はい"]] * 2,
        [],
    ),
    "ShareGPT with a system prompt": (
        (
            "a.jsonl",
            lines(
                {
                    "system": "親切に",
                    "conversations": [{"from": "human", "value": "問"}, {"from": "gpt", "value": "答"}],
                }
            ),
        ),
        [["問", "答"]],
        ["system"],
    ),
    "chat messages of OpenAI, with a byte order mark": (
        (
            "a.jsonl",
            lines(
                {
                    "messages": [
                        {"role": "system", "content": "丁寧に"},
                        {"role": "user", "content": "問"},
                        {"role": "assistant", "content": "答"},
                    ]
                }
            ),
            "utf-8-sig",
        ),
        [["問", "答"]],
        ["messages[].content"],
    ),
    "contents of Gemini": (
        (
            "a.jsonl",
            lines(
                {
                    "contents": [
                        {"role": "user", "parts": [{"text": "問"}]},
                        {"role": "model", "parts": [{"text": "答"}]},
                    ]
                }
            ),
        ),
        [["問", "答"]],
        [],
    ),
    "semicolons and headings with units": (
        ("a.csv", "Frage-ID;User Input;Model Output ;Latency (ms)\n1;質問、です;回答;4,5\n"),
        [["質問、です", "回答"]],
        ["Frage-ID", "Latency (ms)"],
    ),
    "an index of pandas in the first column": (
        ("a.csv", ",question,answer,Unnamed: 0.1\n0,q1,a1,0\n1,q2,a2,1\n"),
        [["q1", "a1"], ["q2", "a2"]],
        ["Unnamed: 0.1", "column A"],
    ),
    "Ragas with several turns": (
        (
            "a.json",
            [
                {
                    "user_input": [{"content": "問", "type": "human"}, {"content": "答", "type": "ai"}],
                    "reference": "参考",
                }
            ],
        ),
        [["問", "答"]],
        [],
    ),
    "a query of Azure beside what was retrieved": (
        ("a.jsonl", lines({"query": "返品できますか", "response": "はい。", "context": "規定", "ground_truth": "可"})),
        [["返品できますか", "はい。"]],
        ["context"],
    ),
    "results of Azure": (
        (
            "a.json",
            {
                "rows": [{"inputs.query": "返品", "outputs.response": "はい", "outputs.coherence": 4}],
                "metrics": {"c": 4},
            },
        ),
        [["返品", "はい"]],
        ["metrics.c", "rows[].outputs.coherence"],
    ),
    "examples of LangSmith": (
        (
            "a.jsonl",
            lines({"id": "9d", "inputs": {"question": "首都は？"}, "outputs": {"answer": "東京"}, "dataset_id": "d"}),
        ),
        [["首都は？", "東京"]],
        ["dataset_id"],
    ),
    "examples of LangSmith as CSV": (
        ("a.csv", "id,input_question,output_answer\n1,首都は？,東京\n"),
        [["首都は？", "東京"]],
        [],
    ),
    "runs of LangSmith": (
        (
            "a.json",
            [
                {
                    "run_type": "llm",
                    "inputs": {"messages": [[langchain("human", "問")]]},
                    "outputs": {"generations": [[{"text": "答"}]]},
                }
            ],
        ),
        [["問", "答"]],
        [
            "inputs.messages[][].kwargs.content",
            "inputs.messages[][].kwargs.type",
            "inputs.messages[][].lc",
            "inputs.messages[][].type",
            "run_type",
        ],
    ),
    "spans of Phoenix as CSV": (
        ("a.csv", "context.span_id,attributes.input.value,attributes.output.value\na1,質問です,回答です\n"),
        [["質問です", "回答です"]],
        ["context.span_id"],
    ),
    "KoAlpaca, an instruction and its input": (
        ("a.jsonl", lines({"instruction": "인사해줘", "input": "아침", "output": "좋은 아침!", "url": "u"})),
        [["인사해줘\n\n아침", "좋은 아침!"]],
        ["url"],
    ),
    "MT-Bench joined": (
        (
            "a.jsonl",
            lines(
                {
                    "question_id": 81,
                    "category": "writing",
                    "turns": ["問1", "問2"],
                    "choices": [{"index": 0, "turns": ["答1", "答2"]}],
                }
            ),
        ),
        [["問1", "答1"], ["問1", "答1", "問2", "答2"]],
        [],
    ),
    "a transcript in one cell": (
        ("a.csv", 'session,transcript\ns1,"客: 予約したい\n店: 何名様？\n客: 2名\n店: 承知しました。"\n'),
        [["予約したい", "何名様？", "2名", "承知しました。"]],
        [],
    ),
    "sessions with exchanges": (
        (
            "a.json",
            {
                "exported": "x",
                "sessions": [
                    {
                        "session_id": "s1",
                        "turns": [{"user": "問1", "bot": "答1", "ms": 3}, {"user": "問2", "bot": "答2", "ms": 4}],
                    }
                ],
            },
        ),
        [["問1", "答1", "問2", "答2"]],
        ["exported", "sessions[].turns[].ms"],
    ),
    "a log of Dify": (
        ("a.csv", "会話ID,メッセージID,クエリ,回答\nc1,m1,場所は？,渋谷です\n"),
        [["場所は？", "渋谷です"]],
        ["メッセージID"],
    ),
    "two models side by side": (
        ("a.csv", "質問,モデルAの回答,モデルBの回答\n天気は？,晴れです,雨です\n"),
        [["天気は？", "晴れです", "雨です"]],
        [],
    ),
    "preferences": (
        ("a.jsonl", lines({"prompt": "問", "chosen": "良い答え", "rejected": "悪い答え"})),
        [["問", "良い答え", "悪い答え"]],
        [],
    ),
    "preferences for fine-tuning at OpenAI": (
        (
            "a.jsonl",
            lines(
                {
                    "input": {"messages": [{"role": "user", "content": "問"}], "tools": []},
                    "preferred_output": [{"role": "assistant", "content": "良い答え"}],
                    "non_preferred_output": [{"role": "assistant", "content": "悪い答え"}],
                }
            ),
        ),
        [["問", "良い答え", "悪い答え"]],
        [],
    ),
    "turns with their speakers in headings": (
        (
            "a.csv",
            "ID,ターン１_ユーザー,ターン１_システム,ターン2_ユーザー,ターン2_システム\n1,問1,答1,問2,答2\n2,問,答,,\n",
        ),
        [["問1", "答1", "問2", "答2"], ["問", "答"]],
        [],
    ),
    "numbered utterances before the question": (
        ("a.csv", "履歴1,履歴2,質問,回答\nこんにちは,はい,予約,何名？\n"),
        [["こんにちは", "はい", "予約", "何名？"]],
        [],
    ),
    "mail, ISO-2022-JP": (
        ("a.csv", "質問,回答\n何時ですか,10時です\n", "iso-2022-jp"),
        [["何時ですか", "10時です"]],
        [],
    ),
    "answers to a form of Google, packed": (
        (
            "a.zip",
            packed(回答_csv='"タイムスタンプ","発話（貼り付け）","返答（貼り付け）"\n"10:00","問","答"\n', __MACOSX=""),
        ),
        [["問", "答"]],
        ["..MACOSX", "タイムスタンプ"],
    ),
    "an export of ChatGPT as it comes": (
        (
            "a.zip",
            packed(
                conversations_json=json.dumps(
                    [
                        {
                            "mapping": {
                                "u": {"message": {"author": {"role": "user"}, "content": {"parts": ["問"]}}},
                                "a": {
                                    "message": {"author": {"role": "assistant"}, "content": {"parts": ["答"]}},
                                    "parent": "u",
                                },
                            },
                            "current_node": "a",
                        }
                    ]
                ),
                user_json="{}",
            ),
        ),
        [["問", "答"]],
        ["current_node", "user.json"],
    ),
    "lines of JSON, packed with gzip": (
        ("a.jsonl.gz", gzip.compress(lines({"question": "問", "answer": "答"}).encode(), mtime=0)),
        [["問", "答"]],
        [],
    ),
    "lines of JSON with commas and blank ones": (
        ("a.jsonl", '\ufeff{"question": "問1", "answer": "答1"},\n\n{"question": "問2", "answer": "答2"},\n'),
        [["問1", "答1"], ["問2", "答2"]],
        [],
    ),
    "objects of several lines behind each other, as jq writes them": (
        ("a.json", '{\n "question": "問1",\n "answer": "答1"\n}\n{\n "question": "問2",\n "answer": "答2"\n}\n'),
        [["問1", "答1"], ["問2", "答2"]],
        [],
    ),
    "a table of Markdown": (("a.md", "| 質問 | 回答 |\n|:---|---|\n| 天気は？ | 晴れ |\n"), [["天気は？", "晴れ"]], []),
    "a sequence of Hugging Face, whose columns stand beside each other": (
        ("a.jsonl", lines({"conversations": {"from": ["human", "gpt"], "value": ["問", "答"]}})),
        [["問", "答"]],
        [],
    ),
    "requests and responses of an API": (
        (
            "a.jsonl",
            lines(
                {
                    "request": {"model": "m", "messages": [{"role": "user", "content": "問"}]},
                    "response": {"role": "assistant", "content": [{"type": "text", "text": "答"}]},
                }
            ),
        ),
        [["問", "答"]],
        ["request.model"],
    ),
    "requests and responses of Vertex": (
        (
            "a.jsonl",
            lines(
                {
                    "request": {"contents": [{"role": "user", "parts": [{"text": "問"}]}]},
                    "response": {"candidates": [{"content": {"role": "model", "parts": [{"text": "答"}]}}]},
                }
            ),
        ),
        [["問", "答"]],
        [],
    ),
    "a trace of MLflow, whose spans hold JSON": (
        (
            "a.jsonl",
            lines(
                {
                    "info": {"trace_id": "tr-1", "tags": {"id": "q1", "mlflow.traceName": "root"}},
                    "data": {
                        "spans": [
                            {"attributes": {"mlflow.spanInputs": '{"question": "問"}', "mlflow.spanOutputs": '"答"'}}
                        ]
                    },
                }
            ),
        ),
        [["問", "答"]],
        ["info.tags.mlflow.traceName", "info.trace_id"],
    ),
    "a call of Weave": (
        (
            "a.jsonl",
            lines({"op_name": "f", "inputs": {"messages": [{"role": "user", "content": "問"}]}, "output": "答"}),
        ),
        [["問", "答"]],
        ["op_name"],
    ),
    "a span of OpenInference": (
        (
            "a.jsonl",
            lines(
                span(
                    llm__input_messages__0__message__role="user",
                    llm__input_messages__0__message__content="問",
                    llm__output_messages__0__message__content="答",
                )
            ),
        ),
        [["問", "答"]],
        ["name"],
    ),
    "a corpus of NIKL": (
        (
            "a.json",
            {
                "id": "SDRW1",
                "metadata": {"title": "일상 대화"},
                "document": [
                    {
                        "id": "SDRW1.1",
                        "utterance": [
                            {"id": "1", "form": "안녕하세요", "speaker_id": "SD1"},
                            {"id": "2", "form": "반갑습니다", "speaker_id": "SD2"},
                        ],
                    }
                ],
            },
        ),
        [["안녕하세요", "반갑습니다"]],
        ["document[].utterance[].id", "id", "metadata.title"],
    ),
    "RealPersonaChat": (
        (
            "a.json",
            {
                "dialogue_id": 1,
                "interlocutors": ["AA", "AB"],
                "utterances": [{"interlocutor_id": "AA", "text": "はい"}, {"interlocutor_id": "AB", "text": "ええ"}],
            },
        ),
        [["はい", "ええ"]],
        ["interlocutors[]"],
    ),
    "a log of a channel in Korean, CP949": (
        (
            "a.csv",
            "채팅방 ID,보낸 사람 유형,보낸 사람,메시지\nr1,user,김,환불되나요?\nr1,bot,상담봇,네 가능합니다.\n",
            "cp949",
        ),
        [["환불되나요?", "네 가능합니다."]],
        ["보낸 사람"],
    ),
    "test cases of promptfoo": (
        (
            "promptfooconfig.yaml",
            "prompts: ['{{question}}']\nproviders: [echo]\ntests:\n- description: 時間\n  vars: &one {question: 何時？, reference: 9時}\n"
            "  providerOutput: yes\n- vars: *one\n  providerOutput: 2026-10-01\n",
        ),
        [["何時？", "yes"], ["何時？", "2026-10-01"]],
        ["prompts[]", "providers[]"],
    ),
}


@pytest.mark.parametrize(("given", "said", "left"), FILES.values(), ids=FILES.keys())
def test_a_file_that_a_team_has_is_read_as_it_is(
    given: tuple[Any, ...], said: list[list[str]], left: list[str]
) -> None:
    assert read(*given) == (said, left)


def test_a_workbook_with_a_cover_and_a_merged_title() -> None:
    book = openpyxl.Workbook()
    book.active.title = "表紙"
    book.active["A1"] = "評価結果"
    sheet = book.create_sheet("評価")
    sheet.merge_cells("A1:D1")
    sheet["A1"] = "第３回 対話評価"
    sheet.append([])
    sheet.append(["No.", "シナリオ", "ユーザー発話", "ＡＩ応答"])
    sheet.append([1, "予約", "15時", "承りました。"])
    file = io.BytesIO()
    book.save(file)
    assert read("a.xlsx", file.getvalue()) == (
        [["15時", "承りました。"]],
        ["sheet 表紙", "sheet 評価, row 1", "シナリオ"],
    )


def test_a_workbook_with_headings_that_are_merged_in_both_directions() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for range_, heading in {"A2:A3": "No.", "B2:C2": "対話", "D2:D3": "備考"}.items():
        sheet[range_[:2]] = heading
        sheet.merge_cells(range_)
    sheet["A1"], sheet["B3"], sheet["C3"] = "評価シート", "ユーザー", "ボット"
    sheet.append([1, "問", "答", "良い"])
    file = io.BytesIO()
    book.save(file)
    assert read("a.xlsx", file.getvalue())[0] == [["問", "答"]]
    assert "備考" in read("a.xlsx", file.getvalue())[1]


def test_yaml_that_promptfoo_writes_is_its_json() -> None:
    document = json.loads((Path(__file__).parents[2] / "data/formats/promptfoo.json").read_text(encoding="utf-8"))
    for result in document["results"]["results"]:
        result["testCase"]["vars"] = result["vars"]  # one object in two places, as promptfoo holds it: an alias
    text = yaml.safe_dump(document, allow_unicode=True)
    assert "*id001" in text
    assert read("a.yaml", text) == read("a.json", document)


def test_the_metadata_of_a_dialogue_is_that_of_each_of_its_turns() -> None:
    file = io.BytesIO(lines({"id": 1, "category": "추론", "questions": ["q1", "q2"], "outputs": ["a1", "a2"]}).encode())
    assert [item.value["metadata"] for item in read_items(file)] == [{"category": "추론"}] * 2


def test_the_conversation_of_an_arena_is_taken_where_it_is_named() -> None:
    talks = {name: [{"role": "user", "content": "問"}, {"role": "assistant", "content": name}] for name in ("a", "b")}
    battle = {"conversation_a": talks["a"], "conversation_b": talks["b"], "winner": "model_a"}
    said, _ = read("a.jsonl", lines(battle), mapping=parse_map(["context=conversation_a"]))
    assert said == [["問", "a"]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("a.csv", "話者,発話\n客,問\n店,答\n"), "a.csv: has an utterance a row, but no column tells dialogues apart"),
        (("a.xls", "<html><table><tr><td>질문</td></tr></table>"), "a.xls: is a web page or XML"),
        (("a.ods", packed(content_xml="")), "a.ods: is a table of another program; save it as .xlsx"),
        (("a.zip", packed(a_csv="", b_csv="")), "a.zip: holds several files (a.csv, b.csv); unpack it and give one"),
        (
            ("a.jsonl", lines({"question_id": 81, "choices": [{"turns": ["答"]}]})),
            "a.jsonl:1: holds answers without their questions; join them by question_id",
        ),
        (("a.jsonl", lines({"custom_id": "q", "response": {"body": {"choices": []}}})), "a.jsonl:1, column response"),
    ],
)
def test_what_lacks_a_part_is_refused_with_what_it_lacks(given: tuple[str, str], words: str) -> None:
    with pytest.raises(UnreadableInput) as refused:
        read(*given, on_missing="refuse")
    assert str(refused.value).startswith(words)
