"""An OpenAI-compatible judge of next to no CPU, some 25 µs a call, so that it is never what is measured.

    python -m benchmarks.fast_judge --port 9300 --latency-ms 200

Prints its base URL once it listens. Every question is answered with the same bytes: the verdict that its JSON schema
asks for, each rating the highest of its scale, or `--text` where it asks for none. `GET /stats` says how many it
answered, how many at once, and the CPU seconds that took; `POST /knobs` changes `latency_ms`, and `{"reset": true}`
begins anew.

It does not check what it is sent, limit rates or break: `tests.support.counting_judge` does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

SCREEN = "addressesEvaluator"
"""What of a verdict says that a text addresses its evaluator. Not imported: this process loads little."""

ROOT = Path(__file__).parent.parent
REASON = "文脈に沿い、自然に話題を続けている。"
TEXT = json.dumps({"score": 4, "reason": REASON}, ensure_ascii=False)
WANTED = b'"response_format":'
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": *"([^"\\]*)"')


class Judge:
    """What all connections share: the answers by the bytes that ask for them, and what was counted."""

    def __init__(self, latency_ms: float, text: str) -> None:
        self.latency_seconds = latency_ms / 1000
        self.text = text
        self.known: list[tuple[bytes, bytes]] = []
        self.plain: dict[bytes, bytes] = {}
        self.forget()
        self.in_flight = 0

    def forget(self) -> None:
        self.requests, self.peak, self.cpu_before = 0, 0, time.process_time()

    def stats(self) -> dict[str, float]:
        return {
            "requests": self.requests,
            "peak": self.peak,
            "in_flight": self.in_flight,
            "cpu_seconds": time.process_time() - self.cpu_before,
        }

    def turn(self, body: bytes) -> None:
        knobs = json.loads(body or b"{}")
        self.latency_seconds = knobs.get("latency_ms", 1000 * self.latency_seconds) / 1000
        if knobs.get("reset"):
            self.forget()

    def answer(self, body: bytes) -> bytes:
        """The whole response. The body is read as JSON only where its schema was never seen before."""
        at = body.find(WANTED)
        if at >= 0:
            for asked, response in self.known:
                if body.startswith(asked, at):
                    return response
        found = MODEL.search(body)
        model = found[1] if found else b""
        if at < 0 and model in self.plain:
            return self.plain[model]
        return self.learn(json.loads(body), body, at)

    def learn(self, request: dict[str, Any], body: bytes, at: int) -> bytes:
        wanted = request.get("response_format") or {}
        schema = wanted.get("json_schema", {}).get("schema") if at >= 0 else None
        content = json.dumps(rate_everything(schema), ensure_ascii=False) if schema else self.text
        response = write_response(write_completion(content, request.get("model", ""), len(body) // 4))
        if at < 0:
            self.plain[str(request.get("model", "")).encode()] = response
        else:
            text = body[at + len(WANTED) :].decode()
            start = len(text) - len(text.lstrip())
            _, end = json.JSONDecoder().raw_decode(text, start)
            self.known.append((body[at : at + len(WANTED) + len(text[:end].encode())], response))
        return response


def rate_everything(schema: dict[str, Any]) -> Any:
    """The value that follows the schema, each rating the highest of its scale."""
    match schema.get("type"):
        case "object":
            asked = {name: rate_everything(part) for name, part in schema["properties"].items()}
            return asked | {SCREEN: False} if SCREEN in asked else asked
        case "integer" | "number":
            return max(schema["enum"]) if "enum" in schema else schema.get("maximum", 4)
        case "array":
            return []
        case "boolean":
            return True
        case _:
            return schema["enum"][0] if "enum" in schema else REASON


def write_completion(content: str, model: str, prompt_tokens: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
    spent = len(content) // 2
    return {
        "id": "chatcmpl-fast",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": spent,
            "total_tokens": prompt_tokens + spent,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        },
        "system_fingerprint": "fp_fast",
    }


def write_response(body: Any) -> bytes:
    sent = json.dumps(body, ensure_ascii=False).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    return head.encode() + sent


class Connection(asyncio.Protocol):
    """One connection with keep-alive. Requests have a Content-Length."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.buffer, self.pending = judge, b"", 0
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.judge.in_flight -= self.pending
        self.pending = 0

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        while (start := self.buffer.find(b"\r\n\r\n") + 4) > 3:
            found = LENGTH.search(self.buffer, 0, start)
            end = start + (int(found[1]) if found else 0)
            if len(self.buffer) < end:
                return
            request, self.buffer = self.buffer[:end], self.buffer[end:]
            self.route(request, start)

    def route(self, request: bytes, start: int) -> None:
        judge = self.judge
        if request.startswith((b"GET /stats", b"POST /knobs")):
            if request.startswith(b"POST"):
                judge.turn(request[start:])
            self.transport.write(write_response(judge.stats()))
            return
        response = judge.answer(request[start:])
        judge.requests += 1
        judge.in_flight += 1
        self.pending += 1
        judge.peak = max(judge.peak, judge.in_flight)
        if judge.latency_seconds:
            self.loop.call_later(judge.latency_seconds, self.finish, response)
        else:
            self.finish(response)

    def finish(self, response: bytes) -> None:
        if self.pending:  # else the caller has gone
            self.pending -= 1
            self.judge.in_flight -= 1
            self.transport.write(response)


async def serve(port: int, latency_ms: float, text: str) -> None:
    judge = Judge(latency_ms, text)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(judge), "127.0.0.1", port, backlog=4096, reuse_address=True
    )
    gc.freeze()
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.Event().wait()


class FastJudge:
    """The judge as a process of its own: `base_url` for clients, `stats()` and `turn(latency_ms=…, reset=True)`."""

    def __init__(self, process: subprocess.Popen[str], base_url: str) -> None:
        self.process = process
        self.base_url = base_url
        self._root = base_url.removesuffix("/v1")

    def stats(self) -> dict[str, float]:
        found: dict[str, float] = httpx.get(f"{self._root}/stats", trust_env=False).json()
        return found

    def turn(self, **knobs: Any) -> None:
        httpx.post(f"{self._root}/knobs", json=knobs, trust_env=False).raise_for_status()


@contextmanager
def fast_judge(latency_ms: float = 0.0, text: str = TEXT, port: int = 0) -> Iterator[FastJudge]:
    """A running judge, ended with the block. Raises RuntimeError where it does not come up."""
    flags = ["--port", str(port), "--latency-ms", str(latency_ms), "--text", text]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fast_judge", *flags],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    try:
        base_url = process.stdout.readline().strip() if process.stdout else ""
        if not base_url:
            raise RuntimeError("the judge did not start; is its port free?")
        yield FastJudge(process, base_url)
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--text", default=TEXT, help="the answer to a question without a JSON schema")
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
