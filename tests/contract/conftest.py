"""What several suites of ports run over."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str | None:
    """The database's URL; None for the fake."""
    return None if request.param == "fake" else request.getfixturevalue(f"{request.param}_url")
