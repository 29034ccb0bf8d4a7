"""Asks the process that forks commands, of which each test process has one. `tests/support/forks.py` is the other end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def nursery() -> Nursery:
    """This process's own, started at first use; it ends with this process."""
    return Nursery()


class Nursery:
    """A process in which everything is imported."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Not waited for: it ends when this process does, and the channel with it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forks", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._turn = threading.Lock()
        if self._channel.recv(64) != b"ready":
            raise RuntimeError("the process that forks commands did not start")

    def run(
        self, arguments: list[str], folder: Path, stdin: bytes | None, variables: dict[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """What `saiten ARGUMENTS` printed, read as UTF-8, and its exit code; killed where it takes longer, and then
        raises TimeoutExpired."""
        order = json.dumps({"arguments": arguments, "folder": str(folder), "environment": variables}).encode()
        with ThreadPoolExecutor(3) as readers, ExitStack() as stack:
            given = stack.enter_context(tempfile.TemporaryFile())
            given.write(stdin or b"")
            given.seek(0)
            (output, to_output), (errors, to_errors), (report, to_report) = os.pipe(), os.pipe(), os.pipe()
            try:
                with self._turn:
                    socket.send_fds(self._channel, [order], [given.fileno(), to_output, to_errors, to_report])
            finally:
                for end in (to_output, to_errors, to_report):
                    os.close(end)
            printed, complained = readers.submit(read, output), readers.submit(read, errors)
            told = stack.enter_context(os.fdopen(report))
            child = int(told.readline())
            ended = readers.submit(told.readline)
            try:
                code = int(ended.result(timeout=seconds))
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, seconds) from None
            return subprocess.CompletedProcess(arguments, code, printed.result().decode(), complained.result().decode())


def read(descriptor: int) -> bytes:
    """Everything that is written there, to its end."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
