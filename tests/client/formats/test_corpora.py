"""Files of corpora and benchmarks as they are published or written (tests/data/corpora), and what each must give."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from saiten.core.formats import UnreadableInput, read_items

FOLDER = Path(__file__).parents[2] / "data" / "corpora"

SOUP = ["味噌汁の作り方は？", "だしに味噌を溶きます。"]
MISO = ["味噌汁の作り方は？", "具を煮てから味噌を入れます。"]
TOFU = [*SOUP, "具は何がいいですか。", "豆腐とわかめが定番です。"]
RIVER = ["次の質問に答えてください。\n質問: 一番長い川は？\n答え:", "信濃川です。"]
WORRY = ["시험이 걱정돼.", "무엇이 가장 걱정되세요?"]
SEATS = ["席はありますか。", "ございます。"]
OPENING = ["何時に開きますか。", "九時に開きます。"]
MORNING = [["おはよう。", "おはようございます。"], ["안녕.", "안녕하세요."]]

EXPECTED: dict[str, tuple[str, list[list[str]], list[tuple[str | None, str | None]]]] = {
    "oasst_trees.jsonl": ("oasst", [SOUP, TOFU, MISO], [("m2", "m1"), ("m5", "m1"), ("m3", "m1")]),
    "oasst_messages.jsonl": ("oasst", [MISO, SOUP, TOFU], [("m3", "m1"), ("m2", "m1"), ("m5", "m1")]),
    "lm_eval_samples.jsonl": ("lm-eval", [RIVER, ["가장 높은 산은?", "백두산입니다."]], [("0", None), ("1", None)]),
    "aihub_daily.json": ("aihub", [["점심 뭐 먹었어?", "김밥 먹었지.\n넌?", "나는 국수 먹었어."]], [("a-1", "a-1")]),
    "aihub_sns.json": (
        "aihub",
        [["주말에 뭐 해?", "등산 가.\n같이 갈래?"], ["비 온대.", "우산 챙길게."]],
        [("d-1", "d-1"), ("d-2", "d-2")],
    ),
    "aihub_emotion.json": (
        "aihub",
        [WORRY, [*WORRY, "시간이 모자라.", "쉬운 것부터 해 보면 어때요?"]],
        [("Pro_1-T_1-1", "Pro_1-T_1"), ("Pro_1-T_1-2", "Pro_1-T_1")],
    ),
    "flexeval_outputs.jsonl": ("flexeval", [["いくつありますか。", "三つあります。"]], [("f-1", None)]),
    "promptfoo.csv": ("promptfoo", [OPENING, [OPENING[0]] * 2], [("hours", None)] * 2),
    "promptfoo_old.csv": ("promptfoo", [OPENING, ["休みは？", "水曜日です。"]], [(None, None)] * 2),
    "deepeval_conversations.csv": (
        "deepeval",
        [["予約できますか。", "はい、何名様ですか。"]],
        [("talk-1", None)],
    ),
    "deepeval_goldens.csv": ("deepeval", [["駐車場はありますか。", "はい、裏手にございます。"]], [("parking", None)]),
    "jpersonachat.csv": (
        "table",
        [
            ["はじめまして。", "はじめまして。ご趣味は？", "山歩きです。", "いいですね。"],
            ["こんにちは。", "こんにちは。暑いですね。"],
        ],
        [("1", "1"), ("2", "2")],
    ),
    "langchain.jsonl": ("langsmith", [SEATS] * 3, [("r1", None), ("r2", None), ("r3", None)]),
    "huggingface.arrow": ("table", MORNING, [(None, None)] * 2),
    "huggingface_file.arrow": ("table", MORNING, [(None, None)] * 2),
}


def test_every_file_is_expected() -> None:
    assert {path.name for path in FOLDER.iterdir()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_items_of_a_corpus(name: str) -> None:
    source, texts, ids = EXPECTED[name]
    reader = read_items(FOLDER / name)
    items = [item.value for item in reader]
    assert [[*(said["text"] for said in item["context"]), item["response"]] for item in items] == texts
    assert [(item.get("id"), item.get("dialogue")) for item in items] == ids
    assert reader.report.source == source
    if "aihub_daily" in name:
        assert [said["speaker"] for said in items[0]["context"]] == ["1번", "2번"]
    if name == "promptfoo.csv":
        assert [item["metadata"]["model"] for item in items] == ["openai:gpt-mini", "echo"]


def test_what_gives_no_item_is_named() -> None:
    reader = read_items(FOLDER / "lm_eval_samples.jsonl")
    list(reader)
    told = "\n".join(reader.report.lines())
    assert "filter (another filter of the same answer, 1 row)" in told
    assert "has likelihoods of choices, and no response" in told
    reader = read_items(FOLDER / "oasst_trees.jsonl")
    list(reader)
    assert ("messages[].labels", "") in reader.report.left_out


def test_a_mapping_that_merges_branches_is_told() -> None:
    mapping = {"dialogue": "message_tree_id", "speaker": "role", "text": "text"}
    reader = read_items(FOLDER / "oasst_messages.jsonl", mapping=mapping)
    list(reader)
    assert any("parent_id (another message answers the same one: branches" in line for line in reader.report.lines())
    straight = "dialogue_id,parent_id,speaker,text\nd,,A,問\nd,1,B,答\ne,,A,問\ne,1,B,答\n"
    reader = read_items(io.BytesIO(straight.encode()))
    list(reader)
    assert not any("branches" in line for line in reader.report.lines())


def message(key: str, parent: str | None, role: str) -> dict[str, Any]:
    return {"message_id": key, "parent_id": parent, "message_tree_id": "t", "text": key, "role": role}


@pytest.mark.parametrize(
    ("messages", "skips"),
    [
        ([message("a", "b", "prompter"), message("b", "a", "assistant")], 2),
        ([message("a", "a", "prompter")], 1),
        ([message("a", "gone", "assistant")], 1),
        ([message("a", None, "prompter")], 1),
        ([{**message("a", None, "prompter"), "text": 5}], 1),
    ],
)
def test_trees_that_are_none_are_skipped(messages: list[dict[str, Any]], skips: int) -> None:
    reader = read_items(io.BytesIO("\n".join(map(json.dumps, messages)).encode()))
    assert list(reader) == []
    assert reader.report.skips == skips


@pytest.mark.parametrize(
    "document",
    [
        {"data": [{"header": 1, "body": {"dialogue": 1.5}}]},
        {"info": [{"annotations": {"lines": [1, {"norm_text": [], "speaker": 1}]}}]},
        {"data": [{"header": 1, "body": [2, {"utterance": {}}]}]},
        {"talk": {"content": {"HS01": [], "SS01": 1}, "id": 2}},
        {"doc_id": 0, "doc": 1, "arguments": [[[]]], "resps": [[[]]]},
        {"doc_id": {}, "doc": 1, "arguments": {"gen_args_0": {"arg_0": [{"role": 1}]}}, "resps": {"a": 1}},
        {"message_tree_id": [], "prompt": {"text": {}, "replies": [1, {"replies": 2}]}},
        {"scenario": 1, "turns": 2},
    ],
)
def test_what_is_no_dialogue_gives_no_item(document: dict[str, Any]) -> None:
    assert list(read_items(io.BytesIO(json.dumps(document).encode()))) == []


def test_a_damaged_arrow_file_is_refused() -> None:
    for name in ("huggingface.arrow", "huggingface_file.arrow"):
        content = (FOLDER / name).read_bytes()
        with pytest.raises(UnreadableInput, match=r"is damaged after row 0; write the file again"):
            list(read_items(io.BytesIO(content[: len(content) // 2])))
