"""A private service takes one key, works on its caller's batches alone, and ends with its caller."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from saiten import Connection, PrivateServiceFailed, private
from saiten.private import private_service
from tests.support.command import environment
from tests.support.posted import make_item
from tests.support.private_service import launch
from tests.support.waiting import LIMIT_SECONDS


def lines(*values: object) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


async def test_it_takes_one_key_and_works_on_its_callers_batches_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "launch", launch)  # the tests below start one as it is
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nothing answers there
    settings = {name: environment(tmp_path)[name] for name in ("DATABASE_URL", "SAITEN_ENCODER")}
    with private_service({**settings, "SAITEN_JUDGE": "openai", "SAITEN_JUDGE_ATTEMPTS": "1"}) as address:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert (
                httpx.get(f"{address.url}/v1/info", headers=headers, trust_env=False, verify=False).status_code == 401
            )
        async with Connection(address.url, api_key=address.api_key) as client:
            other = (await client.post_batch(lines({}, make_item())))["id"]
    with private_service({**settings, "SAITEN_JUDGE": "lexical"}) as address:
        async with Connection(address.url, api_key=address.api_key) as client:
            own = (await client.post_batch(lines({}, make_item())))["id"]
            assert (await client.wait(own))["status"] == "completed"
            (found,) = [one for one in await client.batches() if one["id"] == other]
            assert found["counts"]["scored"] == 0
            # Asked for, it is the caller's own. It may have paused while its judge did not answer.
            if found["status"] == "paused":
                await client.request("POST", f"/v1/batches/{other}/resume", again=False)
            assert (await client.wait(other))["status"] == "completed"
            assert [json.loads(line)["status"] async for line in client.results(other)] == ["scored"]


def test_a_service_that_is_late_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", environment(tmp_path)["DATABASE_URL"])
    with (
        pytest.raises(PrivateServiceFailed, match=r"did not start within 0\.001 s"),
        private_service(start_seconds=0.001),
    ):
        pytest.fail("it is not there")


CALLER = """
import sys, time
from saiten.private import private_service
with private_service() as address:
    print(address.url, flush=True)
    time.sleep(600)
"""


def test_it_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CALLER], stdout=subprocess.PIPE, env=environment(tmp_path), cwd=tmp_path
    ) as caller:
        assert caller.stdout is not None
        url = caller.stdout.readline().decode().strip()
        assert httpx.get(f"{url}/livez", trust_env=False, verify=False).is_success
        os.kill(caller.pid, signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/livez", trust_env=False, verify=False)
        except httpx.HTTPError:
            return
        time.sleep(0.05)
    pytest.fail("the service goes on")
