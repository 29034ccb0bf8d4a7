import asyncio
import os
import select
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE

import pytest

from app.charts.canvas import say
from app.charts.engine import draw_svg

PARENT = """
import os, signal
from app.charts.engine import open_process

if __name__ == "__main__":
    print(open_process().submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits by a pidfd")
async def test_the_process_ends_with_one_that_was_killed(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=PIPE, stderr=DEVNULL, env=environment
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert await parent.wait() == -signal.SIGKILL
    try:
        handle = os.pidfd_open(child)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 20)
        assert ended
    finally:
        os.close(handle)


def test_draws_in_the_thread_that_asks() -> None:
    assert draw_svg(say("nothing", width=90, title="t", description="d")).startswith(
        '<svg xmlns="http://www.w3.org/2000/svg"'
    )
