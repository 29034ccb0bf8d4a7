"""What fault tests may break without harm to others."""

import shutil
from collections.abc import Iterator

import pytest

from tests.support.services import absent, free_port, redis_on


@pytest.fixture
def redis_port() -> Iterator[int]:
    """The port of a Redis of this test's own, which it may wipe or kill."""
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    port = free_port()
    with redis_on(port):
        yield port
