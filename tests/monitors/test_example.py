"""`examples/live`: the bot's spans are read as it means them, and on demand the whole of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIVE = Path(__file__).parents[2] / "examples" / "live"


@pytest.mark.skipif(not os.environ.get("SAITEN_TEST_EXAMPLES"), reason="takes 20 s: SAITEN_TEST_EXAMPLES=1 runs it")
def test_the_example_runs(unused_tcp_port: int) -> None:
    command = [sys.executable, str(LIVE / "run.py"), "--conversations", "12", "--port", str(unused_tcp_port)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    assert "12 conversations" in told
    assert "overall, of all conversations" in told
