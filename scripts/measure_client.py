"""Builds both wheels, installs the client alone in a fresh environment, and says how large it is and how soon imported.

    python scripts/measure_client.py

Needs a package index. Fails where the client needs more than 60 MB or a quarter of a second, or if the server's wheel
does not install beside it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_MEGABYTES = 60
MOST_SECONDS = 0.25
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


def run(*command: str | Path) -> str:
    """What the command printed."""
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def time_import(python: Path, code: str) -> float:
    """Seconds of the statement in a new process, less those of an empty one: the median of nine."""

    def once(statement: str) -> float:
        started = time.perf_counter()
        run(python, "-I", "-c", statement)
        return time.perf_counter() - started

    return statistics.median(once(code) for _ in range(9)) - statistics.median(once("") for _ in range(9))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for project in (ROOT / "client", ROOT):
            run(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, project)
        client, server = sorted(folder.glob("*.whl"))
        run(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv" / "bin" / "python"
        run(python, *PIP, "install", "-c", ROOT / "constraints.txt", client)
        packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        own = [file for file in packages.rglob("*") if file.is_file() and not is_pips(file.relative_to(packages))]
        megabytes = sum(file.stat().st_size for file in own) / 1e6
        print(f"saiten and what it needs: {megabytes:.1f} MB")
        seconds = {code: time_import(python, code) for code in ("import saiten", "import saiten; saiten.AsyncClient")}
        for code, spent in seconds.items():
            print(f"{code}: {spent:.3f} s")
        missing = subprocess.run([folder / "venv" / "bin" / "saiten", "serve"], capture_output=True, check=False)
        print(f"saiten serve, without the server: exit {missing.returncode}, {missing.stderr.decode().strip()}")
        run(python, *PIP, "install", "--no-deps", server)
        print("the server's wheel installs beside the client's")
        if megabytes > MOST_MEGABYTES or seconds["import saiten"] > MOST_SECONDS or missing.returncode != 3:
            raise SystemExit("the client is larger or slower than it may be, or starts a server that is not there")


def is_pips(path: Path) -> bool:
    """Whether a file belongs to what every fresh environment has."""
    return path.parts[0].startswith(("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence"))


if __name__ == "__main__":
    main()
