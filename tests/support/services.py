"""Finds the real servers that tests talk to: by URL from the environment, else a private one from installed binaries."""

import glob
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.waiting import LIMIT_SECONDS

REQUIRED = "SAITEN_TEST_REQUIRE_SERVICES"


def absent(what: str) -> NoReturn:
    """Skips loudly, or fails where CI demands real services."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{what}, and {REQUIRED}=1", pytrace=False)
    pytest.skip(what)


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_binary(name: str) -> str | None:
    """A PostgreSQL program: on the PATH, or where Debian keeps it."""
    return shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


class PostgresServer:
    """A PostgreSQL of its own that a test may stop, as by a pulled plug, and start again on its data. `durable`: it
    answers once what it wrote is on the disk, as one in production does."""

    def __init__(self, *, durable: bool = False) -> None:
        self._fsync = "on" if durable else "off"
        initdb, postgres = find_binary("initdb"), find_binary("postgres")
        if initdb is None or postgres is None:
            absent("no PostgreSQL: set SAITEN_TEST_POSTGRES_URL, or install the server's binaries")
        self._postgres = postgres
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="saiten-pg-"))
        self._port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        made = [initdb, "-D", self._data, "-U", "saiten", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(made, user=self._user, cwd=self._folder, check=True, capture_output=True)

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://saiten@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        settings = ("listen_addresses=127.0.0.1", f"fsync={self._fsync}", "max_connections=200", "jit=off")
        flags = [part for setting in settings for part in ("-c", setting)]
        self._server = subprocess.Popen(
            [self._postgres, "-D", self._data, "-p", str(self._port), "-k", self._folder, *flags],
            user=self._user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: takes_sessions(self._port), f"PostgreSQL takes nobody on port {self._port}")

    def stop(self, sign: int = signal.SIGQUIT) -> None:
        """SIGQUIT is PostgreSQL's immediate shutdown: it ends as in a crash, and recovers at its next start."""
        if self._server is not None:
            self._server.send_signal(sign)
            self._server.wait(timeout=LIMIT_SECONDS)
            self._server = None

    def freeze(self) -> None:
        """Hangs it: every connection stays open and says nothing, as does every new one."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, sign: int) -> None:
        if self._server is None:
            return
        # The server first: it makes a process for each connection.
        os.kill(self._server.pid, sign)
        for child in Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), sign)

    def remove(self) -> None:
        self.thaw()
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def private_postgres(*, durable: bool = False) -> Iterator[str]:
    """A PostgreSQL of this test run's own; yields the URL of its maintenance database."""
    server = PostgresServer(durable=durable)
    server.start()
    try:
        yield server.url
    finally:
        server.remove()


@contextmanager
def private_redis() -> Iterator[str]:
    """A Redis of this test run's own that keeps nothing on disk; yields its URL."""
    binary = shutil.which("redis-server")
    if binary is None:
        absent("no Redis: set SAITEN_TEST_REDIS_URL, or install redis-server")
    with redis_on(free_port(), binary) as url:
        yield url


@contextmanager
def redis_on(port: int, binary: str = "redis-server") -> Iterator[str]:
    """A Redis at this port, for as long as the context lasts; yields its URL."""
    folder = Path(tempfile.mkdtemp(prefix="saiten-redis-"))
    command = [
        binary,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(timeout=LIMIT_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_port(port: int) -> None:
    """Returns when something listens; fails the test run after LIMIT_SECONDS."""

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, f"nothing listens on port {port}")


def takes_sessions(port: int) -> bool:
    """Whether PostgreSQL lets somebody in: it listens before it has recovered, and refuses until then."""
    wanted = struct.pack("!I", 3 << 16) + b"user\0saiten\0database\0postgres\0\0"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            probe.sendall(struct.pack("!I", 4 + len(wanted)) + wanted)
            return probe.recv(1) == b"R"
    except OSError:
        return False


def wait_until(true: Callable[[], bool], otherwise: str) -> None:
    """Returns when it is true; fails the test run after LIMIT_SECONDS."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if true():
            return
        time.sleep(0.02)
    pytest.fail(otherwise)
