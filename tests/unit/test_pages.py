"""Pages that are written from the code say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_settings_page_is_up_to_date() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "write_settings_page.py"), "--check"]
    done = subprocess.run(check, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, "run `make pages`"
