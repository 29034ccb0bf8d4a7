"""SIGTERM of a process that has not begun to serve."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command import executed
from tests.support.waiting import LIMIT_SECONDS


@pytest.mark.parametrize("seconds", [0.4, 1.2])
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_start_that_is_stopped_ends_with_0(tmp_path: Path, command: str, seconds: float) -> None:
    arguments = [command, *(["--port", "0"] if command == "serve" else [])]
    # Nobody listens there: a worker starts without its queue too.
    with executed(*arguments, folder=tmp_path, REDIS_URL="redis://127.0.0.1:1/0") as process:
        # Below a process's first signal handler lies the interpreter's own start.
        wait_for_handler(process, signal.SIGTERM)
        time.sleep(seconds)
        process.terminate()
        assert process.wait(timeout=LIMIT_SECONDS) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


BEGIN = """
import os, signal, weakref
from saiten_server.cli.process import leave_on_sigterm
leave_on_sigterm()

def stop(*args):
    os.kill(os.getpid(), signal.SIGTERM)
    [None for _ in range(1000)]

class Thing:
    pass
"""

AMID_A_CLASS = """
class Field:
    __set_name__ = stop

class Model:
    field = Field()
"""

AMID_A_COLLECTION = """
thing = Thing()
reference = weakref.ref(thing, stop)
del thing
"""


@pytest.mark.parametrize("amid", [AMID_A_CLASS, AMID_A_COLLECTION])
def test_whatever_is_under_way_the_process_ends_with_0(amid: str) -> None:
    # Where SystemExit is raised, the first ends with 1 on Python 3.11, and the second goes on.
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + amid + "raise SystemExit(7)"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def wait_for_handler(process: subprocess.Popen[bytes], sign: int) -> None:
    """Returns once the process catches the signal; the kernel lists what it does."""
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        if caught >> (sign - 1) & 1:
            return
        time.sleep(0.01)
    raise RuntimeError("it ended before it could be stopped")
