"""The log: whose records it has, and that no level puts a caller's text or key into it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.adapters.telemetry import OWN, configure_logging
from tests.support.command import saiten, served
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY

CONTEXT, RESPONSE = "金魚鉢の水を替えたよ", "それは涼しそうだね"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the handler writes; the process's logging is as before afterwards."""
    root, names = logging.getLogger(), [*OWN, "uvicorn.error", "aiosqlite", "openai"]
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
        ("debug", "app.adapters.x", ["debug", "info", "warning", "error"]),
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


def test_a_line_break_makes_no_second_record(log: io.StringIO) -> None:
    listen(log, "info")
    logging.getLogger("saiten").info("one\n{}\r\nthree")
    assert json.loads(log.getvalue())["message"] == "one\n{}\r\nthree"


async def test_at_debug_the_log_of_a_scored_request_has_no_text_key_or_parameter(tmp_path: Path) -> None:
    made = saiten("keys", "create", folder=tmp_path, SAITEN_LOG_LEVEL="debug")
    key = made.stdout.strip()
    body = {**BODY, "context": [{"speaker": "ユーザー", "text": CONTEXT}], "response": RESPONSE}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "order-of-goldfish"}
    async with FakeOpenAI() as fake:
        judge = {"OPENAI_API_KEY": "sk-goldfish", "OPENAI_BASE_URL": fake.base_url, "OPENAI_LOG": "debug"}
        with served(tmp_path, SAITEN_LOG_LEVEL="debug", **judge) as (url, _):
            async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as client:
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
