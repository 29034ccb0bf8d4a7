"""A stand-in for a judge: an OpenAI-compatible endpoint on loopback that rates by one rule and costs nothing.

A conversation in which the bot says it does not understand gets the second lowest rating of every scale, any other the
highest. It shows how results travel; it says nothing of a bot.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOST = "わかりかねます"
"""What the bot says where it has not understood."""


def fill(schema: dict[str, Any], *, bad: bool) -> Any:
    """A value that follows the schema: the ratings that the rule gives, no findings, and the rule as the reason."""
    if schema["type"] == "object":
        return {name: fill(part, bad=bad) for name, part in schema["properties"].items()}
    if schema["type"] == "integer":
        levels = sorted(schema["enum"])
        return levels[1] if bad else levels[-1]
    empty: dict[str, Any] = {"array": [], "boolean": False}
    return empty.get(schema["type"], "ボットが質問を理解していない。" if bad else "会話が続いている。")


class Judge(BaseHTTPRequestHandler):
    """Answers `POST …/chat/completions`."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = asked["response_format"]["json_schema"]["schema"]
        verdict = json.dumps(fill(schema, bad=LOST in asked["messages"][-1]["content"]), ensure_ascii=False)
        message = {"role": "assistant", "content": verdict, "refusal": None}
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {"prompt_tokens": 1_000, "completion_tokens": 100},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
        """Says nothing."""


def serve() -> ThreadingHTTPServer:
    """The server on a free port of loopback; it serves once `serve_forever` is called."""
    return ThreadingHTTPServer(("127.0.0.1", 0), Judge)
