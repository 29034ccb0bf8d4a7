"""Files that other tools wrote (tests/data/formats): each gives its items, and no field of one is lost in silence."""

import copy
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from saiten.core.formats import ItemReader, UnreadableInput, read_items

FOLDER = Path(__file__).parents[2] / "data" / "formats"

WEATHER = ["今日は暑いですね。", "本当に暑いですね。水分をとってくださいね。"]
FOOD = ["お腹がすきました。", "何か食べますか。", "カレーがいいです。", "いいですね。近くに店がありますよ。"]
TALK = ["週末は何をしましたか。", "本を読みました。", "どんな本ですか。", "旅の本です。"]
FILM = ["おすすめの映画はありますか。", "静かな作品がお好きなら、これはいかがですか。"]
TEA = ["잠이 안 와요.", "따뜻한 차를 마셔 보세요."]
HOT = ["今日は暑いですね。", "本当に暑いですね。"]
MEET = ["내일 만날까요?", "네, 좋아요."]
RAIN = ["明日は雨ですか。", "どちらにお住まいですか。", "札幌です。", "明日の札幌は晴れそうです。"]
SUNNY = ["내일 비 와요?", "내일은 맑아요."]
MORNING = ["おはよう。", "おはようございます。"]

GARDEN = ["こんにちは。今日は何をしますか。", "庭の草を取ります。", "草は夏によく伸びますね。"]
MOSS = ["hello", "Hello! What are you reading?", "a book on moss", "Moss grows without roots."]
JOKE = ["hi", "Hi there.", "tell me a joke", "I only know long ones."]
BEES = ["do you keep bees ?", "yes , two hives behind the house ."]

EXPECTED: dict[str, tuple[str, list[list[str]]]] = {
    "dbdc3.json": ("dbdc3", [GARDEN, [*GARDEN, "本当に大変です。", "私は電車です。"]]),
    "deepeval_conversation.json": ("deepeval", [TALK]),
    "deepeval_dataset.csv": ("deepeval", [FILM, TEA]),
    "deepeval_dataset.json": ("deepeval", [FILM, TEA]),
    "deepeval_run.json": ("deepeval", [FILM]),
    "dstc9.json": ("dstc9", [MOSS, JOKE]),
    "dstc9_table.json": ("dstc9", [MOSS, JOKE]),
    "fed.json": (
        "fed",
        [
            ["Hi!", "Hello, how was your walk?", "Rainy, but good.", "I like the smell after rain."],
            ["Good evening.", "Good evening! Did you cook today?", "Soup.", "What was in it?"],
        ],
    ),
    "flexeval.jsonl": ("flexeval", [["いくつありますか。", "三つあります。"], ["그래요?", "네, 그래요."]]),
    "huggingface.jsonl": (
        "table",
        [["おはよう。", "おはようございます。", "眠いです。", "よく眠れましたか。"], ["안녕.", "안녕하세요."]],
    ),
    "huggingface.parquet": (
        "table",
        [["おはよう。", "おはようございます。", "眠いです。", "よく眠れましたか。"], ["안녕.", "안녕하세요."]],
    ),
    "huggingface_rows.json": ("table", [["春はいつですか。", "三月からです。"]]),
    "inspect_ai.eval": ("inspect_ai", [FOOD, WEATHER]),
    "inspect_ai.json": ("inspect_ai", [FOOD, WEATHER]),
    "langfuse_dataset.json": ("langfuse", [["一番高い山は？", "富士山です。"]]),
    "langfuse_events.json": ("langfuse", [["오늘 뭐 해요?", "산책해요."]]),
    "langfuse_observations.json": ("langfuse", [["傘は要りますか。", "念のためお持ちください。"]]),
    "llm_jp_judge.jsonl": (
        "llm-jp-judge",
        [
            ["茶道とは何ですか。", "お茶でもてなす文化です。"],
            ["紅葉の時期は？", "十一月ごろです。"],
            ["旅行の日記を書いて。", "京都へ行きました。楽しかったです。"],
            ["旅行の日記を書いて。", "京都へ行きました。楽しかったです。", "もっと短く。", "京都、楽しかった。"],
        ],
    ),
    "logickor.jsonl": (
        "logickor",
        [
            ["사이시옷이 뭐예요?", "합성어에 쓰는 시옷이에요."],
            ["사이시옷이 뭐예요?", "합성어에 쓰는 시옷이에요.", "예를 들어 주세요.", "'횟수'가 있어요."],
        ],
    ),
    "mlflow_data.json": ("mlflow", [["何時ですか。", "三時です。"]]),
    "mlflow_table.json": (
        "mlflow",
        [["駅はどこですか。", "まっすぐ行って右です。"], ["역이 어디예요?", "쭉 가서 오른쪽이에요."]],
    ),
    "mlflow_trace.json": ("mlflow", [["今日は何曜日ですか。", "今日は月曜日です。"]]),
    "openai_evals_items.json": ("openai-evals", [["休みは何曜日ですか。", "水曜日です。"]]),
    "openai_evals_log.jsonl": ("openai-evals", [["好きな色は？", "青です。"]]),
    "opentelemetry_console.ndjson": ("opentelemetry", [RAIN, SUNNY, MORNING]),
    "opentelemetry_otlp.json": ("opentelemetry", [RAIN, SUNNY, MORNING]),
    "promptfoo.json": ("promptfoo", [HOT, MEET]),
    "promptfoo.jsonl": ("promptfoo", [HOT, MEET]),
    "unieval.json": ("unieval", [[*BEES, "sixty thousand live in one hive !"], [*BEES, "i like the sea ."]]),
    "usr.json": ("usr", [[*BEES, "sixty thousand bees live in one hive !"], [*BEES, "i like the sea ."]]),
}

FIELDS: dict[str, dict[str, Any]] = {
    "dbdc3.json": {"id": "1500000001-2", "dialogue": "1500000001"},
    "dstc9_table.json": {"metadata": {"system": "bot1.json"}},
    "fed.json": {"metadata": {"system": "Meena"}},
    "usr.json": {"metadata": {"system": "Original Ground Truth"}},
    "deepeval_dataset.json": {"reference": "好みを聞いてから勧める。"},
    "deepeval_run.json": {"id": "film-1", "reference": "好みを聞いてから勧める。"},
    "inspect_ai.json": {"id": "food-2", "reference": ["いいですね", "そうしましょう"]},
    "langfuse_dataset.json": {"id": "it-1", "reference": "富士山", "metadata": {"topic": "地理"}},
    "langfuse_events.json": {"id": "tr-2", "dialogue": "se-2", "metadata": {"build": "13"}},
    "langfuse_observations.json": {"id": "ob-1", "dialogue": "se-1", "metadata": {"build": "12"}},
    "llm_jp_judge.jsonl": {"id": "q-1"},
    "logickor.jsonl": {
        "id": "36-1",
        "dialogue": "36",
        "reference": "합성어의 시옷",
        "metadata": {"category": "문법(Grammar)"},
    },
    "mlflow_data.json": {"id": "m-1", "reference": "三時", "metadata": {"system": "bot-a"}},
    "mlflow_table.json": {"reference": "右です。"},
    "openai_evals_items.json": {"id": "outputitem_1", "reference": "水曜日"},
    "opentelemetry_otlp.json": {"dialogue": "talk-7", "metadata": {"model": "mock-1"}},
    "promptfoo.json": {"reference": "そうですね。", "metadata": {"system": "bot-a", "model": "echo"}},
}


WITHOUT_EFFECT = ("role", "turns[].speaker", "turns[].turn-index")
"""The response's speaker is the assistant, and only turns that people labelled are items, with ids."""


def test_every_file_is_expected() -> None:
    assert {path.name for path in FOLDER.iterdir()} - {"README.md"} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_items_of_a_tool(name: str) -> None:
    source, texts = EXPECTED[name]
    reader = read_items(FOLDER / name)
    items = [item.value for item in reader]
    assert [[*(spoken["text"] for spoken in item["context"]), item["response"]] for item in items] == texts
    assert reader.report.source == source
    found = {key: items[0].get(key) for key in FIELDS.get(name, {})}
    assert found == FIELDS.get(name, {})


@pytest.mark.parametrize("name", EXPECTED)
def test_a_named_source_reads_as_the_detected_one(name: str) -> None:
    source, texts = EXPECTED[name]
    assert len(list(read_items(FOLDER / name, source=source))) == len(texts)


def read_value(name: str, value: Any) -> tuple[list[dict[str, Any]], ItemReader]:
    lines = [json.dumps(part) for part in value] if name.endswith(("jsonl", "ndjson")) else [json.dumps(value)]
    file = io.BytesIO("\n".join(lines).encode())
    file.name = name
    reader = read_items(file, source=EXPECTED[name][0])
    return [item.value for item in reader], reader


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of everything in a document that says something."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    elif value is not None and value != "":
        yield path


def change(document: Any, path: tuple[str | int, ...]) -> Any:
    """The document with another value in one place."""
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    holder[path[-1]] = f"{old}x" if isinstance(old, str) else not old if isinstance(old, bool) else old + 1
    return changed


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.endswith((".csv", ".parquet", ".eval"))])
def test_no_field_is_lost_in_silence(name: str) -> None:
    """Whatever is changed: an item changes with it, or the report names the field, or an ancestor of it, as left out."""
    text = (FOLDER / name).read_text()
    document = (
        [json.loads(line) for line in text.splitlines()] if name.endswith(("jsonl", "ndjson")) else json.loads(text)
    )
    before, reader = read_value(name, document)
    told = {path for path, _ in reader.report.left_out}
    silent = []
    for path in leaves(document):
        after = before
        with suppress(UnreadableInput):
            after, changed = read_value(name, change(document, path))
            same = after == before and changed.report.left_out == reader.report.left_out
            place = spell(document, path)
            if same and not is_told(place, told) and not place.endswith(WITHOUT_EFFECT):
                silent.append(place)
    assert silent == []


def spell(document: Any, path: tuple[str | int, ...]) -> str:
    """A place as the report names it: without the number of the record, a cell and an attribute by their headings."""
    if path[0] == "data" and "columns" in document:
        return str(document["columns"][path[2]])
    named = ""
    for depth, key in enumerate(path):
        named += f".{key}" if isinstance(key, str) else "[]" if depth else ""
        document = document[key]
        if "spans" in path and isinstance(document, dict) and "key" in document:
            named = named.removesuffix("[]") + "." + document["key"]
            break
    return re.sub(r"\.(\d+)\.", "[].", named.lstrip("."))


def is_told(place: str, told: set[str]) -> bool:
    """Whether the report names the place, or one above it."""
    return any(place == path or place.startswith((f"{path}.", f"{path}[")) for path in told)
