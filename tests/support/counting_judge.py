"""A fast OpenAI-compatible judge in a process of its own that counts what it is asked, and breaks on demand.

`python -m tests.support.counting_judge --port 9300 --latency-ms 200 --rpm 600`. `GET /stats` says what it saw, `POST
/knobs` changes knobs (a JSON object; `{"reset": true}` forgets what it saw). Knobs:

latency_ms   time before an answer
rpm          requests a minute, a token bucket of one second's worth; beyond it 429 with `Retry-After`. 0: none
mode         `ok`; `down` (HTTP 500); `hang` (no answer, ever); `quota`, `locked` (what a spent or refused key gets)
malformed    share of the first answers to a question that rate nothing
bad          a text: requests about it always fail, in the way that `bad_mode` says: `down`, `hang`, or `cut` (the
             connection is closed without an answer)
poison       a text: whoever asks about it is killed (SIGKILL), as by an input that crashes a native library
"""

import argparse
import asyncio
import hashlib
import json
import math
import os
import signal
import time
from pathlib import Path
from typing import Any

KNOBS: dict[str, Any] = {
    "latency_ms": 0.0,
    "rpm": 0,
    "mode": "ok",
    "malformed": 0.0,
    "bad": "",
    "bad_mode": "down",
    "poison": "",
}
REFUSALS = {
    "down": (500, "server_error"),
    "quota": (429, "insufficient_quota"),
    "locked": (401, "invalid_api_key"),
}


class Judge:
    """What all connections share."""

    def __init__(self, **knobs: Any) -> None:
        self.knobs = KNOBS | knobs
        self.forget()
        self.in_flight = 0

    def forget(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(
            ("requests", "ok", "refused", "throttled", "early", "again", "paid_again", "killed", "bad"), 0
        )
        self.seen: dict[bytes, int] = {}
        self.paid: set[bytes] = set()
        self.not_before: dict[bytes, float] = {}
        self.peak, self.first, self.last = 0, 0.0, 0.0
        self.tokens, self.refilled = max(1.0, self.knobs["rpm"] / 60), 0.0

    def stats(self) -> dict[str, Any]:
        seconds = max(0.0, self.last - self.first)
        return {
            **self.counts,
            "distinct": len(self.seen),
            "peak": self.peak,
            "in_flight": self.in_flight,
            "seconds": seconds,
        }

    def admit(self, now: float) -> float:
        """Seconds until the rate limit has a place; 0 where it has one, which is then taken."""
        rate = self.knobs["rpm"] / 60
        if not rate:
            return 0.0
        self.tokens = min(max(1.0, rate), self.tokens + (now - (self.refilled or now)) * rate)
        self.refilled = now
        if self.tokens < 1:
            return float((1 - self.tokens) / rate)
        self.tokens -= 1
        return 0.0


def rate_everything(schema: dict[str, Any]) -> Any:
    """The value that follows the schema, each rating the highest of its scale, and of two the one that is shown first."""
    if schema["type"] == "object":
        return {name: rate_everything(part) for name, part in schema["properties"].items()}
    if schema["type"] == "array":
        return []
    if schema["type"] == "boolean":
        return False
    if schema["type"] == "integer":
        return max(schema["enum"])
    return schema["enum"][0] if "enum" in schema else "文脈に沿う。"


class Connection(asyncio.Protocol):
    def __init__(self, judge: Judge) -> None:
        self.judge, self.buffer, self.pending = judge, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.judge.in_flight -= self.pending
        self.pending = 0

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n") + 4) > 3:
            head = self.buffer[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            length = int(head[at + 17 : head.find(b"\r\n", at + 2)]) if at >= 0 else 0
            if len(self.buffer) < end + length:
                return
            path, body = self.buffer.split(b" ", 2)[1], self.buffer[end : end + length]
            self.buffer = self.buffer[end + length :]
            self.route(path, body)

    def route(self, path: bytes, body: bytes) -> None:
        judge = self.judge
        if path == b"/knobs":
            knobs = json.loads(body)
            reset = knobs.pop("reset", False)
            judge.knobs.update(knobs)
            if reset or "rpm" in knobs:
                judge.forget()
        if path in {b"/knobs", b"/stats"}:
            self.send(200, judge.stats())
        else:
            self.ask(body, time.monotonic())

    def ask(self, body: bytes, now: float) -> None:
        judge, digest = self.judge, hashlib.blake2b(body, digest_size=16).digest()
        judge.first = judge.first or now
        again = judge.seen.get(digest, 0)
        judge.seen[digest] = again + 1
        judge.counts["requests"] += 1
        judge.counts["again"] += again > 0
        judge.counts["early"] += now < judge.not_before.pop(digest, 0.0) - 0.05
        if judge.knobs["poison"] and judge.knobs["poison"].encode() in body:
            judge.counts["killed"] += 1
            os.kill(find_process(self.transport.get_extra_info("peername")[1]), signal.SIGKILL)
            return
        if wait := judge.admit(now):
            judge.counts["throttled"] += 1
            judge.not_before[digest] = now + math.ceil(wait)
            self.refuse(429, "rate_limit_exceeded", f"retry-after: {math.ceil(wait)}\r\n" + self.limits())
            return
        if judge.knobs["bad"] and judge.knobs["bad"].encode() in body:
            judge.counts["bad"] += 1
            if judge.knobs["bad_mode"] == "cut":
                self.transport.close()
            elif judge.knobs["bad_mode"] == "down":
                self.refuse(*REFUSALS["down"])
            return
        judge.in_flight += 1
        judge.peak = max(judge.peak, judge.in_flight)
        self.pending += 1
        if judge.knobs["mode"] != "hang":
            asyncio.get_running_loop().call_later(
                judge.knobs["latency_ms"] / 1000, self.answer, json.loads(body), digest, again
            )

    def limits(self) -> str:
        judge = self.judge
        if not judge.knobs["rpm"]:
            return ""
        return (
            f"x-ratelimit-limit-requests: {judge.knobs['rpm']}\r\n"
            f"x-ratelimit-remaining-requests: {judge.tokens:.0f}\r\n"
        )

    def answer(self, request: dict[str, Any], digest: bytes, again: int) -> None:
        judge = self.judge
        if not self.pending:  # the caller has gone
            return
        self.pending -= 1
        judge.in_flight -= 1
        judge.last = time.monotonic()
        if judge.knobs["mode"] in REFUSALS:
            judge.counts["refused"] += 1
            self.refuse(*REFUSALS[judge.knobs["mode"]])
            return
        judge.counts["ok"] += 1
        judge.counts["paid_again"] += digest in judge.paid
        judge.paid.add(digest)
        content = json.dumps(rate_everything(request["response_format"]["json_schema"]["schema"]))
        if not again and int.from_bytes(digest[:4], "big") / 2**32 < judge.knobs["malformed"]:
            content = "申し訳ありませんが、この対話は評価できません。"
        message = {"role": "assistant", "content": content, "refusal": None}
        prompt_tokens = sum(len(part["content"]) for part in request["messages"])
        answer = {
            "id": "chatcmpl-" + digest.hex(),
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(content)},
        }
        self.send(200, answer, self.limits())

    def refuse(self, status: int, code: str, headers: str = "") -> None:
        self.send(status, {"error": {"message": code, "type": code, "param": None, "code": code}}, headers)

    def send(self, status: int, body: Any, headers: str = "") -> None:
        sent = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n{headers}\r\n"
        self.transport.write(head.encode() + sent)


def find_process(port: int) -> int:
    """The process that has this local TCP port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {line.split()[9] for line in lines if line.split()[1].endswith(f":{port:04X}")} - {"0"}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.removeprefix("socket:[").rstrip("]") in inodes and int(link.parts[2]) != os.getpid():
            return int(link.parts[2])
    raise LookupError(f"nobody has the port {port}")


async def serve(port: int, **knobs: Any) -> None:
    judge = Judge(**knobs)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(judge), "127.0.0.1", port, backlog=4096, reuse_address=True
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    for name, default in KNOBS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.Loop) as runner:
        runner.run(serve(**vars(parser.parse_args())))
