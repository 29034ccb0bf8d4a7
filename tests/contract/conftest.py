"""What several suites of ports run over."""

from __future__ import annotations

import pytest

from tests.support.databases import lay_schema


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str | None:
    """The database's URL; None for the fake."""
    if request.param == "fake":
        return None
    url: str = request.getfixturevalue(f"{request.param}_url")
    lay_schema(url)
    return url
