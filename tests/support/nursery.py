"""Asks the process that forks commands, which all processes of a test run share. `tests/support/forks.py` is the other end."""

import errno
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]


ADDRESS = "\0saiten-forks-" + os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
"""In Linux's abstract namespace: it goes with the last process that uses it, and leaves no file."""


@cache
def nursery() -> "Nursery":
    """This process's own end of it, made at first use."""
    return Nursery()


class Nursery:
    """A process in which everything is imported: to import takes five seconds of CPU, so there is one for all that test
    side by side. The first that needs it starts it, and it ends with the last of them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        while True:
            self._begun = begin()
            self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self._channel.connect(ADDRESS)
                if self._channel.recv(64) == b"ready":
                    return
            except ConnectionError:  # another is about to begin it, or the last that used it has just ended
                pass
            self._channel.close()
            if self._begun:
                raise RuntimeError("the process that forks commands did not start")

    def order(self, order: dict[str, Any], streams: Sequence[int]) -> tuple[int, int]:
        """Has a process forked with these standard streams; its id, and the descriptor that will tell its exit code."""
        report, to_report = os.pipe()
        try:
            with self._turn:
                socket.send_fds(self._channel, [json.dumps(order).encode()], [*streams, to_report])
        finally:
            os.close(to_report)
        return int(read_line(report)), report


def begin() -> subprocess.Popen[bytes] | None:
    """The process, which is not waited for; None where its address is taken."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(ADDRESS)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return None
        listener.listen(64)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.forks", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "client")))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


def read_line(descriptor: int) -> str:
    """What is written there up to a line's end, and nothing of what follows."""
    found = b""
    while not found.endswith(b"\n"):
        piece = os.read(descriptor, 1)
        if not piece:
            raise RuntimeError("the process that forks commands has ended")
        found += piece
    return found.decode()


class Forked(subprocess.Popen[Any]):
    """`python -m MODULE ARGUMENTS` as `subprocess.Popen` has it, forked from a process that has everything imported.

    Its standard streams that are in `closed` (0, 1, 2) are closed, as by a shell's `>&-`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        variables: Mapping[str, str],
        module: str = "saiten",
        closed: Sequence[int] = (),
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = subprocess.PIPE,
        stderr: int | IO[Any] | None = subprocess.PIPE,
        text: bool | None = None,
    ) -> None:
        self._order = {
            "module": module,
            "arguments": [*arguments],
            "folder": str(folder),
            "environment": dict(variables),
            "closed": [*closed],
        }
        self._asking = threading.Lock()
        super().__init__([module, *arguments], stdin=stdin, stdout=stdout, stderr=stderr, text=text, encoding=None)

    def _execute_child(self, *given: Any) -> None:
        """As in Popen: begins the child, then closes its ends of the pipes. -1 is a stream that it shares with us."""
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = given[10:16]
        wanted = enumerate((p2cread, c2pwrite, errwrite))
        streams = [number if end == -1 else end for number, end in wanted]
        self.pid, self._report = nursery().order(self._order, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _learn(self, seconds: float | None) -> None:
        """Reads the exit code, if it comes in this time; None waits for it."""
        with self._asking:
            if self.returncode is None and select.select([self._report], [], [], seconds)[0]:
                self.returncode = int(read_line(self._report))
                os.close(self._report)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        self._learn(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self._learn(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode
