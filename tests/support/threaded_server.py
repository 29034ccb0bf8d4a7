"""An HTTP server on loopback in threads of this process, for as long as a `with` block lasts."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class ThreadedServer:
    """Listens at `url` on a free port, and hands each request to the handler's class."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.let_go()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def let_go(self) -> None:
        """Lets requests go on that are held back: nobody waits for them any more."""
