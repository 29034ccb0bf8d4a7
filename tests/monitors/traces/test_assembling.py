"""Each turn once, whatever spans repeat it, in whatever order they come."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from saiten_server.monitors.traces.assembling import MOST_CHARACTERS, MOST_TURNS, Assembled, assemble
from saiten_server.monitors.traces.reading import SpanReader
from saiten_server.monitors.traces.service import KnownTexts
from saiten_server.monitors.traces.values import StoredSpan
from saiten_server.monitors.traces.wire import WireSpan
from tests.support.spans import NOON, RULES, SECOND, chat, make_span, message, span_id, talk, trace_id

OTHER = {"service.name": "kitchen-bot", "service.version": "2"}


def read(spans: Iterable[WireSpan], *, late_seconds: float = 0) -> Assembled:
    """The conversation of spans that arrive one by one."""
    known, rows = KnownTexts(), []
    for number, span in enumerate(spans):
        for row in SpanReader("team", RULES, known, lambda text, _: text).read([span]).rows:
            known.add(row.fresh)
            rows.append(StoredSpan(row.key, row.said, NOON + timedelta(seconds=number + late_seconds)))
    return assemble(rows)


def said(found: Assembled) -> list[str]:
    return [turn.text for turn in found.turns]


def workflow(asked: str, answer: str, *, number: int, **more: Any) -> WireSpan:
    """A step around a call, as Langfuse, MLflow and OpenLLMetry write it."""
    return make_span({"input.value": asked, "output.value": answer, **more}, number=number, trace=1)


NESTED = [
    workflow("席は？", "あります", number=1, **{"openinference.span.kind": "AGENT"}),
    replace(chat(["席は？"], "あります", number=2, trace=1), parent=span_id(1)),
]

CASES: dict[str, tuple[list[WireSpan], list[str], int]] = {
    "a history with every call": (talk(3, "a"), said(read(talk(3, "a"))), 0),
    "a root and its call": (NESTED, ["席は？", "あります"], 1),
    "the call before its root": (NESTED[::-1], ["席は？", "あります"], 1),
    "a retry in one trace": (
        [chat(["席は？"], "…", number=1, trace=1), chat(["席は？"], "あります", number=2, trace=1, at=1)],
        ["席は？", "あります"],
        1,
    ),
    "an answer made anew": (
        [
            chat(["席は？"], "あります", number=1),
            chat(["席は？", "あります", "窓は？"], "ない", number=2, at=5),
            chat(["席は？", "あります", "窓は？"], "窓もあります", number=3, at=9),
        ],
        ["席は？", "あります", "窓は？", "窓もあります"],
        1,
    ),
    "the same said twice": (
        [
            chat(["はい"], "席は？", number=1),
            chat(["はい", "席は？", "はい"], "何時？", number=2, at=5),
            chat(["はい", "席は？", "はい", "何時？", "はい"], "では", number=3, at=9),
        ],
        ["はい", "席は？", "はい", "何時？", "はい", "では"],
        0,
    ),
    "the same said twice to a bot without a history": (
        [chat(["はい"], "席は？", number=1), chat(["はい"], "何時？", number=2, at=5)],
        ["はい", "席は？", "はい", "何時？"],
        0,
    ),
    "a window over the history": (
        [
            chat(["一"], "二", number=1),
            chat(["一", "二", "三"], "四", number=2, at=1),
            chat(["三", "四", "五"], "六", number=3, at=2),
        ],
        ["一", "二", "三", "四", "五", "六"],
        0,
    ),
    "an answer that the bot changed": (
        [chat(["一"], "**二**", number=1), chat(["一", "二", "三"], "四", number=2, at=1)],
        ["一", "**二**", "三", "四"],
        0,
    ),
    "calls that did not arrive": (
        [chat(["一"], "二", number=1), chat(["一", "二", "三", "四", "五"], "六", number=2, at=9)],
        ["一", "二", "三", "四", "五", "六"],
        0,
    ),
    "two systems answer": (
        [
            chat(["寿司を"], "承りました", number=1, trace=1),
            chat(["寿司を"], "握ります", number=2, trace=2, at=0.2, resource=OTHER),
            chat(["寿司を", "承りました", "お茶も"], "はい", number=3, trace=3, at=9),
        ],
        ["寿司を", "承りました", "握ります", "お茶も", "はい"],
        0,
    ),
    "two systems in one trace": (
        [
            chat(["寿司をお願いします"], "承りました", number=1, trace=1),
            chat(["寿司をお願いします。二人前"], "握ります", number=2, trace=1, at=2, resource=OTHER),
        ],
        ["寿司をお願いします。二人前", "握ります"],
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_turn_once(name: str) -> None:
    spans, wanted, repeats = CASES[name]
    found = read(spans)
    assert said(found) == wanted
    assert found.repeats == repeats


def test_the_order_of_arrival_does_not_matter() -> None:
    spans = talk(12, "a")
    wanted = said(read(spans))
    assert len(wanted) == 24
    for seed in range(5):
        random.Random(seed).shuffle(spans)
        assert said(read(spans)) == wanted


def test_tools_are_left_out_and_counted() -> None:
    call = {"type": "tool_call", "id": "1", "name": "find_table", "arguments": {"people": 2}}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "result": "窓際"}]}
    asked = [message("user", "席は？")]
    calling = {"role": "assistant", "parts": [call]}
    first = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps([calling])}
    second = {
        "gen_ai.input.messages": json.dumps([*asked, calling, result]),
        "gen_ai.output.messages": json.dumps([message("assistant", "窓際があります")]),
    }
    tool = {"gen_ai.operation.name": "execute_tool", "input.value": "二名の席", "output.value": "窓際"}
    (row,) = SpanReader("team", RULES, KnownTexts(), lambda text, _: text).read([make_span(tool)]).rows
    assert "窓際" not in row.said
    found = read(
        [
            make_span({"gen_ai.operation.name": "chat", **first}, number=1, trace=1),
            make_span(tool, number=2, trace=1, at=1),
            make_span({"gen_ai.operation.name": "chat", **second}, number=3, trace=1, at=2),
        ]
    )
    assert said(found) == ["席は？", "窓際があります"]
    assert found.tool_calls == 1


def test_what_a_tool_of_mlflow_returns_is_not_said() -> None:
    tool = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"city": "東京"}', "mlflow.spanOutputs": '"晴れ"'}
    root = {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": '"天気は？"', "mlflow.spanOutputs": '"東京は晴れです。"'}
    found = read([make_span(root, number=1, trace=1), make_span(tool, number=2, trace=1, at=1, parent=span_id(1))])
    assert said(found) == ["天気は？", "東京は晴れです。"]
    (row,) = SpanReader("team", RULES, KnownTexts(), lambda text, _: text).read([make_span(tool)]).rows
    assert "晴れ" not in row.said


def test_a_step_that_does_not_tell_what_it_was_asked_has_it_from_its_call() -> None:
    given = {"langfuse.observation.input": json.dumps({"args": ["席は？", "guest"], "kwargs": {}})}
    step = make_span({**given, "langfuse.observation.output": "あります"}, number=1, trace=1)
    assert said(read([step])) == ["あります"]
    assert said(read([step, replace(chat(["席は？"], "あります", number=2, trace=1), parent=span_id(1))])) == [
        "席は？",
        "あります",
    ]


def test_failed_calls_are_counted_once() -> None:
    failing = replace(chat(["席は？"], None, number=2, trace=1), failed=True, parent=span_id(1))
    around = replace(workflow("席は？", "", number=1), failed=True)
    found = read([failing, around, chat(["席は？"], "あります", number=3, trace=1, at=1)])
    assert (found.errors, said(found)) == (1, ["席は？", "あります"])


def test_a_clock_that_is_days_ahead_is_not_believed() -> None:
    spans = [
        replace(one, start=one.start + 5 * 86_400 * SECOND, end=one.end + 5 * 86_400 * SECOND) for one in talk(3, "a")
    ]
    found = read(spans)
    assert said(found) == said(read(talk(3, "a")))
    assert all(abs((turn.at - NOON).total_seconds()) < 60 for turn in found.turns)
    assert {turn.latency_seconds for turn in found.turns if turn.role == "system"} == {0.5}
    timeless = [replace(one, start=0, end=0) for one in talk(3, "a")]
    assert said(read(timeless)) == said(found)


def test_the_models_id_of_an_answer_is_kept() -> None:
    named: dict[str, Any] = {"gen_ai.response.id": "chatcmpl-1"}
    found = read([chat(["席は？"], "あります", **named)])
    assert [turn.response_id for turn in found.turns] == [None, "chatcmpl-1"]


def test_binary_texts_and_circles_of_parents_are_read() -> None:
    odd = chat(["\0\ud800\U0001f600 席"], "a\0b", number=1, trace=1)
    circle = [
        replace(odd, parent=span_id(2)),
        replace(chat(["窓"], "はい", number=2, trace=1, at=1), parent=span_id(1)),
    ]
    assert said(read([odd])) == ["\ufffd\ufffd\U0001f600 席", "a\ufffdb"]
    assert said(read(circle))[-1] in {"a\ufffdb", "はい"}


def test_what_follows_an_erased_text_is_read_without_it() -> None:
    known = KnownTexts()
    reader = SpanReader("team", RULES, known, lambda text, _: text)
    spans = talk(3, "a")
    rows = []
    for span in spans:
        rows += reader.read([span]).rows
        known.add(rows[-1].fresh)
    kept = [StoredSpan(row.key, row.said, NOON) for row in rows[2:]]
    assert said(assemble(kept)) == said(read(spans))[4:]


def test_what_a_clock_that_is_days_behind_timed_is_there_once() -> None:
    first, second, third = talk(3, "a")
    back = 3 * 86_400 * SECOND
    for late in (
        [first, replace(second, start=second.start - back, end=second.end - back), third],
        [third, second, first],
    ):
        spans = [
            replace(one, start=one.start - number * back, end=one.end - number * back)
            for number, one in enumerate(late)
        ]
        found = read(spans)
        assert said(found) == said(read(talk(3, "a")))
        assert {turn.latency_seconds for turn in found.turns if turn.role == "system"} == {0.5}


def test_the_same_said_again_is_no_earlier_call() -> None:
    """The first call did not arrive: the second one's history tells what it said."""
    found = read(
        [
            chat(["はい", "席は？", "はい"], "席は？", number=1),
            chat(["はい", "席は？"] * 2 + ["窓"], "はい", number=2, at=5),
        ]
    )
    assert said(found) == ["はい", "席は？", "はい", "席は？", "窓", "はい"]


def test_spans_whose_parents_never_come_are_read() -> None:
    orphans = [replace(one, parent="f" * 16) for one in talk(3, "a")]
    assert said(read(orphans)) == said(read(talk(3, "a")))
    nested = [replace(one, trace=orphans[0].trace, parent="f" * 16) for one in NESTED]
    assert said(read(nested)) == ["席は？", "あります"]


def test_of_a_history_of_100_000_messages_the_latest_are_read() -> None:
    asked = [f"発話{number}" for number in range(100_001)]
    (row,) = SpanReader("team", RULES, KnownTexts(), lambda text, _: text).read([chat(asked, "はい")]).rows
    found = assemble([StoredSpan(row.key, row.said, NOON)])
    assert len(found.turns) == 401
    assert said(found)[-2:] == ["発話100000", "はい"]


def test_a_long_conversation_is_put_together_in_one_pass() -> None:
    spans = [chat([f"問{n}"], f"答{n}", number=n, at=n) for n in range(2_000)]
    assert len(read(spans).turns) == 4_000


def tell(number: int, asked: Iterable[str], answer: str, *, span: int | None = None) -> StoredSpan:
    """A row, of a span or of the log record `number` on it."""
    part = "" if span is None else span_id(number)
    key = f"{trace_id(number if span is None else span)}{span_id(number if span is None else span)}{part}"
    times = {"s": int((NOON.timestamp() + number) * SECOND)}
    return StoredSpan(key, json.dumps({**times, "q": [f"u:{text}" for text in asked], "a": [f"s:{answer}"]}), NOON)


def test_a_conversation_of_100_000_turns_is_bounded_and_says_so() -> None:
    found = assemble([tell(number, ["あの"] * 400, f"はい{number}") for number in range(250)])
    assert MOST_TURNS <= len(found.turns) < MOST_TURNS + 800
    assert found.refused == 250 - 25


def test_texts_that_are_referred_to_many_times_are_bounded() -> None:
    long = "あ" * 32_000
    found = assemble([tell(number, [long] * 400, f"はい{number}") for number in range(4)])
    assert sum(len(turn.text) for turn in found.turns) < MOST_CHARACTERS + 400 * 32_000 + 100
    assert found.refused == 2


def test_log_records_on_one_span_tell_no_more_than_a_call_holds() -> None:
    found = assemble([tell(n, [f"{n} {m}" for m in range(400)], f"はい{n}", span=0) for n in range(20)])
    assert len(found.turns) <= 801


def test_how_long_an_answer_took_is_not_believed_beyond_a_day() -> None:
    began = replace(talk(1, "a")[0], start=1)  # by a clock that was set meanwhile
    assert [turn.latency_seconds for turn in read([began]).turns] == [None, None]
