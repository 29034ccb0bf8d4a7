"""What a Kubernetes Service does for its pods, as a small stand-in: TCP, readiness, nothing else."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpx

from saiten_server.platform.tasks import end_tasks

PROBE_SECONDS = 1.0
PIECE_BYTES = 65_536
FAILURES = 3


class Balancer:
    """Gives each new connection to one of the replicas that were ready when last asked, at random.

    Like kube-proxy it knows connections, not requests: one sticks to its replica until either end closes it, whether or
    not the replica is still ready, and nothing is ever sent twice. A replica is asked `/readyz` each second. It is out
    once it says that it is stopping, as a pod is once it is being deleted, or at the third failure on end, as by the
    default of a probe; and in again with a 200. `refused` counts connections for which no replica was ready or to be
    reached.
    """

    def __init__(self, ports: dict[str, int]) -> None:
        self._ports = ports
        self._chance = random.Random(0)
        self._failures = dict.fromkeys(ports, FAILURES)
        self._open: set[asyncio.StreamWriter] = set()
        self._prober: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self.refused = 0
        self.connections = 0

    @property
    def base_url(self) -> str:
        if self._server is None:
            raise RuntimeError("the balancer does not listen")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        await self._probe()
        self._prober = asyncio.create_task(self._keep_probing())
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        if self._prober is not None:
            await end_tasks([self._prober])
        for writer in self._open:
            writer.close()

    async def _keep_probing(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await self._probe()

    async def _probe(self) -> None:
        """Each probe on a connection of its own, as the kubelet's are."""
        await asyncio.gather(*map(self._ask, self._ports))

    async def _ask(self, name: str) -> None:
        failures = self._failures[name] + 1
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
                answer = await client.get(f"http://127.0.0.1:{self._ports[name]}/readyz")
            if answer.status_code == 200:
                failures = 0
            elif answer.json()["code"] == "stopping":
                failures = FAILURES
        except httpx.HTTPError:
            pass
        self._failures[name] = failures

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        ready = [name for name, failures in self._failures.items() if failures < FAILURES]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._ports[self._chance.choice(ready)])
        except (IndexError, OSError):
            self.refused += 1
            writer.close()
            return
        pair = {writer, back}
        self._open |= pair
        # Cancelled when the run is over: asyncio would report that as an error of the callback.
        with suppress(asyncio.CancelledError):
            await asyncio.gather(carry(reader, back), carry(there, writer))
        self._open -= pair


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes on what comes, up to the end; then closes the other side, as an end of the connection itself would."""
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()
