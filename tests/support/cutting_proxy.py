"""A TCP proxy whose connections a test cuts, as a network does."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes bytes on to the service at `target`. `seen` holds the first line and headers of each request's head."""

    def __init__(self, target: str) -> None:
        self._port = urlsplit(target).port
        self._writers: set[asyncio.StreamWriter] = set()
        self.heads: list[str] = []
        self.refusing = False

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
        if self.refusing:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pass_on(reader, far_writer, heads=True), self._pass_on(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, heads: bool = False
    ) -> None:
        try:
            while piece := await reader.read(65_536):
                if heads:
                    self.heads.append(piece.split(b"\r\n")[0].decode("latin-1"))
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
