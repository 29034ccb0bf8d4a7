"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """This process's environment with a database in `folder`, no encoder, and `variables`."""
    ours = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'saiten.db'}",
        "SAITEN_ENCODER": "off",
        "PYTHONPATH": str(ROOT),
    }
    return {**os.environ, **ours, **variables}


def saiten(
    *arguments: str, folder: Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `saiten …` in `folder` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        input=stdin,
        capture_output=True,
        env=environment(folder, **variables),
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


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
