"""The system under test, as a caller talks to it: over HTTP, or as a process that answers lines.

async with HttpBot("http://127.0.0.1:9000/chat", reply="reply") as bot, bot.converse() as conversation:
    said = await conversation.answer(Turn(context=[{"speaker": "user", "text": "こんにちは"}]))
    print(said.text, said.latency_ms)
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shlex
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import httpx

from saiten.connection import wished_pause
from saiten.core.errors import SaitenError
from saiten.core.language import tell

Utterance = Mapping[str, str]
"""`speaker` and `text`."""

TIMEOUT_SECONDS = 60.0
RETRIES = 2
FIRST_PAUSE_SECONDS = 0.5
MOST_REPLY_BYTES = 1 << 20
"""A longer reply is not read to its end."""

MOST_REPLY_CHARACTERS = 8000
"""What the service takes for a response."""

BOT_STOP_SECONDS = 2.0
"""How long a process may take to end once its input is closed."""

LATE_SECONDS = 0.001
"""How long is looked for a line that the process wrote after its reply."""

TEMPLATE: Mapping[str, Any] = {
    "id": "{{id}}",
    "conversation": "{{conversation}}",
    "message": "{{last}}",
    "messages": "{{messages}}",
}
"""What a bot is sent unless the caller says otherwise."""

REPLY = "response"
"""Where the reply of a bot stands in its JSON unless the caller says otherwise."""

PLACEHOLDER = re.compile(r"\{\{(id|conversation|last|context|messages)\}\}")
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
REFUSED_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
"""Controls and halves of characters, which the service refuses."""

BLANK = re.compile(r"[\s\u200b-\u200f\u2060\ufeff]*")


class BotUnusable(SaitenError):
    """No item can be answered by this bot: the command is not there, or what describes the bot is wrong."""

    code = "bot-unusable"


class BotFailed(Exception):
    """One reply that is not to be had: `code` is stable, `detail` is one sentence.

    `pause` is set where the same request may succeed after that many seconds.
    """

    def __init__(self, code: str, detail: str, *, pause: float | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.pause = pause


@dataclass(frozen=True)
class BotTurn:
    """What the bot is to answer: the last utterance of `context`, oldest first. Who spoke last is the user."""

    context: Sequence[Utterance]
    id: str = ""
    conversation: str = ""

    def values(self) -> dict[str, Any]:
        """What stands for each placeholder of a template."""
        user = self.context[-1]["speaker"]
        roles = ["user" if one["speaker"] == user else "assistant" for one in self.context]
        return {
            "id": self.id,
            "conversation": self.conversation or self.id,
            "last": self.context[-1]["text"],
            "context": [dict(one) for one in self.context],
            "messages": [{"role": role, "content": one["text"]} for role, one in zip(roles, self.context, strict=True)],
        }


@dataclass(frozen=True)
class BotReply:
    """What the bot answered, and after how many milliseconds; pauses between attempts are not counted."""

    text: str
    latency_ms: float


class BotConversation(Protocol):
    """Turns of one conversation, one after the other."""

    async def answer(self, turn: BotTurn) -> BotReply:
        """What the bot says to it. Raises BotFailed, and BotUnusable."""
        ...


class Bot(Protocol):
    """A system under test. `name` tells bots apart that may answer differently; it holds no secret."""

    name: str

    def payload(self, turn: BotTurn) -> bytes:
        """What the bot will be sent for the turn."""
        ...

    def converse(self) -> AbstractAsyncContextManager[BotConversation]:
        """A new conversation; several may be open at once."""
        ...

    async def close(self) -> None:
        """Ends what the bot holds open."""
        ...


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with values for its placeholders: a string that is one placeholder becomes the value itself."""
    if isinstance(template, dict):
        return {key: fill(part, values) for key, part in template.items()}
    if isinstance(template, list):
        return [fill(part, values) for part in template]
    if not isinstance(template, str):
        return template
    if whole := PLACEHOLDER.fullmatch(template):
        return values[whole[1]]

    def write(found: re.Match[str]) -> str:
        value = values[found[1]]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return PLACEHOLDER.sub(write, template)


def write_payload(template: Any, turn: BotTurn) -> bytes:
    """The filled template as JSON on one line."""
    return json.dumps(fill(template, turn.values()), ensure_ascii=False).encode("utf-8", "replace")


def find_reply(body: bytes, path: str, advice: str = "") -> str:
    """The text at the dotted path of a JSON document; raises BotFailed, with the advice where it is no JSON."""
    try:
        value: Any = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BotFailed("reply-invalid", tell("the reply is not UTF-8 (byte {at})", at=error.start)) from None
    except (ValueError, RecursionError):
        html = body.lstrip()[:1] == b"<"
        told = tell("the reply is not JSON: {body}", body=quote_body(body)) + advice
        told = tell("the reply is HTML: {body}", body=quote_body(body)) if html else told
        raise BotFailed("reply-invalid", told) from None
    if isinstance(value, str):
        return check_reply(value)
    for key in path.split("."):
        if isinstance(value, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(value):
            value = value[int(key[:9])]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            there = ", ".join(list(value)[:8])[:120] if isinstance(value, dict) else type(value).__name__
            raise BotFailed(
                "reply-invalid",
                tell("the reply has no {path!r} ({there}); --reply names its place", path=path, there=there),
            )
    if not isinstance(value, str):
        code = "reply-empty" if value is None else "reply-invalid"
        raise BotFailed(code, tell("{path!r} of the reply is not a text", path=path))
    return check_reply(value)


def check_reply(text: str) -> str:
    """The text, which the service takes for a response, with plain line ends; raises BotFailed."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if found := REFUSED_CHARACTERS.search(text):
        character = f"U+{ord(found[0]):04X}"
        raise BotFailed("reply-invalid", tell("the reply holds a character that is no text ({name})", name=character))
    if BLANK.fullmatch(text):
        raise BotFailed("reply-empty", tell("the reply is empty"))
    if len(text) > MOST_REPLY_CHARACTERS:
        raise BotFailed(
            "reply-too-long",
            tell(
                "the reply has {count:,} characters; at most {maximum:,} are scored",
                count=len(text),
                maximum=MOST_REPLY_CHARACTERS,
            ),
        )
    return text


def quote_body(body: bytes) -> str:
    """The beginning of a reply, on one line."""
    return repr(" ".join(body[:240].decode("utf-8", "replace").split())[:60])


class HttpBot:
    """A bot behind an URL: one POST of the filled template a turn, the reply at the dotted path `reply` of its JSON, or
    all of a `text/plain` answer.

    Transport errors, 408, 425, 429 and 5xx are tried again `retries` times, after `Retry-After` or a growing pause.
    """

    def __init__(
        self,
        url: str,
        *,
        template: Any = TEMPLATE,
        reply: str = REPLY,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        concurrency: int = 8,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise BotUnusable(f"--bot: {error}") from None
        if parsed.userinfo:
            raise BotUnusable(tell("--bot: the URL holds a password; give it as a header from the environment"))
        self.name = json.dumps([url, template, reply], ensure_ascii=False)
        self._url, self._template, self._reply = url, template, reply
        self._timeout_seconds, self._retries, self._sleep = timeout_seconds, retries, sleep
        try:
            self._client = httpx.AsyncClient(
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity", **(headers or {})},
                timeout=None,  # noqa: S113 - each call has a limit as a whole
                limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            )
        except (ValueError, httpx.InvalidURL) as error:  # of the environment, which alone names a proxy
            raise BotUnusable(
                tell("the environment's proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used")
            ) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    def payload(self, turn: BotTurn) -> bytes:
        return write_payload(self._template, turn)

    @asynccontextmanager
    async def converse(self) -> AsyncIterator[BotConversation]:
        yield self

    async def answer(self, turn: BotTurn) -> BotReply:
        """What the bot says to it. Raises BotFailed."""
        body = self.payload(turn)
        attempt = 0
        while True:
            try:
                return await self._ask(body)
            except BotFailed as failure:
                if failure.pause is None or attempt == self._retries:
                    raise
                growing = FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(1, 1.5)  # noqa: S311 - no secret
                await self._sleep(max(failure.pause, growing))
                attempt += 1

    async def _ask(self, body: bytes) -> BotReply:
        """One attempt."""
        begun = time.perf_counter()
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._client.stream("POST", self._url, content=body) as response,
            ):
                received = await read_body(response)
        except TimeoutError:
            raise BotFailed("timeout", tell("no reply within {seconds:g} s", seconds=self._timeout_seconds)) from None
        except httpx.HTTPError as error:
            raise BotFailed("unreachable", f"{type(error).__name__}: {str(error)[:160]}", pause=0.0) from None
        latency_ms = 1000 * (time.perf_counter() - begun)
        status = response.status_code
        if status != httpx.codes.OK and not (200 <= status < 300):
            pause = wished_pause(response) if status in PASSING else None
            told = tell("the bot answered {status}: {body}", status=status, body=quote_body(received))
            raise BotFailed(f"status-{status}", told, pause=pause)
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/plain":
            return BotReply(check_reply(decode_reply(received)), latency_ms)
        return BotReply(find_reply(received, self._reply), latency_ms)


async def read_body(response: httpx.Response) -> bytes:
    """The body; raises BotFailed where it is too long."""
    received = bytearray()
    async for piece in response.aiter_bytes():
        received += piece
        if len(received) > MOST_REPLY_BYTES:
            raise BotFailed(
                "reply-too-long", tell("the reply has more than {maximum:,} bytes", maximum=MOST_REPLY_BYTES)
            )
    return bytes(received)


def decode_reply(body: bytes) -> str:
    """The text of UTF-8; raises BotFailed."""
    try:
        return body.decode("utf-8-sig")  # .NET begins texts with a byte order mark
    except UnicodeDecodeError as error:
        raise BotFailed("reply-invalid", tell("the reply is not UTF-8 (byte {at})", at=error.start)) from None


class ProcessBot:
    """A command that reads one line a turn from standard input and answers one line on standard output.

    Lines are JSON, filled from `template`; with `plain` they are text: the last utterance, and the reply. Each open
    conversation has a process for itself. One that fails is killed, with all that it started, and another one is
    started for what follows.
    """

    def __init__(
        self,
        command: str,
        *,
        template: Any = TEMPLATE,
        reply: str = REPLY,
        plain: bool = False,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise BotUnusable(f"--bot {command!r}: {error}") from None
        if not self._arguments or shutil.which(self._arguments[0]) is None:
            name = (self._arguments or [""])[0]
            if "://" in name:  # not shown: it may hold a password
                raise BotUnusable(tell("--bot: this is not a URL of a bot; write it like http://127.0.0.1:9000/chat"))
            raise BotUnusable(tell("--bot: there is no command {name!r}", name=name))
        self.name = json.dumps([command, template, reply, plain], ensure_ascii=False)
        self._template, self._reply, self._plain = template, reply, plain
        self._timeout_seconds = timeout_seconds
        self._idle: list[LineProcess] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().end()

    def payload(self, turn: BotTurn) -> bytes:
        if self._plain:
            return " ".join(turn.context[-1]["text"].split()).encode("utf-8", "replace")
        return write_payload(self._template, turn)

    @asynccontextmanager
    async def converse(self) -> AsyncIterator[BotConversation]:
        conversation = ProcessConversation(self, self._idle.pop() if self._idle else None)
        try:
            yield conversation
        finally:
            if conversation.process is not None:
                self._idle.append(conversation.process)

    async def start(self) -> LineProcess:
        """Another process of the command."""
        try:
            return await LineProcess.start(self._arguments)
        except OSError as error:
            raise BotUnusable(
                tell(
                    "--bot: {name!r} cannot be started: {why}",
                    name=self._arguments[0],
                    why=tell(error.strerror or ""),
                )
            ) from None

    async def ask(self, process: LineProcess, turn: BotTurn) -> BotReply:
        """One turn. Raises BotFailed, after which the process is of no use."""
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                line = await process.ask(self.payload(turn))
        except TimeoutError:
            told = tell("no reply within {seconds:g} s", seconds=self._timeout_seconds)
            if process.pending:
                told += tell("; it wrote {count:,} bytes without ending the line", count=len(process.pending))
            raise BotFailed("timeout", told) from None
        latency_ms = 1000 * (time.perf_counter() - begun)
        before, process.last_id = process.last_id, turn.id
        if self._plain:
            return BotReply(check_reply(decode_reply(line)), latency_ms)
        if before and before != turn.id and id_of(line) == before:
            raise BotFailed(
                "reply-of-another",
                tell("the reply is that of item {item!r}: more than one line a turn?", item=before[:64]),
            )
        return BotReply(find_reply(line, self._reply, tell("; if it answers lines of text, add --plain")), latency_ms)


def id_of(line: bytes) -> str | None:
    """The id that a reply gives back; None where it gives none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


@dataclass
class ProcessConversation:
    """Turns that one process answers; another takes its place after a failure."""

    bot: ProcessBot
    process: LineProcess | None

    async def answer(self, turn: BotTurn) -> BotReply:
        if self.process is not None and not await self.process.is_ready():
            await self._drop()
        process = self.process = self.process or await self.bot.start()
        try:
            return await self.bot.ask(process, turn)
        except BaseException:
            await self._drop()
            raise

    async def _drop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            await process.kill()


@dataclass
class LineProcess:
    """A running command that answers lines. `pending` is what it wrote that no one asked for yet."""

    process: asyncio.subprocess.Process
    pending: bytearray = field(default_factory=bytearray)
    last_id: str = ""

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> Self:
        """Starts the command, in a group of its own so that all it starts can be ended. Raises OSError."""
        return cls(
            await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
                limit=1 << 16,
                start_new_session=True,
            )
        )

    async def is_ready(self) -> bool:
        """Whether it runs, and wrote nothing that no one asked for."""
        if self.process.stdout is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LATE_SECONDS):
                    self.pending += await self.process.stdout.read(1 << 16)
        return self.process.returncode is None and not self.pending

    async def ask(self, line: bytes) -> bytes:
        """The line that answers this one, without its end. Raises BotFailed."""
        source, target = self.process.stdin, self.process.stdout
        if source is None or target is None:
            raise BotFailed("ended", tell("the process has no pipes"))
        with suppress(ConnectionError):  # what it said before it ended is read below
            source.write(line + b"\n")
            await source.drain()
        while b"\n" not in self.pending:
            if len(self.pending) > MOST_REPLY_BYTES:
                raise BotFailed(
                    "reply-too-long",
                    tell("the reply has more than {maximum:,} bytes without a line's end", maximum=MOST_REPLY_BYTES),
                )
            piece = await target.read(1 << 16)
            if not piece:
                return await self._finish()
            self.pending += piece
        reply, _, rest = bytes(self.pending).partition(b"\n")
        self.pending[:] = rest
        if rest.strip():
            raise BotFailed(
                "reply-invalid", tell("the process answered with more than one line; its log belongs on stderr")
            )
        self.pending.clear()
        return reply.removesuffix(b"\r")

    async def _finish(self) -> bytes:
        """What the process said last without ending the line; raises BotFailed where it ended without a word."""
        code = await self.process.wait()
        if self.pending.strip():
            reply = bytes(self.pending)
            self.pending.clear()
            return reply
        if code < 0:
            raise BotFailed("ended", tell("signal {number} ended the process before it replied", number=-code))
        raise BotFailed("ended", tell("the process ended with exit code {code} and no reply", code=code))

    async def end(self) -> None:
        """Closes its input, and kills it where it does not end by itself."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), BOT_STOP_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """Kills it, and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        # asyncio's `wait` also waits for the end of the output, of which by itself it reads no more than its limit.
        # What the command started in a group of its own may hold the output open.
        with suppress(TimeoutError):
            async with asyncio.timeout(BOT_STOP_SECONDS):
                while self.process.stdout is not None and await self.process.stdout.read(1 << 16):
                    pass
                await self.process.wait()
