"""What a benchmark ran on, and whether others were using it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIBRARIES = (
    "saiten", "aiohttp", "bert-score", "fastapi", "granian", "httptools", "httpx", "numpy", "onnxruntime", "openai",
    "orjson", "pydantic", "redis", "saq", "scipy", "sqlalchemy", "starlette", "torch", "transformers", "uvicorn",
    "uvloop",
)  # fmt: skip
"""Those that a figure may hang on; what is not installed is left out."""

BUSY_SHARE = 0.25
"""Of the cores at work before anything is measured: beyond it times are not to be trusted."""

ROOT = Path(__file__).parent.parent


def describe_machine() -> dict[str, Any]:
    """Processor, memory, system, versions, revision, and the load of the last minute before the start."""
    return {
        "cpu": read_cpu(),
        "cores": os.cpu_count() or 1,
        "memory_gib": read_memory_gib(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": read_versions(),
        "revision": read_revision(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def read_field(path: Path, name: str) -> str | None:
    """The first value of `name: value` in a file of the kernel's; None where there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(
        (value.strip() for line in lines for key, _, value in [line.partition(":")] if key.strip() == name), None
    )


def read_cpu() -> str:
    """The processor's model, as the system names it."""
    return read_field(Path("/proc/cpuinfo"), "model name") or platform.processor() or "unknown"


def read_memory_gib() -> float | None:
    """All memory in GiB; None where the system does not tell."""
    total = read_field(Path("/proc/meminfo"), "MemTotal")
    return round(int(total.split()[0]) / 2**20, 1) if total else None


def read_versions() -> dict[str, str]:
    """The version of each installed library among LIBRARIES."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def read_revision() -> str | None:
    """The commit, with `+` where the tree differs from it; None outside a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    told = [
        subprocess.run([git, "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
        for arguments in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain"))
    ]
    if any(one.returncode for one in told):
        return None
    return told[0].stdout.strip() + ("+" if told[1].stdout.strip() else "")


def introduce(machine: Mapping[str, Any]) -> str:
    """The machine in two or three lines; the last one a warning where it was busy."""
    memory = f"{machine['memory_gib']:g} GiB" if machine["memory_gib"] else "memory unknown"
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {memory}, {machine['system']}, Python {machine['python']},"
        f" revision {machine['revision'] or 'unknown'}",
        libraries,
    ]
    return "\n".join([*lines, *filter(None, [warn_busy(machine)])])


def warn_busy(machine: Mapping[str, Any]) -> str | None:
    """What to say of a machine at which others work; None of a calm one."""
    load, cores = machine["load"], machine["cores"]
    if load is None or load <= BUSY_SHARE * cores:
        return None
    return f"WARNING: the machine is busy (load {load:.1f} on {cores} cores): times are not to be trusted"
