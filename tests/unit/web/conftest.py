"""A service whose judge is the real adapter, talking to a fake endpoint over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fake_openai import FakeOpenAI
from tests.support.serving import serving


def judged_by(fake: FakeOpenAI, **more: Any) -> dict[str, Any]:
    """Settings of a service that asks `fake` twice at most, with time enough on a machine that is busy."""
    patient = {"judge_timeout_seconds": 15, "judge_deadline_seconds": 30, "judge_attempts": 2}
    return {"openai_api_key": "sk-test-secret", "openai_base_url": fake.base_url, **patient, **more}


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as running:
        yield running


@pytest.fixture
async def client(fake: FakeOpenAI, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path, **judged_by(fake)) as found:
        yield found
