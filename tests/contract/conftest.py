"""What several suites of ports run over."""

import pytest


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database with the schema; None for the fake."""
    if request.param == "fake":
        return None
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
