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
    """Settings of a service that asks `fake`, quickly and without patience."""
    quick = {"judge_timeout_seconds": 0.5, "judge_deadline_seconds": 1.0, "judge_attempts": 2}
    return {"openai_api_key": "sk-test-secret", "openai_base_url": fake.base_url, **quick, **more}


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as running:
        yield running


@pytest.fixture
async def client(fake: FakeOpenAI, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path, **judged_by(fake)) as found:
        yield found
