"""The log: whose records it has, and that no level puts a caller's text or key into it. And what is counted."""

import ast
import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from saiten_server.comparison.judge_checks.values import JudgeCheck
from saiten_server.comparison.values import GateVerdict
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import JudgeUnavailable
from saiten_server.core.evaluation import Usage
from saiten_server.governance.store import tell_events
from saiten_server.platform.telemetry import (
    OWN_LOGGERS,
    RECORD_FIELDS,
    FlowFigures,
    Series,
    Telemetry,
    configure_logging,
    working_on,
    write_traceback,
)
from tests.support.command import saiten, served
from tests.support.fake_openai import FakeOpenAI
from tests.support.faults import words
from tests.support.records import BODY
from tests.support.waiting import LIMIT_SECONDS

APP = Path(__file__).resolve().parents[2] / "app"
CONTEXT, RESPONSE = "金魚鉢の水を替えたよ", "それは涼しそうだね"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the handler writes; the process's logging is as before afterwards."""
    root, names = logging.getLogger(), [*OWN_LOGGERS, "uvicorn.error", "aiosqlite", "openai"]
    handlers, levels = root.handlers[:], {name: logging.getLogger(name).level for name in ["root", *names]}
    written = io.StringIO()
    yield written
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def listen(log: io.StringIO, level: str) -> None:
    configure_logging(level)
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(log)


def speak(name: str) -> None:
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger(name).log(level, "said")


@pytest.mark.parametrize(
    ("chosen", "name", "heard"),
    [
        ("debug", "saiten.web", ["debug", "info", "warning", "error"]),
        ("debug", "saiten_server.providers.x", ["debug", "info", "warning", "error"]),
        ("debug", "uvicorn.error", ["info", "warning", "error"]),
        ("debug", "aiosqlite", ["warning", "error"]),
        ("debug", "a.library.of.tomorrow", ["warning", "error"]),
        ("debug", "saitensoup", ["warning", "error"]),
        ("warning", "saiten", ["warning", "error"]),
        ("warning", "uvicorn.error", ["warning", "error"]),
        ("error", "saiten", ["error"]),
        ("error", "aiosqlite", ["error"]),
    ],
)
def test_who_is_heard(log: io.StringIO, chosen: str, name: str, heard: list[str]) -> None:
    listen(log, chosen)
    speak(name)
    assert [json.loads(line)["level"] for line in log.getvalue().splitlines()] == heard


def test_a_library_that_sets_its_own_level_is_not_heard_either(log: io.StringIO) -> None:
    listen(log, "debug")
    logging.getLogger("openai").setLevel(logging.DEBUG)
    speak("openai")
    assert [json.loads(line)["level"] for line in log.getvalue().splitlines()] == ["warning", "error"]


def keys_of_records() -> Iterator[tuple[str, str]]:
    """What the records of `app` carry beside their message: file and line, and the key."""
    for path in sorted(APP.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not isinstance(node.func.value, ast.Name) or node.func.value.id != "logger":
                continue
            carried = [keyword.value for keyword in node.keywords if keyword.arg == "extra"]
            for key in (key for value in carried if isinstance(value, ast.Dict) for key in value.keys):
                if isinstance(key, ast.Constant):
                    yield f"{path.name}:{node.lineno}", str(key.value)


def test_what_a_record_carries_is_written() -> None:
    found = list(keys_of_records())
    assert len(found) > 20
    assert [(place, key) for place, key in found if key not in RECORD_FIELDS] == []


def test_the_record_of_an_administrative_act_says_who_did_what_and_where(log: io.StringIO) -> None:
    listen(log, "info")
    act = {"project": "team", "actor": "key_1", "action": "batch.erased", "target": "ba_1"}
    tell_events(AuditEvent.model_validate({**act, "at": datetime.now(UTC), "detail": {"name": "not told"}}))
    told = json.loads(log.getvalue())
    assert (told["message"], {name: told[name] for name in act}) == ("audit", act)
    assert "not told" not in log.getvalue()


def test_a_line_break_makes_no_second_record(log: io.StringIO) -> None:
    listen(log, "info")
    logging.getLogger("saiten").info("one\n{}\r\nthree")
    assert json.loads(log.getvalue())["message"] == "one\n{}\r\nthree"


def test_a_record_says_what_is_worked_on_and_its_own_word_counts(log: io.StringIO) -> None:
    listen(log, "info")
    with working_on(request_id="r1", batch_id="b1", position=3, text=RESPONSE):
        logging.getLogger("saiten.batches").info("one", extra={"position": 4, "code": "judge-unavailable"})
    logging.getLogger("saiten.batches").info("two")
    first, second = map(json.loads, log.getvalue().splitlines())
    ids = {"request_id": "r1", "batch_id": "b1", "position": 4, "code": "judge-unavailable"}
    assert first.items() >= ids.items()
    assert "text" not in first
    assert not second.keys() & ids.keys()


def fail_with(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(RESPONSE), "ValueError"),
        (KeyError(RESPONSE), "KeyError"),
        (UnicodeEncodeError("utf-8", RESPONSE, 0, 1, RESPONSE), "UnicodeEncodeError"),
        (JudgeUnavailable(words("it hangs"), said=RESPONSE), "JudgeUnavailable: it hangs"),
        (OSError(28, "No space left on device", RESPONSE), "OSError: No space left on device"),
        (
            AttributeError("'NoneType' object has no attribute 'x'"),
            "AttributeError: 'NoneType' object has no attribute",
        ),
    ],
)
def test_a_traceback_says_where_and_what_kind_and_quotes_nobody(
    log: io.StringIO, error: BaseException, told: str
) -> None:
    listen(log, "info")
    try:
        raise RuntimeError(RESPONSE) from fail_with(error)
    except RuntimeError:
        logging.getLogger("saiten").exception("unexpected error")
    entry = json.loads(log.getvalue())
    assert told in entry["traceback"]
    assert entry["traceback"].endswith("RuntimeError")
    assert entry["traceback"].count("Traceback (most recent call last)") == 2
    assert "in fail_with" in entry["traceback"]
    assert RESPONSE not in entry["traceback"]


def test_a_group_of_errors_says_each() -> None:
    written = write_traceback(ExceptionGroup(RESPONSE, [ValueError(RESPONSE), KeyError(RESPONSE)]))
    assert "ValueError" in written
    assert "KeyError" in written
    assert RESPONSE not in written


async def test_a_task_that_nobody_asked_after_says_no_text_either(log: io.StringIO) -> None:
    listen(log, "info")
    error = ValueError(RESPONSE)
    context = {"message": "Task exception was never retrieved", "exception": error, "future": repr(error)}
    asyncio.get_running_loop().default_exception_handler(context)
    assert json.loads(log.getvalue())["message"] == "Task exception was never retrieved"
    assert RESPONSE not in log.getvalue()


def read_metrics(telemetry: Telemetry) -> dict[str, float]:
    lines = generate_latest(telemetry.registry).decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_a_judgement_that_cost_nothing_is_told_all_the_same() -> None:
    telemetry = Telemetry(CollectorRegistry())
    telemetry.judged("openai", Usage(), 0.1)
    told = read_metrics(telemetry)
    assert told['saiten_judge_calls_total{judge="openai"}'] == 0
    assert told['saiten_judge_tokens_total{judge="openai",kind="completion"}'] == 0
    assert told['saiten_judge_cost_usd_total{judge="openai"}'] == 0
    assert told['saiten_judgement_seconds_count{judge="openai"}'] == 1
    telemetry.judged("openai", Usage(judge_calls=2, prompt_tokens=7, cost_usd=None), 0.1)
    told = read_metrics(telemetry)
    assert told['saiten_judge_calls_total{judge="openai"}'] == 2
    assert told['saiten_judge_tokens_total{judge="openai",kind="prompt"}'] == 7
    assert told['saiten_judge_cost_usd_total{judge="openai"}'] == 0


def test_batches_are_counted() -> None:
    telemetry = Telemetry(CollectorRegistry())
    telemetry.batch_item("scored", "")
    telemetry.batch_item("scored", "")
    telemetry.batch_item("failed", "worker-died")
    telemetry.backlog(120, 7.5, 3)
    telemetry.backlog(80, 8.5, 2)
    telemetry.holding(4)
    found = read_metrics(telemetry)
    assert found['saiten_batch_items_total{code="",status="scored"}'] == 2
    assert found['saiten_batch_items_total{code="worker-died",status="failed"}'] == 1
    assert found["saiten_batch_backlog_items"] == 80
    assert found["saiten_batch_backlog_age_seconds"] == 8.5
    assert (found["saiten_queue_jobs"], found["saiten_queue_up"]) == (2, 1)
    assert found["saiten_worker_chunks"] == 4


def test_a_queue_that_cannot_be_asked_is_told_from_an_empty_one() -> None:
    telemetry = Telemetry(CollectorRegistry())
    assert read_metrics(telemetry)["saiten_queue_up"] == 1
    telemetry.backlog(80, 8.5, 2)
    telemetry.backlog(80, 9.5, None)
    found = read_metrics(telemetry)
    assert (found["saiten_queue_jobs"], found["saiten_queue_up"]) == (2, 0)
    telemetry.backlog(0, 0.0, 0)
    found = read_metrics(telemetry)
    assert (found["saiten_queue_jobs"], found["saiten_queue_up"]) == (0, 1)


def test_what_is_paused_is_told_as_it_is_now() -> None:
    telemetry = Telemetry(CollectorRegistry())
    telemetry.paused({"judge-quota-exhausted": 2, "requested": 1})
    telemetry.paused({"requested": 3})
    found = {name: value for name, value in read_metrics(telemetry).items() if name.startswith("saiten_batches_paused")}
    assert found == {'saiten_batches_paused{reason="requested"}': 3}


def test_verdicts_are_there_before_the_first_one() -> None:
    telemetry = Telemetry(CollectorRegistry())
    telemetry.gated("inconclusive")
    telemetry.checked("moved")
    found = read_metrics(telemetry)
    verdicts = {verdict: found[f'saiten_gates_total{{verdict="{verdict}"}}'] for verdict in get_args(GateVerdict)}
    assert verdicts == {"pass": 0, "fail": 0, "inconclusive": 1}
    told = get_args(JudgeCheck.model_fields["verdict"].annotation)
    checks = {verdict: found[f'saiten_judge_checks_total{{verdict="{verdict}"}}'] for verdict in told}
    assert checks == {"steady": 0, "moved": 1, "recorded": 0}


def test_flow_control_is_asked_whenever_the_metrics_are_read() -> None:
    telemetry = Telemetry(CollectorRegistry())
    now = FlowFigures(limit=64, in_flight=60, waiting=5, closed_seconds=0.0)
    telemetry.flow(lambda: now)
    assert read_metrics(telemetry).items() >= {
        ("saiten_judge_concurrency_limit", 64.0),
        ("saiten_judge_calls_in_flight", 60.0),
        ("saiten_judge_calls_waiting", 5.0),
        ("saiten_judge_closed_seconds", 0.0),
    }
    now = FlowFigures(limit=32, in_flight=0, waiting=70, closed_seconds=12.5)
    assert read_metrics(telemetry).items() >= {
        ("saiten_judge_concurrency_limit", 32.0),
        ("saiten_judge_calls_in_flight", 0.0),
        ("saiten_judge_calls_waiting", 70.0),
        ("saiten_judge_closed_seconds", 12.5),
    }


async def test_at_debug_the_log_of_a_scored_request_has_no_text_key_or_parameter(tmp_path: Path) -> None:
    made = saiten("keys", "create", folder=tmp_path, SAITEN_LOG_LEVEL="debug")
    key = made.stdout.strip()
    body = {**BODY, "context": [{"speaker": "ユーザー", "text": CONTEXT}], "response": RESPONSE}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "order-of-goldfish"}
    async with FakeOpenAI() as fake:
        judge = {"OPENAI_API_KEY": "sk-goldfish", "OPENAI_BASE_URL": fake.base_url, "OPENAI_LOG": "debug"}
        with served(tmp_path, SAITEN_LOG_LEVEL="debug", **judge) as (url, _):
            async with httpx.AsyncClient(
                base_url=url, headers=headers, trust_env=False, timeout=LIMIT_SECONDS
            ) as client:
                answer = await client.post("/v1/evaluations", json=body)
                assert answer.status_code == 200, answer.text
                assert (await client.post("/v1/evaluations", json=body)).headers["idempotent-replayed"] == "true"
                assert (await client.get("/v1/evaluations/none")).status_code == 404
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert '"message": "request"' in log
    for secret in (CONTEXT, RESPONSE, key, "sk-goldfish", "order-of-goldfish", answer.json()["signature"]):
        assert secret not in log
        assert json.dumps(secret)[1:-1] not in log
    assert "INSERT" not in log
    assert "SELECT" not in log


def test_a_series_is_looked_up_once_and_counts_on() -> None:
    registry = CollectorRegistry()
    looked: list[tuple[object, ...]] = []

    class Counted(Counter):
        def labels(self, *values: object) -> Counter:  # type: ignore[override]
            looked.append(values)
            return super().labels(*values)

    series = Series(Counted("told", "…", ["what", "status"], registry=registry))
    for _ in range(3):
        series["this", 200].inc()
    series["that", 404].inc()
    assert looked == [("this", 200), ("that", 404)]
    text = generate_latest(registry).decode()
    assert 'told_total{status="200",what="this"} 3.0' in text
    assert 'told_total{status="404",what="that"} 1.0' in text
