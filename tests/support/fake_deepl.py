"""A DeepL of our own on a free loopback port: `POST /v2/translate` as the SDK sends it.

It answers "[EN] " and the text, keeps every request, and is at least as strict as DeepL: more than 50 texts are 400,
more than 100 KiB (what DeepL's own mock server takes; DeepL itself takes 128) are 413, a missing User-Agent is 400.
`script` holds what the next requests get instead of an answer.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.support.threaded_server import ThreadedServer

KEY = "fake-deepl-key:fx"
BODY_BYTES = 100 * 1024
TEXTS = 50
SOURCE_LANGUAGES = {"JA", "KO"}
TARGET_LANGUAGES = {"EN-US", "EN-GB"}


def pretend(text: str) -> str:
    """What the fake says `text` is in English."""
    return f"[EN] {text}"


@dataclass(frozen=True)
class Seen:
    """One request as it arrived. `socket` is the client's port, so equal ones shared a connection."""

    texts: list[str]
    context: str | None
    source_language: str | None
    target_language: str | None
    body_bytes: int
    headers: Mapping[str, str]
    socket: int


@dataclass(frozen=True)
class Answer:
    """A scripted reply. `hangs` waits for `FakeDeepL.release`, then hangs up; `drops` hangs up at once; `drips` sends
    a reply byte by byte that never ends, until the same `release`."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    hangs: bool = False
    drops: bool = False
    drips: bool = False


def translations(*texts: object) -> Answer:
    """A 200 with these translations whatever was asked."""
    said = [{"detected_source_language": "JA", "text": text, "billed_characters": 1} for text in texts]
    return Answer(body=json.dumps({"translations": said}))


class FakeDeepL(ThreadedServer):
    """`with FakeDeepL() as deepl:` listens at `deepl.url` until the block ends."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: deque[Answer] = deque()
        self.always: Answer | None = None
        self.character_limit: int | None = None
        self.at_once = 0
        self.most_at_once = 0
        self.release = threading.Event()
        self.hanging = threading.Semaphore(0)
        self.before_answer: Callable[[], object] = lambda: None
        self._characters = 0
        self._lock = threading.Lock()
        super().__init__(self._make_handler())

    @property
    def texts(self) -> list[str]:
        """All texts that were sent, in order."""
        return [text for seen in self.seen for text in seen.texts]

    def let_go(self) -> None:
        self.release.set()

    def answer(self, seen: Seen) -> Answer:
        """What this request gets: refused, scripted or translated, in this order."""
        if (refusal := self._refuse(seen)) is not None:
            return refusal
        with self._lock:
            if self.script:
                return self.script.popleft()
            if self.always is not None:
                return self.always
            self._characters += sum(map(len, seen.texts))
            if self.character_limit is not None and self._characters > self.character_limit:
                return Answer(456, body='{"message": "Quota for this billing period has been exceeded."}')
        said = [
            {"detected_source_language": seen.source_language, "text": pretend(text), "billed_characters": len(text)}
            for text in seen.texts
        ]
        return Answer(body=json.dumps({"translations": said}))

    def _refuse(self, seen: Seen) -> Answer | None:
        if seen.headers.get("authorization") != f"DeepL-Auth-Key {KEY}":
            return Answer(403)
        if not seen.headers.get("user-agent"):
            return Answer(400, body='{"message": "User-Agent header missing."}')
        if seen.body_bytes > BODY_BYTES:
            return Answer(413, body='{"message": "Request Entity Too Large"}')
        if not 1 <= len(seen.texts) <= TEXTS:
            return Answer(400, body='{"message": "Too many texts, or none."}')
        if seen.source_language not in SOURCE_LANGUAGES or seen.target_language not in TARGET_LANGUAGES:
            return Answer(400, body="{\"message\": \"Value for 'source_lang' or 'target_lang' not supported.\"}")
        return None

    def _take(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.before_answer()
            answer = self.answer(seen)
            if answer.hangs:
                self.hanging.release()
                self.release.wait()
            return answer
        finally:
            with self._lock:
                self.at_once -= 1

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.path != "/v2/translate":
                    self._send(Answer(404))
                    return
                self._send(fake._take(read_request(body, self.headers.items(), self.client_address[1])))

            def _send(self, answer: Answer) -> None:
                if answer.hangs or answer.drops:
                    self.close_connection = True
                    return
                if answer.drips:
                    self._drip()
                    return
                payload = answer.body.encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def _drip(self) -> None:
                self.close_connection = True
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                with suppress(OSError):
                    while not fake.release.wait(0.01):
                        self.wfile.write(b" ")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Quiet."""

        return Handler


def read_request(body: bytes, headers: Any, socket: int) -> Seen:
    """The request's fields, from JSON or from a form."""
    lowered = {name.lower(): value for name, value in headers}
    if lowered.get("content-type", "").startswith("application/json"):
        fields = json.loads(body)
    else:
        form = parse_qs(body.decode(), keep_blank_values=True)
        fields = {name: values if name == "text" else values[0] for name, values in form.items()}
    texts = fields.get("text", [])
    return Seen(
        texts=[texts] if isinstance(texts, str) else texts,
        context=fields.get("context"),
        source_language=fields.get("source_lang"),
        target_language=fields.get("target_lang"),
        body_bytes=len(body),
        headers=lowered,
        socket=socket,
    )
