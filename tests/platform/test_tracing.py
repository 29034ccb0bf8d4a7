"""Traces over real OTLP, from real processes to a receiver: what is in them, and that no text, key or address is."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from saiten_server.application import create_application
from saiten_server.platform.settings import Settings
from tests.support.command import ROOT, run, served
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.span_receiver import Received, SpanReceiver
from tests.support.waiting import LIMIT_SECONDS

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EVALUATE = "POST /v1/evaluations"
TEXT = "金魚鉢の水を替えたよ"


@pytest.fixture
def receiver() -> Iterator[SpanReceiver]:
    with SpanReceiver() as made:
        yield made


def named(spans: list[Received], name: str) -> Received:
    [found] = [span for span in spans if span.name == name]
    return found


async def test_a_request_is_one_trace_from_the_callers_to_the_judges(tmp_path: Path, receiver: SpanReceiver) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=goldfish", "baggage": "pet=goldfish"}
    async with FakeOpenAI() as fake:
        judge = {"OPENAI_API_KEY": "sk-goldfish", "OPENAI_BASE_URL": fake.base_url}
        with served(tmp_path, **receiver.variables, **judge) as (url, _):
            async with httpx.AsyncClient(
                base_url=url, headers=headers, trust_env=False, timeout=LIMIT_SECONDS
            ) as client:
                answer = await client.post("/v1/evaluations?text=goldfish", json=BODY)
                assert answer.status_code == 200, answer.text
            receiver.wait_for(EVALUATE)
        assert "baggage" not in fake.headers[0]
        assert "goldfish" not in fake.headers[0].get("tracestate", "")
        assert TRACE in fake.headers[0]["traceparent"]
    spans = [span for span in receiver.spans() if span.trace_id == TRACE]
    request, evaluation, judgement = (named(spans, name) for name in (EVALUATE, "evaluate", "judge"))
    assert request.parent_id == PARENT
    assert evaluation.parent_id == request.span_id
    assert judgement.parent_id == evaluation.span_id
    assert named(spans, "POST").parent_id == judgement.span_id
    assert any(span.name == "INSERT" and "INSERT INTO" in span.attributes["db.statement"] for span in spans)
    assert request.attributes["http.route"] == "/v1/evaluations"
    ids = {"saiten.rubric": "ja-dialogue", "saiten.status": "scored"}
    assert evaluation.attributes == {**ids, "saiten.request_id": answer.headers["x-request-id"]}
    assert judgement.attributes["saiten.model"] == "gpt-6-luna"
    assert judgement.attributes["saiten.cached"] is False
    assert {span.resource["service.name"] for span in spans} == {"saiten"}
    assert not any(b"goldfish" in body for body in receiver.bodies)
    log = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    [logged] = [entry for entry in log if entry["message"] == "request"]
    assert (logged["trace_id"], logged["span_id"]) == (TRACE, request.span_id)
    assert logged["request_id"] == answer.headers["x-request-id"]


def test_probes_and_sweeps_make_no_traces(tmp_path: Path, receiver: SpanReceiver) -> None:
    with served(tmp_path, **receiver.variables) as (url, _):
        for path in ("/livez", "/readyz", "/metrics", "/v1/info"):
            assert httpx.get(url + path, trust_env=False, verify=False, timeout=LIMIT_SECONDS).status_code == 200
    # The stop sends what is left.
    assert {span.name for span in receiver.spans() if not span.parent_id} == {"GET /v1/info"}


def test_an_error_leaves_its_kind_and_nothing_that_it_says(tmp_path: Path, receiver: SpanReceiver) -> None:
    variables = {**receiver.variables, "OTEL_SERVICE_NAME": "scores"}
    with served(tmp_path, **variables, OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9/v1") as (url, _):
        body = {**BODY, "response": TEXT, "rubric": "ja-dialogue"}
        assert (
            httpx.post(
                url + "/v1/evaluations", json=body, trust_env=False, verify=False, timeout=LIMIT_SECONDS
            ).status_code
            == 503
        )
    spans = receiver.spans()
    failed = named(spans, "evaluate")
    assert failed.status == 2
    assert failed.message == ""
    assert failed.events == [{"name": "exception", "exception.type": "saiten_server.core.errors.JudgeUnavailable"}]
    assert {span.resource["service.name"] for span in spans} == {"scores"}
    assert not any(TEXT.encode() in sent for sent in receiver.bodies)


def test_a_collector_that_is_away_delays_no_stop_for_long(tmp_path: Path) -> None:
    gone = {"SAITEN_TRACING": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with served(tmp_path, **gone) as (url, process):
        assert httpx.get(url + "/v1/info", trust_env=False, verify=False, timeout=LIMIT_SECONDS).status_code == 200
        process.terminate()
        assert process.wait(timeout=LIMIT_SECONDS) == 0


def test_without_it_nothing_is_loaded_that_could_record() -> None:
    # FastAPI and redis-py import OpenTelemetry's interfaces themselves.
    look = (
        "import sys\n"
        "from saiten_server.platform.settings import Settings\n"
        "from saiten_server.application import create_application\n"
        "import saiten_server.cli.serve, saiten_server.cli.worker\n"
        "recording = ('saiten_server.platform.tracing', 'opentelemetry.sdk.trace', 'opentelemetry.exporter', 'opentelemetry.instr')\n"
        "for chosen in ('off', 'otlp'):\n"
        "    create_application(Settings(tracing=chosen))\n"
        "    print(chosen, any(name.startswith(recording) for name in sys.modules))\n"
    )
    command = [sys.executable, "-c", look]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    assert done.stdout.splitlines() == ["off False", "otlp True"]


def test_a_missing_extra_is_said_in_one_line(tmp_path: Path) -> None:
    # Python imports `sitecustomize` first, and a module that is None there cannot be imported.
    absent = "import sys\nsys.modules['opentelemetry.instrumentation'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(absent)
    where = f"{tmp_path}{os.pathsep}{ROOT}"
    # Not `saiten serve`, which isolates the server from such variables.
    command = [sys.executable, "-m", "saiten_server", "serve", "--port", "0"]
    done = run(command, tmp_path, None, {"SAITEN_TRACING": "otlp", "PYTHONPATH": where})
    assert done.returncode == 3
    assert "install saiten-server[tracing]" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_application_that_is_never_called_patches_nothing(tmp_path: Path) -> None:
    handlers = [*logging.getLogger().handlers]
    create_application(Settings(tracing="off"))
    assert logging.getLogger().handlers == handlers
