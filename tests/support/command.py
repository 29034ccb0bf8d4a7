"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.nursery import nursery

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
AT_START = ("PYTHON", "LANG", "LC_", "OTEL_")
"""Variables that are read before `saiten` is."""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """This process's environment with a database in `folder`, no encoder, and `variables`."""
    ours = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'saiten.db'}",
        "SAITEN_ENCODER": "off",
        "SAITEN_DRAIN_SECONDS": "0",
        "PYTHONPATH": str(ROOT),
    }
    return {**os.environ, **ours, **variables}


def saiten(
    *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `saiten …` in `folder` to its end: forked from a process that has imported everything, unless `variables`
    are ones that Python itself reads as it starts."""
    if any(name.startswith(AT_START) for name in variables):
        return run([sys.executable, "-m", "app", *arguments], folder, stdin, variables)
    return nursery().run([*arguments], folder, stdin, environment(folder, **variables), SECONDS)


def saiten_redirected(
    redirection: str, *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `saiten … REDIRECTION`, as a shell does: `>/dev/full`, or `>&-`."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "app", *arguments]
    return run(command, folder, stdin, variables)


def run(
    command: list[str], folder: Path, stdin: bytes | None, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """What the command printed, read as UTF-8, and its exit code."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        env=environment(folder, **variables),
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(
    *arguments: str, folder: Path, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A `saiten …` that is running, killed in the end and where it takes more than SECONDS."""
    command = [sys.executable, "-m", "app", *arguments]
    with subprocess.Popen(
        command, stdout=stdout, stderr=stderr, env=environment(folder, **variables), cwd=folder
    ) as process:
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


@contextmanager
def served(folder: Path, *arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A `saiten serve` of its own process; yields its URL and the process."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(folder, **variables),
            cwd=folder,
            text=True,
        )
    try:
        said = process.stdout.readline() if process.stdout else ""
        if "http://" not in said:
            raise RuntimeError((folder / "log").read_text(encoding="utf-8"))
        yield said.split()[3], process
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
