"""Starts a service, a stand-in for a judge, a monitor and a bot, and prints what the monitor saw.

    python examples/live/run.py [--conversations 60] [--stay]

With `--stay` the service goes on until Ctrl+C, so that its pages can be opened.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from bot import talk
from judge import serve

MONITOR = {
    "name": "cafe-bot",
    "rubric": "ja-conversation",
    "filter": {"service.name": "cafe-bot"},
    # Every conversation with a thumbs down is judged, and half of the others.
    "rate": 0.5,
    "strata": [{"filter": {"feedback": "down"}, "rate": 1.0}],
    "idle_seconds": 5,
    "window": "day",
}
PATIENCE_SECONDS = 120


def call(address: str, body: object = None) -> Any:
    """Answers a GET, or with a body a POST."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address, data, {"Content-Type": "application/json"}), timeout=30) as answered:
        return json.load(answered)


@contextmanager
def judging() -> Iterator[str]:
    """The judge's address while it serves."""
    server = serve()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def serving(judge: str, port: int) -> Iterator[str]:
    """The address of a service with a database of its own, which is gone afterwards."""
    command = [str(Path(sys.executable).with_name("saiten")), "serve", "--port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": judge,
            "DATABASE_URL": f"sqlite+aiosqlite:///{folder}/live.db",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SAITEN_", "OPENAI_"))}
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen(command, env=kept | own, stdout=log, stderr=log)  # noqa: S603 (a command of our own)
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: process.poll() is not None or is_up(address))
            if process.poll() is not None:
                sys.exit((Path(folder) / "log").read_text())
            yield address
        finally:
            process.terminate()
            process.wait()


def is_up(address: str) -> bool:
    """Whether the service answers."""
    try:
        call(f"{address}/readyz")
    except OSError:
        return False
    return True


def wait_until(done: Callable[[], bool]) -> None:
    """Asks twice a second; exits where it is never so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > end:
            sys.exit(f"nothing came of it in {PATIENCE_SECONDS} s")
        time.sleep(0.5)


def find_scored(place: str, conversations: int) -> dict[str, Any] | None:
    """The window, once it has every conversation and all that were sampled are scored."""
    (window,) = call(f"{place}/windows")["items"] or [None]
    waiting = call(place)["waiting"]
    return window if window and window["conversations"] >= conversations and not waiting else None


def report(address: str, place: str, window: dict[str, Any]) -> None:
    """Prints the window's mean beside that of the sample as it is."""
    summary = call(f"{address}/v1/batches/{window['run']}/summary")["aspects"]["overall"]
    seen = [one for page in pages(f"{place}/conversations") for one in page if one["status"]]
    plain = sum(one["aspects"]["overall"] for one in seen) / len(seen)
    span = "{:.2f} to {:.2f}".format(*summary["interval"]) if summary["interval"] else summary["reason"]
    print(f"{window['conversations']} conversations, of which {window['sampled']} were sampled and judged")
    print(f"overall, of all conversations: {summary['mean']:.2f} (95% interval: {span})")
    print(f"overall, of the sample as it is: {plain:.2f}, since every thumbs down is in it")


def pages(address: str) -> Iterator[list[dict[str, Any]]]:
    """All pages of a list."""
    following: str | None = f"{address}?limit=200"
    while following:
        with urlopen(following, timeout=30) as answered:
            yield json.load(answered)["items"]
            link = answered.headers.get("Link", "")
        target = link.partition("<")[2].partition(">")[0]
        following = f"{address.partition('/v1')[0]}{target}" if target.startswith("/") else target or None


def main() -> None:
    """Does it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--port", type=int, default=8010)
    parser.add_argument("--stay", action="store_true", help="serve until Ctrl+C")
    asked = parser.parse_args()
    with judging() as judge, serving(judge, asked.port) as address:
        place = f"{address}/v1/monitors/{call(f'{address}/v1/monitors', MONITOR)['id']}"
        talk(address, asked.conversations)
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found[:] = filter(None, [find_scored(place, asked.conversations)])
            return bool(found)

        wait_until(look)
        report(address, place, found[0])
        if asked.stay:
            print(f"{address}/monitors  (Ctrl+C ends it)")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()


if __name__ == "__main__":
    main()
