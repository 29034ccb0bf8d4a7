"""Small systems under test: a process that answers lines as its first argument says, and an HTTP server."""

import json
import shlex
import sys
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.support.threaded_server import ThreadedServer

SCRIPT = """
import json, os, sys, time
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    asked = json.loads(line)
    said = asked["message"]
    reply = json.dumps({"id": asked["id"], "response": f"「{said}」ですね。"}, ensure_ascii=False).encode()
    if said == "die":
        sys.exit(7)
    if said == "hang":
        if os.path.exists("reached"):
            open("reached", "w").close()
        time.sleep(3600)
    if said == "broad":
        while True:
            out.write(b"x" * 65536)
    if said == "last words":
        out.write(reply)
        sys.exit()
    if said == "no newline":
        out.write(reply)
        out.flush()
        time.sleep(3600)
    replies = {
        "bytes": b"\\xff\\xfe\\n",
        "html": b"<html>503</html>\\n",
        "empty": b'{"response": " "}\\n',
        "null": b'{"response": null}\\n',
        "other": b'{"answer": "x"}\\n',
        "half": b'{"response": "\\\\ud800"}\\n',
        "long": json.dumps({"response": "a" * 8001}).encode() + b"\\n",
        "twice": reply + b"\\n" + reply + b"\\n",
        "windows": reply + b"\\r\\n",
        "text": b'"plain"\\n',
    }
    out.write(replies.get(said, reply + b"\\n"))
    out.flush()
"""


def write_bot(folder: Path, script: str = SCRIPT, name: str = "bot.py") -> str:
    """The command of a process bot."""
    (folder / name).write_text(script, encoding="utf-8")
    return shlex.join([sys.executable, "-S", str(folder / name)])


def reply_json(body: Any, status: int = 200, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps(body, ensure_ascii=False).encode(), {"Content-Type": "application/json", **headers}


class HttpSystem(ThreadedServer):
    """Answers each POST as `answer` says: status, body, headers. Keeps what was asked."""

    def __init__(self, answer: Callable[[Any, int], tuple[int, bytes, dict[str, str]] | None]) -> None:
        self.asked: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.times: Counter[str] = Counter()
        self.held = threading.Event()
        system = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                system.asked.append(body)
                system.headers.append(dict(self.headers))
                key = json.dumps(body, sort_keys=True)
                system.times[key] += 1
                found = answer(body, system.times[key])
                if found is None:  # never, until the test is over
                    system.held.wait()
                    return
                status, text, headers = found
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                pass

        super().__init__(Handler)

    def let_go(self) -> None:
        self.held.set()
