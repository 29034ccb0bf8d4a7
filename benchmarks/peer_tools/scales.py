"""A judge that weighs what it is sent: calls, and characters and tokens of their messages. It is never timed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.fast_judge import rate_everything, write_completion


@dataclass
class Scales:
    """What all calls together came to. Without a tokenizer, `count`, there are no tokens."""

    base_url: str
    text: str
    count: Callable[[str], int] | None
    calls: int = 0
    characters: int = 0
    tokens: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def weigh(self, request: dict[str, Any]) -> dict[str, Any]:
        """Counts a question, and answers it as `fast_judge` does."""
        with self.lock:
            texts = [read_text(one["content"]) for one in request["messages"]]
            self.calls += 1
            self.characters += sum(map(len, texts))
            self.tokens += sum(map(self.count, texts)) if self.count else 0
        schema = ((request.get("response_format") or {}).get("json_schema") or {}).get("schema")
        content = json.dumps(rate_everything(schema), ensure_ascii=False) if schema else self.text
        return write_completion(content, request["model"], 1)


def read_text(content: Any) -> str:
    """Of a message: a text, or parts with texts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


@contextmanager
def open_scales(text: str, count: Callable[[str], int] | None = None) -> Iterator[Scales]:
    """Running scales; questions without a JSON schema are answered with `text`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent = json.dumps(scales.weigh(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scales = Scales(f"http://127.0.0.1:{server.server_port}/v1", text, count)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield scales
    finally:
        server.shutdown()
        server.server_close()
