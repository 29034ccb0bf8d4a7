"""A judge and a DeepL in one, on loopback, that say back whatever they were sent: texts, and the key."""

import json
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.counting_judge import rate_everything
from tests.support.threaded_server import ThreadedServer
from tests.support.waiting import LIMIT_SECONDS

MODES = ("ok", "malformed", "locked", "down", "refuses", "hang")
STATUSES = {"locked": 401, "down": 500, "refuses": 400}


class EchoingUpstream(ThreadedServer):
    """`mode` says what comes back: a right answer, one that is none and echoes the question, an error that quotes
    question and key with 401, 500 or 400, or nothing until the end."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.asked: set[tuple[str, str]] = set()
        self.calls = 0
        self._release = threading.Event()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                what = "judge" if self.path.endswith("/chat/completions") else "translator"
                upstream.asked.add((what, upstream.mode))
                upstream.calls += 1
                if upstream.mode == "hang":
                    upstream._release.wait(LIMIT_SECONDS)
                    self.close_connection = True
                    return
                self.answer(*upstream.reply(what, body.decode(), self.headers["Authorization"]))

            def answer(self, status: int, body: Any) -> None:
                content = json.dumps(body, ensure_ascii=False).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        super().__init__(Handler)

    def let_go(self) -> None:
        self._release.set()

    def reply(self, what: str, body: str, authorization: str) -> tuple[int, Any]:
        request = json.loads(body)
        if self.mode in STATUSES:
            said = f"refused {authorization}: {json.dumps(request, ensure_ascii=False)}"
            code = "invalid_api_key" if self.mode == "locked" else "bad"
            return STATUSES[self.mode], {"message": said, "error": {"message": said, "code": code, "type": code}}
        return 200, self.judge(request) if what == "judge" else self.translate(request)

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(request["messages"], ensure_ascii=False)
        if self.mode == "ok":
            content = json.dumps(rate_everything(request["response_format"]["json_schema"]["schema"]))
        message = {"role": "assistant", "content": content, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 10},
        }

    def translate(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.mode == "malformed":
            return {"translations": [], "message": json.dumps(request, ensure_ascii=False)}
        texts = [
            {"detected_source_language": "JA", "text": f"[EN] {text}", "billed_characters": 1}
            for text in request["text"]
        ]
        return {"translations": texts}
