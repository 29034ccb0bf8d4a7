"""A worker's metrics port: it answers, and ends with the worker without a complaint."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.command import environment
from tests.support.nursery import Forked
from tests.support.waiting import LIMIT_SECONDS


# The first is executed: the end of Python is seen too.
@pytest.mark.parametrize(
    ("arguments", "settings", "host"),
    [
        (("--metrics-port", "0"), {}, "127.0.0.1"),
        ((), {"SAITEN_WORKER_METRICS_PORT": "0", "SAITEN_WORKER_METRICS_HOST": "127.0.0.2"}, "127.0.0.2"),
        (("--metrics-port", "0", "--metrics-host", "127.0.0.3"), {"SAITEN_WORKER_METRICS_HOST": "::"}, "127.0.0.3"),
    ],
    ids=["loopback by default", "as the settings say", "the option comes first"],
)
def test_a_worker_answers_probes_and_stops_quietly(
    tmp_path: Path, redis_url: str, arguments: tuple[str, ...], settings: dict[str, str], host: str
) -> None:
    variables = environment(tmp_path, REDIS_URL=redis_url, **settings)
    with (tmp_path / "log").open("wb") as log:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
        with (
            Forked(["worker", *arguments], module="saiten_server", folder=tmp_path, variables=variables, **streams)
            if settings
            else subprocess.Popen(
                [sys.executable, "-m", "saiten_server", "worker", *arguments], cwd=tmp_path, env=variables, **streams
            )
        ) as worker:
            assert worker.stdout is not None
            said = next(line for line in worker.stdout if line.startswith("Metrics on "))
            address = said.split()[-1].removesuffix("/metrics")
            assert urlsplit(address).hostname == host
            # The line is said before the port is served; the connection waits in the listener's queue.
            answers = [
                httpx.get(f"{address}{path}", trust_env=False, verify=False)
                for path in ("/livez", "/readyz", "/metrics")
            ]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(timeout=LIMIT_SECONDS) == 0
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert "saiten_batch_backlog_items" in answers[2].text
    assert "Traceback" not in (tmp_path / "log").read_text()
