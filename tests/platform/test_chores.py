"""Work that comes again whatever became of the last round."""

import asyncio
import logging

import pytest

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.tasks import surviving
from tests.support.faults import words

logger = logging.getLogger("saiten.test")


@pytest.mark.parametrize(
    ("error", "level", "code"),
    [(StoreUnavailable(words("away")), "WARNING", "store-unavailable"), (ValueError("?"), "ERROR", "internal-error")],
)
def test_a_failed_round_is_told_and_the_next_one_comes(
    error: Exception, level: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    rounds = 0
    for failure in (error, None):
        with surviving(logger, "chores"):
            rounds += 1
            if failure is not None:
                raise failure
    assert rounds == 2
    [record] = caplog.records
    assert (record.levelname, getattr(record, "code", None)) == (level, code)


def test_a_cancellation_passes(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(asyncio.CancelledError), surviving(logger, "chores"):
        raise asyncio.CancelledError
    assert caplog.records == []
