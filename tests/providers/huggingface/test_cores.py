"""The quota of a process's cgroup, as Linux writes it into files."""

from pathlib import Path

import pytest

from saiten_server.providers.huggingface import read_quota


def write(root: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    (root / "own").write_text(own, encoding="ascii")
    for name, content in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
    return root / "cgroup", root / "own"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        # A slice's quota counts where the process's own folder has none, and the least of all counts.
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "800000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        # In a container the folder may not be there under the name that the machine gives it.
        ("0::/docker/0123\n", {"cpu.max": "400000 100000\n"}, 4),
        # Version 1.
        (
            "5:cpu,cpuacct:/\n4:memory:/\n",
            {"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ("5:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("4:memory:/\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_reads_the_least_quota_around_the_process(
    tmp_path: Path, own: str, files: dict[str, str], cores: int | None
) -> None:
    assert read_quota(*write(tmp_path, own, files)) == cores


def test_no_cgroups_no_quota(tmp_path: Path) -> None:
    assert read_quota(tmp_path / "none", tmp_path / "none") is None
