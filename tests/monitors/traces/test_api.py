"""What a bot sends arrives over HTTP, in both encodings, and is answered as OTLP says."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from saiten_server.monitors.traces.commits import name_id
from saiten_server.monitors.traces.limits import DEFAULT_LIMITS, BodyTooLarge
from saiten_server.monitors.traces.wire import decode_signal
from tests.support.keyed import make_keys
from tests.support.spans import LINES, chat, export, make_span, span_id, talk, trace_id

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
PACKED = {"Content-Encoding": "gzip"}


def as_json(request: ExportTraceServiceRequest) -> dict[str, Any]:
    """OTLP's JSON, which has ids in hexadecimal digits."""
    document: dict[str, Any] = MessageToDict(request)
    for of_resource in document["resourceSpans"]:
        for scope in of_resource["scopeSpans"]:
            for span, own in zip(scope["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True):
                span |= {"traceId": own.trace_id.hex(), "spanId": own.span_id.hex()}
    return document


async def test_spans_of_both_encodings_become_one_conversation(client: httpx.AsyncClient) -> None:
    first, second, third = talk(3, "予約-1")
    sent = [
        (export([first]).SerializeToString(), PROTOBUF),
        (gzip.compress(export([second]).SerializeToString()), PROTOBUF | PACKED),
        (json.dumps(as_json(export([third]))).encode(), JSON),
        (export([first]).SerializeToString(), PROTOBUF),
    ]
    for body, headers in sent:
        answer = await client.post("/v1/traces", content=body, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == headers["Content-Type"]
        if headers["Content-Type"] == "application/json":
            assert answer.json() == {}
        else:
            assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()

    listed = (await client.get("/v1/traces/conversations")).json()
    assert [(one["name"], one["state"]) for one in listed["items"]] == [("予約-1", "open")]
    found = (await client.get(f"/v1/traces/conversations/{listed['items'][0]['id']}")).json()
    assert [turn["text"] for turn in found["turns"]] == [f"{LINES[n]}{n}" for n in range(6)]
    assert found["turns"][1] | {"at": ""} == {
        "speaker": "assistant",
        "role": "system",
        "text": f"{LINES[1]}1",
        "at": "",
        "trace_id": trace_id(0),
        "span_id": span_id(0),
        "system": "yoyaku-bot",
        "build": "1.4.0",
        "latency_seconds": 0.5,
    }
    report = (await client.get("/v1/traces")).json()
    assert report["conversations"] == {"open": 1}
    assert report["counts"]["spans"] == 4
    address = f"/v1/traces/conversations/{found['id']}"
    assert [(await client.delete(address)).status_code for _ in range(2)] == [204, 404]
    assert (await client.get(address)).status_code == 404


async def test_bad_spans_are_rejected_alone_and_said(client: httpx.AsyncClient) -> None:
    request = export(
        [chat(["席"], "はい", conversation="a"), chat(["x" * 5_000_000], "はい", number=1, conversation="a")]
    )
    request.resource_spans[0].scope_spans[0].spans.add(trace_id=b"short", span_id=b"12345678")
    answer = await client.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 2)
    assert "larger than 4 MiB" in partial.error_message
    again = await client.post(
        "/v1/traces", content=request.SerializeToString(), headers=PROTOBUF | {"Accept-Language": "ja"}
    )
    assert "4 MiB を超える" in ExportTraceServiceResponse.FromString(again.content).partial_success.error_message
    report = (await client.get("/v1/traces")).json()
    assert report["counts"]["rejected-span-too-large"] == 2
    metrics = (await client.get("/metrics")).text
    for line in (
        'saiten_traces_spans_total{outcome="stored"} 1.0',
        'saiten_traces_spans_total{outcome="span-too-large"} 2.0',
        'saiten_traces_spans_total{outcome="span-ids"} 2.0',
        "saiten_traces_received_bytes_total 1.000",
        "saiten_traces_unread_spans_total 0.0",
    ):
        assert line in metrics


def nest_resource() -> bytes:
    """A span of a resource whose attribute is nested deeper than is read, and no deeper than protobuf decodes."""
    request, value = export([chat(["a"], "b")]), AnyValue(string_value="x")
    for _ in range(40):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    request.resource_spans[0].resource.attributes.append(KeyValue(key="deep", value=value))
    return bytes(request.SerializeToString())


def repeat_attribute(number: int, value: AnyValue) -> bytes:
    """A span of a resource with so many attributes."""
    request = export([chat(["a"], "b")])
    request.resource_spans[0].resource.attributes.extend([KeyValue(key="x", value=value)] * number)
    return bytes(request.SerializeToString())


BAD: dict[str, tuple[bytes, dict[str, str], int]] = {
    "no protobuf": (b"\xff\xff\xff", PROTOBUF, 400),
    "cut off": (export([chat(["a"], "b")]).SerializeToString()[:-3], PROTOBUF, 400),
    "no gzip": (b"plain", PROTOBUF | PACKED, 400),
    "gzip cut off": (gzip.compress(b"x" * 1000)[:-9], PROTOBUF | PACKED, 400),
    "a gzip bomb": (gzip.compress(b"\0" * 80_000_000), PROTOBUF | PACKED, 413),
    "many empty members": (gzip.compress(b"") * 1000, PROTOBUF | PACKED, 400),
    "a resource nested too deeply": (nest_resource(), PROTOBUF, 400),
    "a resource of many attributes": (repeat_attribute(5_000, AnyValue()), PROTOBUF, 400),
    "a large resource": (repeat_attribute(1, AnyValue(bytes_value=b"x" * 5_000_000)), PROTOBUF, 400),
    "many empty spans": (export([]).SerializeToString() + b"\x0a\x02\x12\x00" * 90_000, PROTOBUF, 413),
    "no JSON": (b"{", JSON, 400),
    "a list": (b"[]", JSON, 400),
    "fields of another request": (b'{"resourceLogs": []}', JSON, 400),
    "names as protobuf spells them": (b'{"resource_spans": []}', JSON, 400),
    "deep JSON": (b'{"resourceSpans":' + b"[" * 100_000, JSON, 400),
    "many values": (b'{"resourceSpans":[' + b"0," * 1_100_000 + b"0]}", JSON, 413),
    "another type": (b"{}", {"Content-Type": "text/plain"}, 415),
    "another packing": (b"{}", JSON | {"Content-Encoding": "br"}, 415),
}


async def test_bad_bodies_are_answered_as_otlp_says(client: httpx.AsyncClient) -> None:
    for name, (body, headers, status) in BAD.items():
        answer = await client.post("/v1/traces", content=body, headers=headers)
        assert (name, answer.status_code) == (name, status)
        if headers["Content-Type"] == "application/x-protobuf":
            assert Status.FromString(answer.content).code == 3
        elif headers["Content-Type"] == "application/json":
            assert answer.json()["code"] == 3


async def test_whoever_refuses_an_exporter_answers_as_otlp_says(client: httpx.AsyncClient, tmp_path: Path) -> None:
    await make_keys(tmp_path, ("team", "ingest"))
    unknown = {"Authorization": "Bearer saiten_unknown"}
    for path in ("/v1/traces", "/v1/logs"):
        answer = await client.post(path, content=b"", headers=PROTOBUF | unknown)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/x-protobuf")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        status = Status.FromString(answer.content)
        assert (status.code, status.message.partition(":")[0]) == (16, "unauthorized")
        answer = await client.post(path, content=b"{}", headers=JSON | unknown)
        assert (answer.headers["content-type"], answer.json()["code"]) == ("application/json", 16)
    # Who asks for something else is no exporter.
    asked = await client.get("/v1/traces", headers=unknown)
    assert (asked.status_code, asked.headers["content-type"]) == (401, "application/problem+json")


def test_values_within_values_are_counted() -> None:
    body = repeat_attribute(9, AnyValue(array_value=ArrayValue(values=[AnyValue()] * 200)))
    assert len(decode_signal(body, "traces", DEFAULT_LIMITS, is_json=False).spans) == 1
    with pytest.raises(BodyTooLarge):
        decode_signal(body, "traces", replace(DEFAULT_LIMITS, marks=1_000), is_json=False)


async def test_a_key_that_may_only_send_reads_nothing(client: httpx.AsyncClient, tmp_path: Path) -> None:
    sender, reader, other = await make_keys(tmp_path, ("team", "ingest"), ("team", "read"), ("rivals", "write"))
    body = export(talk(1, "a")).SerializeToString()
    address = f"/v1/traces/conversations/{name_id('team', 'a')}"
    assert (await client.post("/v1/traces", content=body, headers=PROTOBUF | sender)).status_code == 200
    unsent = await client.post("/v1/traces", content=body, headers=PROTOBUF | reader)
    assert (unsent.status_code, Status.FromString(unsent.content).code) == (403, 7)
    refused = [
        ("GET", "/v1/traces"),
        ("GET", address),
        ("DELETE", address),
        ("POST", "/v1/evaluations"),
        ("GET", "/v1/info"),
    ]
    answers = [await client.request(method, path, headers=sender) for method, path in refused]
    assert [answer.status_code for answer in answers] == [403] * len(refused)
    assert {answer.json()["message"] for answer in answers} == {"ingest-key-sends"}
    seen = [(await client.get(address, headers=key)).status_code for key in (reader, other)]
    assert seen == [200, 404]


async def test_what_no_convention_reads_is_shown_by_its_names_alone(client: httpx.AsyncClient) -> None:
    secret = make_span({"ai.prompt.text": "秘密の話", "llm.request.odd": "x"}, number=1)
    silent = make_span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt"}, number=2)
    other = make_span({"http.route": "/"}, number=3)
    await client.post("/v1/traces", content=export([secret, silent, other]).SerializeToString(), headers=PROTOBUF)
    answer = await client.get("/v1/traces")
    assert "秘密" not in answer.text
    report = answer.json()
    (unread,) = report["unread"]
    assert (unread["library"], unread["attributes"], unread["spans"]) == ("test 1", ["ai.prompt.text"], 1)
    assert {name: report["counts"][name] for name in ("without-content", "other", "spans")} == {
        "without-content": 1,
        "other": 1,
        "spans": 2,
    }


async def test_log_events_belong_to_their_span(client: httpx.AsyncClient) -> None:
    def record(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
        values = [
            {"key": key, "value": {"stringValue": value} if isinstance(value, str) else value}
            for key, value in attributes.items()
        ]
        ids = {"traceId": trace_id(7), "spanId": span_id(7), "observedTimeUnixNano": "1795867200000000000"}
        return {"eventName": name, "attributes": values, **ids}

    def structured(role: str, text: str) -> dict[str, Any]:
        part = {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": text}}]}}
        values = [
            {"key": "role", "value": {"stringValue": role}},
            {"key": "parts", "value": {"arrayValue": {"values": [part]}}},
        ]
        return {"arrayValue": {"values": [{"kvlistValue": {"values": values}}]}}

    said = {
        "gen_ai.input.messages": structured("user", "席を"),
        "gen_ai.output.messages": structured("assistant", "はい"),
    }
    records = [
        record("gen_ai.client.inference.operation.details", {"gen_ai.operation.name": "chat", **said}),
        record("unrelated", {"note": "x"}),
    ]
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    assert (await client.post("/v1/logs", json=body)).json() == {}
    silent = make_span({"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c"}, number=7, at=4)
    await client.post("/v1/traces", content=export([silent]).SerializeToString(), headers=PROTOBUF)
    found = (await client.get(f"/v1/traces/conversations/{name_id('default', 'c')}")).json()
    assert [turn["text"] for turn in found["turns"]] == ["席を", "はい"]
    assert (found["system"], found["turns"][1]["latency_seconds"]) == ("yoyaku-bot", 0.5)


async def test_pages_lead_to_all_conversations(client: httpx.AsyncClient) -> None:
    spans = [chat(["a"], "b", number=n, conversation=f"c{n}") for n in range(5)]
    await client.post("/v1/traces", content=export(spans).SerializeToString(), headers=PROTOBUF)
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query: dict[str, str] = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/v1/traces/conversations", params=query)).json()
        names += [one["name"] for one in page["items"]]
        cursor = page["next"]
    assert sorted(names) == [f"c{n}" for n in range(5)]
    assert (await client.get("/v1/traces/conversations", params={"state": "closed"})).json()["items"] == []
