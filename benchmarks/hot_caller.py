"""Sends requests over kept connections as fast as they are answered: the load of `hot`, in a process of its own.

    python -m benchmarks.hot_caller --port 8000 --bodies bodies.jsonl --connections 48 --seconds 3

Each connection has one request under way. Bare sockets, so that one core asks for more than any service here gives. It
prints one JSON object: `answered`, `seconds`, `faults` (statuses other than 200), `cpu_seconds` of its own, and the
latencies in ms, sorted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import uvloop

PATH = "/v1/evaluations"


def frame(body: bytes, port: int) -> bytes:
    """The request as it goes over the wire."""
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: */*\r\nUser-Agent: hot\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Tally:
    """What all connections share. With `once` each request goes out once, and then it is over."""

    def __init__(self, requests: list[bytes], ends_at: float, *, once: bool) -> None:
        self.requests: Iterator[bytes] = iter(requests) if once else cycle(requests)
        self.ends_at = ends_at
        self.latencies_ms: list[float] = []
        self.faults: Counter[int] = Counter()

    def next(self) -> bytes | None:
        """The next request; None when there are enough."""
        return None if time.perf_counter() >= self.ends_at else next(self.requests, None)


class Connection(asyncio.Protocol):
    """One request after the other. `done` is set when there is none left, or the service has gone."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        request = self.tally.next()
        if request is None:
            self.transport.close()
            return
        self.sent_at = time.perf_counter()
        self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self.buffer[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        if len(self.buffer) < end + int(head[at + 17 : head.find(b"\r\n", at + 2)]):
            return
        self.tally.latencies_ms.append(1000 * (time.perf_counter() - self.sent_at))
        if not head.startswith(b"http/1.1 200"):
            self.tally.faults[int(head[9:12])] += 1
        self.buffer = b""
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def call(port: int, requests: list[bytes], connections: int, seconds: float, *, once: bool) -> Tally:
    """Everything that was answered within the seconds."""
    tally = Tally(requests, time.perf_counter() + seconds, once=once)
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: Connection(tally), "127.0.0.1", port) for _ in range(connections)]
    await asyncio.gather(*(connection.done for _, connection in made))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bodies", type=Path, required=True, help="a JSON document a line")
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--once", action="store_true", help="each body once, then it ends")
    given = parser.parse_args()
    requests = [frame(line, given.port) for line in given.bodies.read_bytes().splitlines()]
    began, cpu = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.Loop) as runner:
        tally = runner.run(call(given.port, requests, given.connections, given.seconds, once=given.once))
    print(
        json.dumps(
            {
                "answered": len(tally.latencies_ms),
                "seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - cpu,
                "faults": tally.faults,
                "latencies_ms": sorted(round(one, 3) for one in tally.latencies_ms),
            }
        )
    )


if __name__ == "__main__":
    main()
