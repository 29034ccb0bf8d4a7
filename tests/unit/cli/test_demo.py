"""The demo's service starts in time, or the demo says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.demo import serve
from app.domain.errors import SettingsInvalid


async def test_a_service_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    # No interpreter starts within a millisecond.
    with pytest.raises(SettingsInvalid, match=r"did not start within 0\.001 s"):
        async with serve(str(tmp_path), use_environment=False, start_seconds=0.001):
            pytest.fail("it is not there")


async def test_a_service_that_ends_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAITEN_CACHE", "nonsense")
    with pytest.raises(SettingsInvalid, match="did not start: saiten: SAITEN_CACHE: "):
        async with serve(str(tmp_path), use_environment=False):
            pytest.fail("it is not there")
