"""The demo says why its service does not start."""

from pathlib import Path

import pytest

from saiten import PrivateServiceFailed
from saiten_server.cli.demo import serve


async def test_a_service_that_ends_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAITEN_CACHE", "nonsense")
    with pytest.raises(PrivateServiceFailed, match="SAITEN_CACHE: "):
        async with serve(str(tmp_path), use_environment=False):
            pytest.fail("it is not there")
