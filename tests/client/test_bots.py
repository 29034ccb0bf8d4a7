"""Bots as callers talk to them: a real process, and a real HTTP server."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from saiten.bots import BotFailed, BotTurn, BotUnusable, HttpBot, LineProcess, ProcessBot, fill, find_reply
from tests.support.bots import HttpSystem, reply_json, write_bot
from tests.support.waiting import LIMIT_SECONDS

USER, BOT = "お客様", "ボット"


def turn(text: str, item: str = "t1") -> BotTurn:
    return BotTurn(
        [{"speaker": USER, "text": "前"}, {"speaker": BOT, "text": "中"}, {"speaker": USER, "text": text}], id=item
    )


async def say(bot: HttpBot | ProcessBot, text: str, item: str = "t1") -> str:
    async with bot.converse() as conversation:
        try:
            return (await conversation.answer(turn(text, item))).text
        except BotFailed as failure:
            return failure.code


def test_a_template_is_filled_with_values_and_texts() -> None:
    template = {
        "q": "{{last}}",
        "all": ["{{messages}}"],
        "note": "item {{id}}: {{context}}",
        "n": 1,
        "x": "{{unknown}}",
    }
    filled = fill(template, turn("今").values())
    assert filled["q"] == "今"
    assert filled["all"][0] == [
        {"role": "user", "content": "前"},
        {"role": "assistant", "content": "中"},
        {"role": "user", "content": "今"},
    ]
    assert filled["note"].startswith('item t1: [{"speaker": "お客様"')
    assert (filled["n"], filled["x"]) == (1, "{{unknown}}")
    # A placeholder in what was said is not filled again.
    assert fill("{{last}}", turn("{{id}}").values()) == "{{id}}"


async def test_a_process_answers_and_a_failure_costs_one_item_only(tmp_path: Path) -> None:
    expected = {
        "こんにちは": "「こんにちは」ですね。",
        "die": "ended",
        "bytes": "reply-invalid",
        "html": "reply-invalid",
        "empty": "reply-empty",
        "null": "reply-empty",
        "other": "reply-invalid",
        "half": "reply-invalid",
        "long": "reply-too-long",
        "broad": "reply-too-long",
        "twice": "reply-invalid",
        "last words": "「last words」ですね。",
        "windows": "「windows」ですね。",
        "text": "plain",
        "再び": "「再び」ですね。",
    }
    async with ProcessBot(write_bot(tmp_path)) as bot:
        assert {text: await say(bot, text) for text in expected} == expected


@pytest.mark.parametrize("text", ["hang", "no newline"])
async def test_a_process_that_hangs_is_killed_with_its_children(tmp_path: Path, text: str) -> None:
    async with ProcessBot(write_bot(tmp_path), timeout_seconds=0.7) as bot:
        assert await say(bot, text) == "timeout"


async def test_a_process_that_writes_more_than_is_read_can_be_killed() -> None:
    """asyncio stops reading at its limit, and its `wait` waits for the output's end."""
    process = await LineProcess.start([sys.executable, "-c", "import os\nwhile True: os.write(1, b'x' * 65536)"])
    async with asyncio.timeout(LIMIT_SECONDS):
        while not getattr(process.process.stdout, "_paused"):  # noqa: B009 - it has no public name
            await asyncio.sleep(0.01)
        await process.kill()
    assert process.process.returncode == -signal.SIGKILL


async def test_a_line_too_many_is_not_taken_for_the_next_answer(tmp_path: Path) -> None:
    # The second line comes late: only the id tells, as the reply of the item before.
    script = """
import json, sys
before = None
for line in sys.stdin:
    asked = json.loads(line)
    if before is None:
        before = asked["id"]
        print(json.dumps({"id": before, "response": "first"}), flush=True)
    else:
        print(json.dumps({"id": before, "response": "late"}), flush=True)
"""
    async with ProcessBot(write_bot(tmp_path, script)) as bot:
        assert await say(bot, "a", "1") == "first"
        assert await say(bot, "b", "2") == "reply-of-another"


async def test_plain_lines(tmp_path: Path) -> None:
    script = "import sys\nfor line in sys.stdin:\n    print('はい、' + line.strip(), flush=True)\n"
    async with ProcessBot(write_bot(tmp_path, script), plain=True) as bot:
        assert await say(bot, "二行\nの文") == "はい、二行 の文"


async def test_a_conversation_keeps_its_process(tmp_path: Path) -> None:
    script = """
import json, sys
seen = []
for line in sys.stdin:
    seen.append(json.loads(line)["message"])
    print(json.dumps({"response": " ".join(seen)}), flush=True)
"""
    async with ProcessBot(write_bot(tmp_path, script)) as bot, bot.converse() as one, bot.converse() as other:
        assert (await one.answer(turn("a"))).text == "a"
        assert (await other.answer(turn("b"))).text == "b"
        assert (await one.answer(turn("c"))).text == "a c"


@pytest.mark.parametrize("command", ["", "no-such-command-of-anyone", "python 'open"])
def test_a_command_that_is_not_there(command: str) -> None:
    with pytest.raises(BotUnusable):
        ProcessBot(command)


def test_a_proxy_that_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nothing://user:secret@proxy")
    with pytest.raises(BotUnusable) as caught:
        HttpBot("http://127.0.0.1:1/")
    assert "HTTP_PROXY" in caught.value.detail
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1/", "http://[::1"])
def test_an_url_that_will_not_do(url: str) -> None:
    with pytest.raises(BotUnusable) as caught:
        HttpBot(url)
    assert "secret" not in caught.value.detail


def test_a_byte_order_mark_is_no_part_of_a_reply() -> None:
    assert find_reply('\ufeff{"response": "はい"}'.encode(), "response") == "はい"


async def no_pause(seconds: float) -> None:
    pass


def answer(body: Any, times: int) -> tuple[int, bytes, dict[str, str]] | None:
    said = body["message"]
    if said == "hold":
        return None
    if said == "busy":
        return reply_json({}, 503) if times < 3 else reply_json({"data": [{"text": "やっと"}]})
    return {
        "broken": reply_json({}, 500),
        "wrong": reply_json({}, 404),
        "moved": (302, b"", {"Location": "/"}),
        "html": (200, b"<html></html>", {"Content-Type": "text/html"}),
        "huge": (200, b"x" * (1 << 21), {"Content-Type": "application/json"}),
        "plain": (200, "そのまま\r\nです".encode(), {"Content-Type": "text/plain; charset=utf-8"}),
        "bytes": (200, b"\xff", {"Content-Type": "text/plain"}),
        "deep": (200, b"[" * 100_000, {"Content-Type": "application/json"}),
        "other": reply_json({"data": []}),
    }.get(said) or reply_json({"data": [{"text": f"「{said}」"}]})


async def test_http(tmp_path: Path) -> None:
    expected = {
        "やあ": "「やあ」",
        "busy": "やっと",
        "broken": "status-500",
        "wrong": "status-404",
        "moved": "status-302",
        "html": "reply-invalid",
        "huge": "reply-too-long",
        "plain": "そのまま\nです",
        "bytes": "reply-invalid",
        "deep": "reply-invalid",
        "other": "reply-invalid",
    }
    with HttpSystem(answer) as system:
        async with HttpBot(system.url, reply="data.0.text", headers={"X-Key": "k"}, sleep=no_pause) as bot:
            assert {text: await say(bot, text) for text in expected} == expected
        tries = {body["message"]: times for key, times in system.times.items() if (body := json.loads(key))}
    assert (tries["busy"], tries["broken"], tries["wrong"]) == (3, 3, 1)
    assert system.asked[0]["messages"][-1] == {"role": "user", "content": "やあ"}
    assert {headers["X-Key"] for headers in system.headers} == {"k"}


async def test_http_that_never_answers_and_http_that_is_not_there() -> None:
    with HttpSystem(answer) as system:
        async with HttpBot(system.url, timeout_seconds=0.2) as bot:
            assert await say(bot, "hold") == "timeout"
        url = system.url
    async with HttpBot(url, sleep=no_pause) as bot:
        assert await say(bot, "やあ") == "unreachable"
