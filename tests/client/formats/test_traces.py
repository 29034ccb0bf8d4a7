"""Spans of traces (tests/data/traces): a turn gives one item, that of its outermost answer, and the rest is named."""

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from saiten.core.formats import UnreadableInput, read_items, traces
from saiten.core.formats.mapping import Skipped
from saiten.core.formats.records import Record
from saiten.core.formats.report import Report
from saiten.core.formats.research import RatedItem
from saiten.core.formats.traces import SpanItem, SpanPlace, choose_spans

FOLDER = Path(__file__).parents[2] / "data" / "traces"

WEATHER = ["週末の京都は晴れますか。", "土曜は晴れ、日曜は雨の予報です。"]
PARCEL = ["배송은 언제 오나요?", "내일 오전에 도착할 예정이에요."]
RAIN = [*WEATHER, "では日曜は傘が要りますか。", "はい、傘をお持ちください。"]

EXPECTED: dict[str, tuple[str, list[list[str]], list[str], int]] = {
    "phoenix_rest.json": ("opentelemetry", [PARCEL, WEATHER], ["20", "10"], 8),
    "phoenix_frame.ndjson": ("opentelemetry", [PARCEL, WEATHER], ["20", "10"], 8),
    "phoenix_frame.csv": ("opentelemetry", [PARCEL, WEATHER], ["20", "10"], 8),
    "opentelemetry_agent.json": ("opentelemetry", [WEATHER, RAIN], ["14", "11"], 5),
    "langfuse_observations.json": ("langfuse", [WEATHER, PARCEL], ["tr-1-s", "tr-2-s"], 6),
    "langfuse_trace.json": ("langfuse", [WEATHER], ["tr-1"], 4),
    "langfuse_download.json": ("langfuse", [WEATHER], ["tr-1"], 4),
    "langsmith_runs.ndjson": ("langsmith", [WEATHER, PARCEL], ["r1", "r2"], 8),
    "langsmith_nested.json": ("langsmith", [WEATHER, PARCEL], ["r1", "r2"], 8),
    "mlflow_agent.json": ("mlflow", [WEATHER], ["tr-9"], 1),
}
"""Source, what was said, ids, and spans with something to say."""


@pytest.mark.parametrize("name", EXPECTED)
def test_one_item_a_turn(name: str) -> None:
    source, texts, ids, spans = EXPECTED[name]
    reader = read_items(FOLDER / name, on_missing="refuse")
    items = [item.value for item in reader]
    assert [[*(said["text"] for said in item["context"]), item["response"]] for item in items] == texts
    assert [item["id"] for item in items] == ids
    assert (reader.report.source, reader.report.rows) == (source, spans)
    named = sum(count for (path, _), count in reader.report.left_out.items() if path.startswith("span "))
    assert named == spans - len(texts)


def test_every_file_is_expected() -> None:
    assert {path.name for path in FOLDER.iterdir()} == EXPECTED.keys()


def test_the_report_says_why_a_span_gives_no_item() -> None:
    reader = read_items(FOLDER / "opentelemetry_agent.json")
    list(reader)
    assert {line.strip() for line in reader.report.lines() if line.strip().startswith("span ")} == {
        "span chat gpt-mini, span execute_tool weather (a step that the user does not see, 1 row)",
        "span chat gpt-mini (the same turn has another answer, 1 row)",
    }


def span(key: str, parent: str = "", asked: str = "問", answer: str = "", **place: Any) -> SpanItem:
    """A span of the trace `t`; without an answer it has nothing to say."""
    item: dict[str, Any] = {"context": [{"speaker": "user", "text": asked}], "response": answer}
    found: list[dict[str, Any] | RatedItem | Skipped] = [item] if answer else []
    return SpanItem(place=SpanPlace(key, parent, "t", **place), record=Record("", {}), found=found)


CASES: dict[str, tuple[list[SpanItem], list[str]]] = {
    "nested three deep": ([span("c", "b", answer="答"), span("b", "a", answer="答"), span("a", answer="答")], ["a"]),
    "a parent that the file lacks": ([span("b", "gone", answer="答")], ["b"]),
    "a parent that is itself": ([span("a", "a", answer="答")], ["a"]),
    "parents in a circle": ([span("a", "b", answer="答"), span("b", "a", answer="答")], ["a"]),
    "an answer below a span without one": ([span("a"), span("b", "a"), span("c", "b", answer="答")], ["c"]),
    "an agent that is called as a tool": (
        [
            span("a"),
            span("t", "a", answer="結果", kind="TOOL"),
            span("l", "t", answer="内側"),
            span("o", "a", answer="答"),
        ],
        ["o"],
    ),
    "the last call of a loop": (
        [span("a"), span("x", "a", answer="調べます", start="1"), span("y", "a", answer="晴れです", start="2")],
        ["y"],
    ),
    "calls of one turn by time, not by place": (
        [span("a"), span("y", "a", answer="晴れです", start="2"), span("x", "a", answer="調べます", start="1")],
        ["y"],
    ),
    "a check after the answer": (
        [
            span("x", answer="明日は晴れです。", start="1"),
            span("y", asked="安全?「明日は晴れです。」", answer="SAFE.", start="2"),
        ],
        ["x"],
    ),
    "questions of one script": (
        [span(f"{n}", asked=f"{n}番の質問です。", answer="答") for n in range(3)],
        ["0", "1", "2"],
    ),
    "a span that stands twice": ([span("a", answer="答"), span("a", answer="答")], ["a"]),
    "a name where the tool tells no kind": (
        [span("a"), span("g", "a", asked="別の問い", answer="b", name="InputGuardrail"), span("l", "a", answer="答")],
        ["l"],
    ),
    "a name alone leaves the only answer": ([span("a"), span("g", "a", answer="答", name="title_bot")], ["g"]),
    "only a guardrail": ([span("g", answer="safe", kind="GUARDRAIL")], []),
}


@pytest.mark.parametrize("name", CASES)
def test_which_span_answers(name: str) -> None:
    spans, expected = CASES[name]
    assert [one.place.key for one in choose_spans(spans, Report()) if one.answers] == expected


def test_a_long_trace_is_read_in_one_pass_and_too_many_spans_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [span(f"{n}", f"{n - 1}", answer="答") for n in range(20_000)]
    random.Random(1).shuffle(chain)
    assert [one.place.key for one in choose_spans(chain, Report())] == ["0"]
    monkeypatch.setattr(traces, "MOST_SPANS", 3)
    lines = (FOLDER / "langsmith_runs.ndjson").read_bytes()
    with pytest.raises(UnreadableInput, match=r"input:4: more than 3 spans"):
        list(read_items(io.BytesIO(lines)))


def test_a_trace_without_an_answer_is_skipped_once() -> None:
    run = {"run_type": "llm", "trace_id": "t", "inputs": {"input": "問"}, "outputs": {}, "name": "n"}
    lines = [{**run, "id": "a", "parent_run_id": None}, {**run, "id": "b", "parent_run_id": "a"}]
    reader = read_items(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    assert list(reader) == []
    assert (reader.report.skips, reader.report.rows) == (1, 2)


@pytest.mark.parametrize(
    "document",
    [
        {"resourceSpans": [1]},
        {"resourceSpans": {"scopeSpans": 1}},
        {
            "resourceSpans": [
                {"scopeSpans": [{"spans": [{"spanId": 1, "attributes": [1, {"key": {}}], "events": [2]}]}]}
            ]
        },
        {"data": [{"context": {"span_id": "1"}, "attributes": "x"}, 3]},
        {"run_type": "chain", "inputs": 1, "child_runs": [1, {"inputs": [], "child_runs": {}}]},
        {"trace": {"id": 1}, "observations": [2, {"traceId": []}]},
        {"data": {"spans": [1, {"attributes": {"mlflow.spanInputs": [], "mlflow.spanOutputs": {}}}]}, "info": {}},
    ],
)
def test_what_is_no_span_is_no_fault_of_ours(document: dict[str, Any]) -> None:
    assert list(read_items(io.BytesIO(json.dumps(document).encode()))) == []


@pytest.mark.parametrize(("more", "ids"), [({}, ["t-1", "t-2"]), ({"span_id": "{n}"}, ["1", "2"])])
def test_an_id_is_no_trace_that_several_items_share(more: dict[str, str], ids: list[str]) -> None:
    asked = ["一つ目の質問です。", "二つ目の質問です。"]
    rows = [
        {"trace_id": "t", "inputs": {"question": text}, "outputs": "答"}
        | {name: value.format(n=number) for name, value in more.items()}
        for number, text in enumerate(asked, start=1)
    ]
    items = list(read_items(io.BytesIO("\n".join(map(json.dumps, rows)).encode())))
    assert [item.value["id"] for item in items] == ids


def test_scores_by_people_become_ratings() -> None:
    """Of the trace, and of an observation that holds the same answer; a score by a program is no rating."""
    for name in ("langfuse_trace.json", "langfuse_download.json"):
        (found,) = read_items(FOLDER / name, rated=True)
        named = {"item": "tr-1", "dialogue": "se-1"}
        assert list(found.ratings) == [
            {"rater": "rater-a", "ratings": {"natural": 4}, "comment": "自然です。", **named},
            {"rater": "rater-b", "ratings": {"correct": 1}, **named},
        ]
    reader = read_items(FOLDER / "langfuse_trace.json")
    (found,) = reader
    assert list(found.ratings) == []
    assert ("scores[].value", "ratings: `saiten convert --ratings FILE` writes them") in reader.report.left_out


def test_annotations_of_people_become_ratings() -> None:
    document = json.loads((FOLDER / "phoenix_rest.json").read_text())
    human = {"name": "Natural ness", "annotator_kind": "HUMAN", "user_id": "u1", "identifier": ""}
    for span in document["data"]:
        if span["context"]["span_id"] in ("20", "23"):
            span["annotations"] = [
                {**human, "result": {"label": "good", "score": 0.5, "explanation": "자연스러워요."}},
                {**human, "name": "tone", "result": {"label": "warm", "score": None}},
                {**human, "annotator_kind": "LLM", "result": {"score": 1.0}},
            ]
    reader = read_items(io.BytesIO(json.dumps(document).encode()), rated=True)
    rated = [list(item.ratings) for item in reader]
    named = {"item": "20", "dialogue": "s-2"}
    assert rated == [[{"rater": "u1", "ratings": {"natural_ness": 0.5}, "comment": "자연스러워요.", **named}], []]
    assert reader.report.ratings == 1
    assert {"scores that no person gave", "labels without a number"} <= {why for _, why in reader.report.left_out}
