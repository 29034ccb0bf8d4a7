"""Finds the real servers that tests talk to: by URL from the environment, else a private one from installed binaries."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

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


@contextmanager
def private_postgres() -> Iterator[str]:
    """A PostgreSQL of this test run's own; yields the URL of its maintenance database."""
    initdb, postgres = find_binary("initdb"), find_binary("postgres")
    if initdb is None or postgres is None:
        absent("no PostgreSQL: set SAITEN_TEST_POSTGRES_URL, or install the server's binaries")
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="saiten-pg-"))
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data, port = folder / "data", free_port()
    made = [initdb, "-D", str(data), "-U", "saiten", "-A", "trust", "-E", "UTF8", "--locale=C"]
    subprocess.run(made, user=user, cwd=folder, check=True, capture_output=True)
    server = subprocess.Popen(
        [postgres, "-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
        user=user,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port)
        yield f"postgresql+asyncpg://saiten@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_port(port: int) -> None:
    """Returns when something listens; fails the test run after 30 s."""
    import time

    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"nothing listens on port {port}")
