"""The pytest plugin: the option `--saiten-url` and the fixture `saiten_client`.

Loaded by every run of pytest where the client is installed, so nothing else is imported until it is used.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from saiten import Client

PROPERTIES: list[list[tuple[str, object]]] = []
"""Those of the test that runs, as `record_property` adds to; last, where a test runs pytest itself."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--saiten-url`."""
    parser.getgroup("saiten").addoption(
        "--saiten-url",
        metavar="URL",
        help="Saiten's service for `saiten_client` (SAITEN_URL); its key is SAITEN_API_KEY.",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Lets `saiten.testing` record properties of the test that runs."""
    PROPERTIES.append(item.user_properties)
    try:
        return (yield)
    finally:
        PROPERTIES.pop()


@pytest.fixture(scope="session")
def saiten_client(pytestconfig: pytest.Config) -> Iterator[Client]:
    """A client of the service that `--saiten-url` or SAITEN_URL names."""
    from saiten import Client

    url = pytestconfig.getoption("--saiten-url") or os.environ.get("SAITEN_URL")
    if not url:
        pytest.fail("name Saiten's service: pytest --saiten-url https://…, or SAITEN_URL", pytrace=False)
    with Client(url) as client:
        yield client
