"""HTTP as bytes on a socket: what no client library would send, and exactly what came back."""

import socket
from dataclasses import dataclass

SECONDS = 240.0


@dataclass(frozen=True)
class Answer:
    """One answer: status, headers by their lower-case names, body. Status 0: the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes


CLOSED = Answer(0, {}, b"")


class RawConnection:
    """A connection to a server on loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._received = b""

    def send(self, data: bytes) -> None:
        """Sends it all, or as much as the server takes before it closes."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            return

    def read_answer(self, *, head: bool = False, seconds: float = SECONDS) -> Answer:
        """The next answer. Raises TimeoutError where none comes. `head`: it has no body, whatever it announces."""
        self._socket.settimeout(seconds)
        while b"\r\n\r\n" not in self._received:
            if not self._receive():
                return CLOSED
        top, self._received = self._received.split(b"\r\n\r\n", 1)
        line, *fields = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (field.split(":", 1) for field in fields)}
        status = int(line.split(" ")[1])
        if status < 200:
            return self.read_answer(head=head, seconds=seconds)
        return Answer(status, headers, b"" if head else self._read_body(headers))

    def close(self) -> None:
        self._socket.close()

    def _read_body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            length = int(headers["content-length"])
            while len(self._received) < length and self._receive():
                pass
            body, self._received = self._received[:length], self._received[length:]
            return body
        while not self._received.endswith(b"0\r\n\r\n") and self._receive():
            pass
        body, self._received = self._received, b""
        return body

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            return False
        self._received += data
        return bool(data)
