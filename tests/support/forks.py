"""A process in which all of Saiten is imported, and which forks one for each command or service that a test wants run.

    python -m tests.support.forks FD        # FD: the socket at which it is asked to

To import takes a command two seconds of CPU; some thousand of them were two thirds of the test run. A fork is a process
of its own as much as one that is executed: descriptors, folder, environment, signals and exit code are its own, and it
ends as any Python does. What is not seen in it is the start of Python itself; `tests/support/command.py` says which
commands are therefore executed.
"""

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from saiten import commands, private

PACKAGES = (
    *("saiten", "saiten_server.analyses", "saiten_server.cli", "saiten_server.comparison", "saiten_server.explorer"),
    *("saiten_server.platform.charts", "saiten_server.platform.redis", "saiten_server.platform.web"),
    *("saiten_server.ratings", "saiten_server.runs", "saiten_server.stats"),
)
MODULES = (
    *("saiten_server.cli.demo", "saiten_server.providers.deepl.client", "saiten_server.providers.deepl.translator"),
    *("saiten_server.providers.lexical.judge", "saiten_server.providers.openai.batches"),
    *("saiten_server.providers.openai.endpoint", "saiten_server.providers.openai.judge"),
    *("saiten_server.providers.openai.relay", "rich.progress", "rich.table"),
    *("aiosqlite", "anyio._backends._asyncio", "asyncpg", "encodings.idna", "fugashi", "httpcore", "redis.asyncio"),
    *("scipy.sparse.csgraph", "scipy.special", "scipy.stats", "unidic_lite", "uvicorn.lifespan.on"),
    *("uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto", "uvloop", "vl_convert"),
)
"""Not PyTorch, matplotlib or OpenTelemetry: they begin threads, or read the environment, as they are imported."""

LARGEST_MESSAGE = 1 << 18
HANDED_OVER = 4
"""Descriptors: standard input, output and error, and the pipe in which the exit code is told."""


def load_everything() -> None:
    """Imports what commands import, and what they would only import as they run."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, name + "."):
            if not found.name.endswith(".__main__"):  # it is run, and an import before that would be warned of
                importlib.import_module(found.name)
    for name in MODULES:
        importlib.import_module(name)
    read_files()
    private.launch = fork_service
    commands.become_server = go_on_as_server
    gc.collect()
    gc.freeze()


def read_files() -> None:
    """Reads what services read from the package once: its rubrics, the lexical judge's weights, the signs of attacks, and
    the templates of pages, which take a second or two to compile."""
    from saiten_server.platform.web.page import compile_templates
    from saiten_server.providers.lexical.judge import load_clauses, load_weights
    from saiten_server.providers.registry import load_providers
    from saiten_server.scoring.rubrics.files import open_rubrics
    from saiten_server.text.injection.inspection import find_kinds

    load_providers()
    open_rubrics(None)
    load_weights()
    load_clauses()
    compile_templates()
    for text in ("元気？", "잘 지내?", "How are you?"):
        find_kinds(text, ())


class ForkedService:
    """A private service, as `saiten.private` has a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0]:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("saiten serve", timeout or 0)
            time.sleep(0.005)
        return os.waitstatus_to_exitcode(ended[1])

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)


def fork_service(environment: Mapping[str, str], control: int, announcement: int, *, quiet: bool) -> ForkedService:
    """Stands in for `saiten.private.launch` in a forked command: to execute a service takes two seconds of CPU."""
    child = os.fork()
    if child:
        return ForkedService(child)
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2) if quiet else (0, 1):
            os.dup2(nothing, number)
        for number in set(range(3, 1024)) - {control, announcement}:
            with suppress(OSError):
                os.close(number)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["saiten", "serve", "--private", f"{control},{announcement}"]
        from saiten_server.cli import run

        run()
        sys.stderr.flush()
    finally:
        os._exit(0)


def go_on_as_server(name: str, arguments: list[str]) -> NoReturn:
    """Stands in for `saiten.commands.become_server` in a forked command: the server is imported already."""
    from saiten_server.cli import main

    sys.argv = ["saiten", name, *arguments]
    main()
    raise AssertionError("main exits")


class Nursery:
    """Forks on request, and tells how its children end. Each channel is of one process that tests."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.channels: list[socket.socket] = []
        self.reports: dict[int, tuple[int, socket.socket]] = {}
        self.woken, waker = os.pipe()
        for end in (self.woken, waker):
            os.set_blocking(end, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the tests ends them, and then the channels
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any]:
        """Serves until the last channel ends; returns only in a child, with what it is to run."""
        while True:
            ready = self.wait(None)
            if self.woken in ready:
                os.read(self.woken, 4096)
                self.reap()
            if self.listener in ready:
                self.admit()
            for channel in [one for one in self.channels if one in ready]:
                message, descriptors = b"", list[int]()
                with suppress(ConnectionResetError):
                    message, descriptors, _, _ = socket.recv_fds(channel, LARGEST_MESSAGE, HANDED_OVER)
                if not message:
                    self.end(channel)
                    continue
                order: dict[str, Any] = json.loads(message)
                report = descriptors.pop()
                child = os.fork()
                if child == 0:
                    self.become(order, descriptors)
                    return order
                for descriptor in descriptors:
                    os.close(descriptor)
                self.reports[child] = report, channel
                with suppress(BrokenPipeError):
                    os.write(report, f"{child}\n".encode())

    def wait(self, seconds: float | None) -> list[int | socket.socket]:
        sources: list[int | socket.socket] = [self.woken, self.listener, *self.channels]
        return select.select(sources, [], [], seconds)[0]

    def admit(self) -> None:
        """Opens a channel to a process of the same user: the address can be seen by all."""
        channel, _ = self.listener.accept()
        _, user, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            channel.close()
            return
        with suppress(BrokenPipeError):
            channel.sendall(b"ready")
        self.channels.append(channel)

    def reap(self) -> None:
        """Tells the exit codes of children that have ended."""
        for child, (report, _) in [*self.reports.items()]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                with suppress(BrokenPipeError):
                    os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                os.close(report)
                del self.reports[child]

    def end(self, channel: socket.socket) -> None:
        """Nobody asks there any more: what still runs for it is not wanted either."""
        for child, (_, asked) in self.reports.items():
            if asked is channel:
                os.kill(child, signal.SIGKILL)
        self.channels.remove(channel)
        channel.close()
        if not self.channels and self.listener not in self.wait(0):
            os._exit(0)

    def become(self, order: dict[str, Any], descriptors: list[int]) -> None:
        """Makes this process, just forked, one that was started with this order."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for inherited in (self.listener, *self.channels):
            inherited.detach()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 4096)
        for number in order["closed"]:
            os.close(number)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        time.tzset()
        self.open_streams(order["closed"])
        sys.argv = [order["module"], *order["arguments"]]

    def open_streams(self, closed: list[int]) -> None:
        """The standard streams as Python opens them at its start: None for one that is closed."""
        sys.stdin = sys.stdout = sys.stderr = None
        if 0 not in closed:
            sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
        if 1 not in closed:
            file = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
            sys.stdout = io.TextIOWrapper(file, encoding="utf-8", line_buffering=os.isatty(1))
        if 2 not in closed:
            file = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
            sys.stderr = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class QuickEnd:
    """Ends a child once everything that is to run at its exit has run. Python would then take all modules apart, and so
    copy each page that the child shares with the nursery: half of what a small command costs."""

    def __init__(self) -> None:
        self._status: int | None = None
        atexit.register(self._leave)  # before any other: the last to be run

    def run(self, module: str) -> None:
        """Runs the module as `python -m MODULE` does."""
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            self._status = 0
        except SystemExit as ended:
            self._status = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else None
            raise

    def _leave(self) -> None:
        if self._status is None:  # an error: Python tells it and chooses the exit code
            return
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):  # Python meets it too, and chooses the exit code
            return
        os._exit(self._status & 0xFF)


def main() -> None:
    """Loads everything, says so, and runs in each child what `python -m MODULE` does, to the child's own end."""
    ending = QuickEnd()
    listener = socket.socket(fileno=int(sys.argv[1]))
    load_everything()
    ending.run(Nursery(listener).run()["module"])


if __name__ == "__main__":
    main()
