"""A small OpenAI-compatible chat server on loopback that does what a test scripts, request by request.

In a test: `async with FakeOpenAI() as fake: fake.script(status(500), valid)`. By hand:
`python -m tests.support.fake_openai --port 9200`, which rates everything with its scale's highest value.
"""

import argparse
import asyncio
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

Request = dict[str, Any]
Choose = Callable[[list[int]], int]


@dataclass(frozen=True)
class Answer:
    """What is sent. `fault` is `hang` (nothing, ever), `trickle` (an endless body, byte by byte), `flood` (an endless
    body, as fast as it is taken), `garble` (bytes that are no HTTP) or `reset` (no answer)."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None


Behaviour = Callable[[Request], Answer]


def complete(
    request: Request,
    content: str | None,
    *,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    logprobs: list[Any] | None = None,
    **more: Any,
) -> Answer:
    """A chat completion with that content. Tokens are counted as characters; 40 of the prompt's are cached ones."""
    prompt_tokens = sum(len(message["content"]) for message in request["messages"])
    return Answer(
        body={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": f"{request['model']}-2026-09-22",
            "system_fingerprint": "fp_test",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content, "refusal": refusal},
                    "finish_reason": finish_reason,
                    "logprobs": {"content": logprobs} if logprobs is not None else None,
                }
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": len(content or ""),
                "prompt_tokens_details": {"cached_tokens": 40},
            },
        }
        | more
    )


def follow(schema: dict[str, Any], choose: Choose, reason: str) -> Any:
    """The value that follows the schema, with the chosen rating everywhere, the same reason for each, and no suspicion."""
    if schema["type"] == "object":
        return {name: follow(part, choose, reason) for name, part in schema["properties"].items()}
    if schema["type"] == "boolean":
        return False
    if schema["type"] == "array":
        return []
    return choose(schema["enum"]) if schema["type"] == "integer" else reason


def verdict_of(request: Request, choose: Choose = max, reason: str = "文脈に沿う。") -> str:
    """A valid verdict in the format that was asked for; by default every value is the highest."""
    wanted = request.get("response_format")
    if wanted:
        return json.dumps(follow(wanted["json_schema"]["schema"], choose, reason), ensure_ascii=False)
    system = request["messages"][0]["content"]
    scales = re.findall(r"^## (.+)（.+）\n.*\n段階: (-?\d+) から (-?\d+)", system, re.MULTILINE)
    lines = []
    for name, low, high in scales:
        if f"{name}（理由）: " in system:
            lines.append(f"{name}（理由）: {reason}")
        lines.append(f"{name}: 「{choose([int(low), int(high)])}」")
    return "\n".join(lines)


def valid(request: Request) -> Answer:
    """A valid verdict, with a token's probabilities a character where they are asked for."""
    content = verdict_of(request)
    return complete(request, content, logprobs=tell_tokens(content) if request.get("logprobs") else None)


def tell_tokens(content: str) -> list[dict[str, Any]]:
    """One token a character. A digit or a minus has e^-0.25; the others of 0, 1, 2, in order, have e^-2, e^-3, e^-4."""
    entries = []
    for character in content:
        rest = [other for other in "012" if other != character] if character in "-0123456789" else []
        choices = [(character, -0.25), *((other, -2.0 - index) for index, other in enumerate(rest))]
        told = [{"token": text, "logprob": value, "bytes": list(text.encode())} for text, value in choices]
        entries.append({**told[0], "top_logprobs": told})
    return entries


def say(content: str | None, **more: Any) -> Behaviour:
    """Answers with exactly that message, whatever was asked."""
    return lambda request: complete(request, content, **more)


def quote_first(request: Request) -> Answer:
    """Quotes the candidate, word for word, and then gives its verdict: the lowest values."""
    return complete(request, f"{candidate_of(request)}\n{verdict_of(request, min)}")


def quote_in_reason(request: Request) -> Answer:
    """Gives its verdict, the lowest values, with the candidate, word for word, as the reason for each."""
    return complete(request, verdict_of(request, min, candidate_of(request)))


def candidate_of(request: Request) -> str:
    """The response under evaluation, read back from between the boundary lines."""
    lines = request["messages"][-1]["content"].split("\n")
    return str(json.loads("\n".join(lines[1:-2]))["response"])


BAD = "悪い"


def judge_bad(request: Request) -> Answer:
    """The lowest ratings for a response that holds `BAD`, and the highest for any other."""
    return complete(request, verdict_of(request, min if BAD in candidate_of(request) else max))


def status(http: int, message: str = "it failed", **error: Any) -> Behaviour:
    """Answers with an error; `headers` among the keywords are the answer's own."""
    headers = error.pop("headers", {})
    body = {"error": {"message": message, "type": None, "param": None, "code": None} | error}
    return lambda _: Answer(http, body, headers)


def refuse(parameter: str, *, param: bool = True, then: Behaviour = valid) -> Behaviour:
    """HTTP 400 while the parameter is in the request, `then` without it. `param` False names it in the message only."""

    def answer(request: Request) -> Answer:
        if parameter not in request:
            return then(request)
        message = f"Unsupported parameter: '{parameter}' is not supported with this model."
        return status(400, message, param=parameter if param else None, code="unsupported_parameter")(request)

    return answer


def hang(_: Request) -> Answer:
    return Answer(fault="hang")


def trickle(_: Request) -> Answer:
    return Answer(fault="trickle")


def flood(_: Request) -> Answer:
    return Answer(fault="flood")


def flood_error(_: Request) -> Answer:
    return Answer(500, fault="flood")


async def write_endlessly(writer: asyncio.StreamWriter, status: int, piece: bytes, pause_seconds: float) -> None:
    """A body that never ends while somebody reads it."""
    writer.write(f"HTTP/1.1 {status} X\r\n\r\n".encode())
    while not writer.transport.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause_seconds)


def reset(_: Request) -> Answer:
    return Answer(fault="reset")


def garble(_: Request) -> Answer:
    return Answer(fault="garble")


class FakeOpenAI:
    """`script` queues behaviours, one a request; after them `default` answers. `requests` holds all bodies."""

    def __init__(self, default: Behaviour = valid) -> None:
        self.default = default
        self.requests: list[Request] = []
        self.authorizations: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = 0
        self.peak = 0
        self.connections = 0
        self._script: deque[Behaviour] = deque()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._port = 0

    def script(self, *behaviours: Behaviour) -> None:
        self._script.extend(behaviours)

    def drop_connections(self) -> None:
        """Closes every connection, as a server does that was restarted."""
        for writer in self._connections.values():
            writer.transport.abort()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.drop_connections()
        await asyncio.gather(*self._connections)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if task := asyncio.current_task():
            self._connections[task] = writer
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if task:
                del self._connections[task]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
        }
        request = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(request)
        self.authorizations.append(headers.get("authorization", ""))
        self.headers.append(headers)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        # Lets requests that are sent together be in flight together.
        await asyncio.sleep(0.001)
        answer = (self._script.popleft() if self._script else self.default)(request)
        if answer.fault == "hang":
            await reader.read()
        if answer.fault == "trickle":
            await write_endlessly(writer, answer.status, b" ", 0.01)
        if answer.fault == "flood":
            await write_endlessly(writer, answer.status, b" " * 65_536, 0)
        if answer.fault == "garble":
            writer.write(b"this is no HTTP\r\n\r\n")
            await writer.drain()
            writer.close()
            await reader.read()
        self.in_flight -= 1
        if answer.fault:
            writer.transport.abort()
            return False
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        lines = [f"HTTP/1.1 {answer.status} X", "content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        return True


async def serve(port: int) -> None:
    fake = FakeOpenAI()
    await fake.start(port)
    print(fake.base_url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9200)
    asyncio.run(serve(parser.parse_args().port))
