"""The command line as a user meets it: in a process of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.databases import lay_schema
from tests.support.nursery import Forked
from tests.support.waiting import LIMIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
AT_START = ("PYTHON", "LANG", "LC_")
"""Variables that Python reads before it reads `saiten`."""


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """This process's environment with a database in `folder`, no encoder, and `variables`."""
    ours = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'saiten.db'}",
        "SAITEN_ENCODER": "off",
        "SAITEN_DRAIN_SECONDS": "0",
        "SAITEN_LANGUAGE": "en",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "client"))),
    }
    return {**os.environ, **ours, **variables}


def begin(*arguments: str, folder: Path, variables: dict[str, str], **streams: Any) -> subprocess.Popen[Any]:
    """Begins `saiten …` in `folder`: forked from a process that has imported everything, unless `variables` are ones
    that Python itself reads as it starts. `streams` are of `subprocess.Popen`.

    The database in `folder` has the schema already: to make it is half of what a small command costs. One that
    `variables` name is left to the command.
    """
    chosen = environment(folder, **variables)
    if "DATABASE_URL" not in variables:
        lay_schema(chosen["DATABASE_URL"])
    if any(name.startswith(AT_START) for name in variables):
        return subprocess.Popen([sys.executable, "-m", "saiten", *arguments], env=chosen, cwd=folder, **streams)
    return Forked(arguments, folder=folder, variables=chosen, **streams)


def saiten(
    *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `saiten …` in `folder` to its end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return finish(begin(*arguments, folder=folder, variables=variables, **pipes), stdin)


def saiten_redirected(
    redirection: str, *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `saiten … REDIRECTION` as a shell does, from the start of Python on: `>/dev/full`, or `>&-`."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "saiten", *arguments]
    return run(command, folder, stdin, variables)


def finish(
    process: subprocess.Popen[Any], stdin: bytes | None = None, seconds: float = LIMIT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """What it printed, read as UTF-8, and its exit code; killed where it takes longer, and then raises TimeoutExpired."""
    with process:
        try:
            output, errors = process.communicate(stdin, timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(
        process.args, process.returncode, (output or b"").decode(), (errors or b"").decode()
    )


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
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(
    *arguments: str, folder: Path, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A `saiten …` that is running, killed in the end and where it takes more than LIMIT_SECONDS."""
    process = begin(*arguments, folder=folder, variables=variables, stdout=stdout, stderr=stderr)
    with kept(process):
        yield process


@contextmanager
def executed(*arguments: str, folder: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """The same, with the start of Python."""
    command = [sys.executable, "-m", "saiten", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(folder, **variables), cwd=folder
    )
    with kept(process):
        yield process


@contextmanager
def kept(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills it in the end, and where it takes more than LIMIT_SECONDS."""
    with process:
        watchdog = threading.Timer(LIMIT_SECONDS, process.kill)
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            process.kill()


@contextmanager
def served(folder: Path, *arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A `saiten serve` of its own process; yields its URL and the process."""
    with (folder / "log").open("wb") as log:
        process = begin(
            "serve", "--port", "0", *arguments, folder=folder, variables=variables, stdout=subprocess.PIPE, stderr=log
        )
    try:
        said = process.stdout.readline().decode() if process.stdout else ""
        if "http://" not in said:
            raise RuntimeError((folder / "log").read_text(encoding="utf-8"))
        yield said.split()[3], process
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT_SECONDS)
