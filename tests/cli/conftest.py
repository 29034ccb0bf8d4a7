"""Private services of commands that run in the process of the tests."""

import pytest

from saiten import private
from tests.support.private_service import launch


@pytest.fixture(autouse=True)
def forked_private_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are forked too."""
    monkeypatch.setattr(private, "launch", launch)
