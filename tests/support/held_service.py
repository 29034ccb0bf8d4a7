"""A service over HTTP that gives one answer to every evaluation, in threads of this process, and may keep some back."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HeldService:
    """Answers `at_once` evaluations, and the others when `released` is set; None holds none. GET is `{}`; all is valid.

    `holds` is set when the first is kept back.
    """

    def __init__(self, content: bytes, status: int = 200, at_once: int | None = None) -> None:
        self.released = threading.Event()
        self.holds = threading.Event()
        self._content, self._status = content, status
        self._places = None if at_once is None else threading.Semaphore(at_once)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self) -> bytes:
        if self._places is not None and not self._places.acquire(blocking=False):
            self.holds.set()
            self.released.wait()
        return self._content

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(200, b"{}")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path.startswith("/v1/validations/"):
                    self.reply(200, json.dumps({"clusters": [None] * body.count(b"\n")}).encode())
                    return
                self.reply(service._status, service.answer())

            def reply(self, status: int, content: bytes) -> None:
                try:
                    self.send_response(status)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                return

        return Handler


@contextmanager
def held_service(content: bytes, status: int = 200, at_once: int | None = None) -> Iterator[HeldService]:
    """A HeldService that listens."""
    service = HeldService(content, status, at_once)
    thread = threading.Thread(target=service.server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        service.released.set()
        service.server.shutdown()
        thread.join()
        service.server.server_close()
