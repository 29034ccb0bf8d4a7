"""The load of `benchmarks.hot`: what it sends, what it counts, and when it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.hot import report_cached
from benchmarks.hot_caller import call, frame
from benchmarks.hot_stage import Round, make_body, say_round, write_bodies
from benchmarks.record import Report

BODIES = [b'{"n": 1}', b'{"n": 22}', b'{"n": 333}']


class Service:
    """Answers each request in two parts, so that a reader has to put them together; 503 to those with a 22."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
            self.bodies.append(await reader.readexactly(length))
            status = 503 if b"22" in self.bodies[-1] else 200
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nab".encode())
            await writer.drain()
            await asyncio.sleep(0.001)
            writer.write(b"cd")
            if len(self.bodies) % 7 == 0:
                await asyncio.sleep(0)


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[int]:
    """Its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await service.serve(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_each_once_is_each_once_and_every_other_status_is_a_fault() -> None:
    service = Service()
    async with serving(service) as port:
        requests = [frame(body, port) for body in BODIES]
        tally = await call(port, requests, 2, 30.0, once=True)
    assert sorted(service.bodies) == sorted(BODIES)
    assert service.connections == 2
    assert len(tally.latencies_ms) == 3
    assert all(0 < latency < 30_000 for latency in tally.latencies_ms)
    assert tally.faults == {503: 1}


async def test_it_goes_round_until_its_time_is_over() -> None:
    service = Service()
    async with serving(service) as port:
        tally = await call(port, [frame(BODIES[0], port)], 3, 0.1, once=False)
    assert len(tally.latencies_ms) == len(service.bodies) > 3
    assert not tally.faults


def test_bodies_are_a_document_a_line_and_no_two_alike(tmp_path: Path) -> None:
    lines = write_bodies(tmp_path / "bodies", range(5, 8), "hot").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [make_body(number, "hot") for number in (5, 6, 7)]
    assert len({*lines, json.dumps(make_body(5, "once"), ensure_ascii=False)}) == 4


def test_what_is_told_of_latencies_is_that_of_the_median_round() -> None:
    rounds = [Round(rate, rate / 100, rate, 2 * rate) for rate in (300.0, 100.0, 200.0)]
    assert say_round("h11: ", rounds) == "h11: 2.000 ms CPU a request, p50 200 ms, p99 400 ms"


def test_the_target_is_held_against_uvicorn_from_pip() -> None:
    found = {
        "cached": [Round(50.0, 1.0, 10.0, 20.0)],
        "plain": [Round(90.0, 0.5, 5.0, 10.0)],
        "own": [Round(120.0, 0.4, 4.0, 8.0)],
    }
    said: list[str] = []
    report = Report(machine={}, say=said.append)
    report_cached(report, found, {"plain": "H11Protocol", "own": "H11Protocol"})
    [cached] = [figure for figure in report.figures if figure.name == "cached evaluation"]
    assert (cached.ratio("limit"), cached.ratio("peer"), cached.met) == (50 / 90, 50 / 120, True)
