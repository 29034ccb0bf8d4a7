"""A TCP proxy whose connections a test cuts, as a network does."""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes bytes on to the service at `target`. `heads` holds the first line of each request.

    `breaks` holds, by a part of such a line, after how many bytes of its answer the connection is cut, once.
    """

    def __init__(self, target: str) -> None:
        self._port = urlsplit(target).port
        self._writers: set[asyncio.StreamWriter] = set()
        self.heads: list[str] = []
        self.breaks: dict[str, int] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Aborts every connection."""
        for writer in self._writers:
            writer.transport.abort()

    def asked(self, path: str) -> int:
        """How many requests named this path."""
        return sum(path in head for head in self.heads)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, far_writer}
        left = [math.inf]  # bytes of the answer that are still let through

        def ask(piece: bytes) -> bytes:
            head = piece.split(b"\r\n")[0].decode("latin-1")
            if head.endswith("HTTP/1.1"):
                self.heads.append(head)
                left[0] = next((self.breaks.pop(part) for part in [*self.breaks] if part in head), math.inf)
            return piece

        def answer(piece: bytes) -> bytes:
            left[0] -= len(piece)
            return piece if left[0] >= 0 else piece[: int(left[0])]

        try:
            await asyncio.gather(pass_on(reader, far_writer, ask), pass_on(far_reader, writer, answer))
        finally:
            self._writers -= {writer, far_writer}


async def pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, through: Callable[[bytes], bytes]
) -> None:
    """Passes bytes on; cuts the connection where `through` returns fewer than it was given."""
    try:
        while piece := await reader.read(65_536):
            passed = through(piece)
            writer.write(passed)
            await writer.drain()
            if len(passed) < len(piece):
                return
    except ConnectionError:
        pass
    finally:
        writer.close()
