"""What was answered with 200 is there after the service was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from saiten_server.monitors.traces.commits import name_id
from tests.support.command import served
from tests.support.spans import export, talk

SETTINGS = {"SAITEN_JUDGE": "lexical", "SAITEN_ENCODER": "off"}


def test_nothing_is_lost_that_was_acknowledged(tmp_path: Path) -> None:
    settings = {**SETTINGS, "DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}"}
    headers = {"Content-Type": "application/x-protobuf"}
    bodies = [export([span]).SerializeToString() for span in talk(5, "a")]
    options: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 60}
    with served(tmp_path, **settings) as (url, process):
        for body in bodies:
            assert httpx.post(f"{url}/v1/traces", content=body, headers=headers, **options).status_code == 200
        process.kill()
        process.wait()
    with served(tmp_path, **settings) as (url, _):
        again = httpx.post(f"{url}/v1/traces", content=bodies[-1], headers=headers, **options)
        assert (again.status_code, again.content) == (200, b"")
        found = httpx.get(f"{url}/v1/traces/conversations/{name_id('default', 'a')}", **options).json()
    assert len(found["turns"]) == 10
