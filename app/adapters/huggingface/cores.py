"""How many cores the process may use by its cgroup's quota, which PyTorch does not look at."""

from __future__ import annotations

import math
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def read_quota(cgroups: Path = CGROUPS, own_cgroups: Path = OWN_CGROUPS) -> int | None:
    """Whole cores of the process's cgroup and those around it, the least of them, rounded up; None without a quota."""
    quotas = [quota for folder in _find_folders(cgroups, own_cgroups) if (quota := _read_folder(folder)) is not None]
    return max(1, math.ceil(min(quotas))) if quotas else None


def _find_folders(cgroups: Path, own_cgroups: Path) -> list[Path]:
    """Of each hierarchy the process's folder and those around it. In a container the outermost is its own."""
    folders: list[Path] = []
    for line in _read(own_cgroups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / "cpu" if controllers else cgroups  # version 1 names its controllers, version 2 does not
        own = root / path.strip("/")
        folders += [folder for folder in (own, *own.parents) if folder.is_relative_to(root)]
    return folders


def _read_folder(folder: Path) -> float | None:
    """Cores: microseconds of CPU a period of so many microseconds."""
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    if not period:
        quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None  # "max", "-1", or no such file
    return int(quota) / int(period)


def _read(path: Path) -> str:
    """The file's text; empty where there is none that may be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
