"""What spans say by each convention, and that a file of them gives each turn once."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from saiten.core.formats import read_items
from saiten.core.formats.spans import (
    Said,
    SpanEvent,
    find_conversation,
    find_kind,
    is_of_a_call,
    name_saying,
    read_arguments,
    read_call,
    read_plainly,
)

ASKED, ANSWER = "予約したいのですが。", "何名様でしょうか。"
REQUEST = {"model": "m", "messages": [{"role": "system", "content": "係"}, {"role": "user", "content": ASKED}]}
REPLY = {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


CONVENTIONS: dict[str, tuple[dict[str, Any], list[SpanEvent]]] = {
    "gen_ai": (
        {
            "gen_ai.input.messages": text([{"role": "user", "parts": [{"type": "text", "content": ASKED}]}]),
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}],
            "gen_ai.system_instructions": text([{"type": "text", "content": "係"}]),
        },
        [],
    ),
    "gen_ai ": (  # by the event
        {"gen_ai.operation.name": "chat"},
        [
            SpanEvent(
                "gen_ai.client.inference.operation.details",
                {
                    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}],
                    "gen_ai.output.messages": text([{"role": "assistant", "content": ANSWER}]),
                },
            )
        ],
    ),
    "gen_ai-prompt": (
        {"gen_ai.prompt": text(REQUEST["messages"]), "gen_ai.completion": text([REPLY["choices"]][0])},
        [],
    ),
    "gen_ai-indexed": (
        {
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": ASKED,
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "係",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
        },
        [],
    ),
    "gen_ai-events": (
        {"gen_ai.system": "openai"},
        [
            SpanEvent("gen_ai.system.message", {"content": "係"}),
            SpanEvent("gen_ai.user.message", {"content": ASKED}),
            SpanEvent("gen_ai.choice", {"index": 0, "message": text({"role": "assistant", "content": ANSWER})}),
        ],
    ),
    "openinference": (
        {
            "input.value": text(REQUEST),
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": ASKED,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
            "output.value": text(REPLY),
        },
        [],
    ),
    "openinference-value": ({"input.value": text(REQUEST), "output.value": text(REPLY)}, []),
    "langfuse": ({"langfuse.observation.input": ASKED, "langfuse.observation.output": text({"answer": ANSWER})}, []),
    "langfuse-trace": ({"langfuse.trace.input": text({"question": ASKED}), "langfuse.trace.output": ANSWER}, []),
    "mlflow": ({"mlflow.spanInputs": text(REQUEST), "mlflow.spanOutputs": text(REPLY)}, []),
    "traceloop": (
        {"traceloop.entity.input": text({"inputs": {"input": ASKED}}), "traceloop.entity.output": ANSWER},
        [],
    ),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_each_convention_is_read(name: str) -> None:
    attributes, events = CONVENTIONS[name]
    call = read_call(attributes, events)
    assert call is not None
    assert call.convention == name.strip()
    assert [one for one in call.asked if one.role == "user"] == [Said("user", ASKED)]
    assert call.answers == (ANSWER,)


def test_conversations_are_named_in_the_order_of_the_contract() -> None:
    names = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "mlflow.trace.session")
    attributes = {name: name for name in (*names, "traceloop.association.properties.session_id")}
    for name in [*attributes]:
        assert find_conversation(attributes) == name
        del attributes[name]
    assert find_conversation({"session.id": " "}) == ""
    assert find_conversation({"session.id": 17}) == "17"


def test_what_says_nothing_is_told_from_what_is_not_known() -> None:
    assert read_call({"gen_ai.operation.name": "chat"}) is None
    assert name_saying({"gen_ai.response.id": "x", "gen_ai.response.finish_reasons": ["stop"]}) == []
    assert name_saying({"ai.prompt.messages": "[]", "ai.model.id": "m"}) == ["ai.prompt.messages"]
    assert not is_of_a_call({"http.route": "/", "db.system": "x"})


HOSTILE: list[Any] = [
    "{" * 100_000,
    "[" * 100_000,
    "null",
    "1e999",
    text([[[[]]]]),
    text({"messages": [None, 3, []]}),
    text([{"role": "assistant", "content": [{"type": ["text"], "text": ANSWER}, {"type": {}, "text": ANSWER}]}]),
    7,
    b"x",
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_odd_values_are_read_or_not(value: Any) -> None:
    for name in ("gen_ai.input.messages", "input.value", "gen_ai.prompt.0.content", "langfuse.observation.input"):
        call = read_call({name: value, "output.value": value})
        assert call is None or all(isinstance(one, str) for one in call.answers)


def test_a_message_whose_parts_contradict_each_other_is_read() -> None:
    whole = {"gen_ai.prompt.0.content": ASKED, "gen_ai.completion.0.content": ANSWER}
    parts = {"gen_ai.prompt.0.contents.0.message_content.text": ASKED, "gen_ai.completion.0.tool_calls": "[]"}
    call = read_call({**whole, **parts, "gen_ai.completion.0.tool_calls.0.name": "search"})
    assert call is not None
    assert call.answers == (ANSWER,)


def test_calls_of_tools_are_counted_when_they_are_made() -> None:
    calling = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]}
    result = {"role": "tool", "content": "窓際"}
    asked = [{"role": "user", "content": ASKED}]
    first = read_call({"gen_ai.input.messages": text(asked), "gen_ai.output.messages": text([calling])})
    assert first is not None
    assert (first.answers, first.tool_calls) == ((), 2)
    second = read_call(
        {
            "gen_ai.input.messages": text([*asked, calling, result]),
            "gen_ai.output.messages": text([REPLY["choices"][0]["message"]]),
        }
    )
    assert second is not None
    assert (second.asked, second.tool_calls) == ((Said("user", ASKED),), 0)
    numbered = {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
    }
    third = read_call(numbered)
    assert third is not None
    assert third.tool_calls == 1


def test_a_root_span_and_its_generation_give_one_item() -> None:
    def span(key: str, parent: str, attributes: dict[str, str]) -> dict[str, Any]:
        values = [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()]
        return {"traceId": "1" * 32, "spanId": key * 16, "parentSpanId": parent * 16, "name": "n", "attributes": values}

    root = {"langfuse.session.id": "s-1", "langfuse.trace.input": ASKED, "langfuse.trace.output": ANSWER}
    generation = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": text(REQUEST["messages"]),
        "langfuse.observation.output": text(REPLY["choices"][0]["message"]),
    }
    spans = [span("a", "", root), span("b", "a", generation)]
    file = io.BytesIO(text({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode())
    (item,) = [found.value for found in read_items(file)]
    assert item["context"] == [{"speaker": "user", "text": ASKED}]
    assert (item["response"], item["dialogue"]) == (ANSWER, "s-1")


def test_texts_that_a_tool_writes_as_json_have_no_quotation_marks() -> None:
    mlflow = read_plainly(
        {
            "mlflow.spanType": text("TOOL"),
            "mlflow.spanInputs": text({"question": ASKED}),
            "mlflow.spanOutputs": text(ANSWER),
            "session.id": text("s-1"),
            "plain": 'half"',
        }
    )
    assert (find_kind(mlflow), find_conversation(mlflow), mlflow["plain"]) == ("TOOL", "s-1", 'half"')
    assert read_call(mlflow) is not None
    assert mlflow["mlflow.spanOutputs"] == ANSWER
    entity = read_plainly({"traceloop.entity.output": json.dumps(ANSWER)})
    assert entity == {"traceloop.entity.output": ANSWER}
    # Who says something in quotation marks to another tool said them.
    said = {"input.value": text(ASKED), "langfuse.observation.input": text(ASKED)}
    assert read_plainly(said) == said


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"args": [ASKED], "kwargs": {}}, ASKED),
        ({"args": [], "kwargs": {"question": ASKED, "limit": 3}}, ASKED),
        ({"args": [ASKED, "guest"], "kwargs": {}}, {}),
        ({"args": [[]], "kwargs": {"question": ASKED, "guest": "g"}}, {"question": ASKED, "guest": "g"}),
        ({"args": 3, "kwargs": "x"}, {}),
        ({"args": [ASKED]}, {"args": [ASKED]}),
        (ASKED, ASKED),
        (None, None),
    ],
)
def test_of_what_a_function_was_given_the_only_text_counts(given: Any, wanted: Any) -> None:
    assert read_arguments(given) == wanted


def test_a_file_of_mlflows_spans_is_read_likewise() -> None:
    attributes = {
        "mlflow.spanType": text("LLM"),
        "mlflow.spanInputs": text(REQUEST),
        "mlflow.spanOutputs": text(ANSWER),
    }
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "answer", "attributes": pairs}
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (item,) = [found.value for found in read_items(io.BytesIO(text(document).encode()))]
    assert item["response"] == ANSWER


def test_the_session_of_a_trace_of_mlflow_is_its_dialogue() -> None:
    spans = [{"attributes": {"mlflow.spanInputs": text({"question": ASKED}), "mlflow.spanOutputs": text(ANSWER)}}]
    info = {"trace_id": "tr-1", "trace_metadata": {"mlflow.trace.session": "s-1", "mlflow.user": "u"}}
    file = io.BytesIO(text({"info": info, "data": {"spans": spans}}).encode())
    (item,) = [found.value for found in read_items(file)]
    assert (item["id"], item["dialogue"], item["response"]) == ("tr-1", "s-1", ANSWER)
