"""How many candidates may wait before batches are turned away."""

import pytest

from saiten_server.core.errors import LimitReached, Overloaded, QueueLimitReached
from saiten_server.runs.service import QUEUE_RETRY_SECONDS, QueueLimits


def test_without_a_limit_any_number_waits() -> None:
    assert not QueueLimits().is_limited
    QueueLimits().require_room((10**9, 10**9), 10**5)


@pytest.mark.parametrize(
    ("limits", "waiting", "candidates"),
    [
        (QueueLimits(all_projects=10), (7, 7), 3),
        (QueueLimits(project=10), (1000, 7), 3),
        (QueueLimits(all_projects=100, project=10), (97, 0), 3),
    ],
)
def test_what_just_fits_is_taken(limits: QueueLimits, waiting: tuple[int, int], candidates: int) -> None:
    assert limits.is_limited
    limits.require_room(waiting, candidates)
    with pytest.raises(LimitReached):
        limits.require_room(waiting, candidates + 8)


def test_the_callers_own_limit_is_told_first_and_others_figures_never() -> None:
    limits = QueueLimits(all_projects=1000, project=10)
    with pytest.raises(QueueLimitReached) as own:
        limits.require_room((998, 8), 5)
    assert own.value.detail == (
        "8 candidates of the project wait already, these are 5, and 10 may wait; send the batch again when some are done"
    )
    with pytest.raises(Overloaded) as all_projects:
        limits.require_room((998, 0), 5)
    assert "998" not in all_projects.value.detail
    assert own.value.retry_after_seconds == all_projects.value.retry_after_seconds == QUEUE_RETRY_SECONDS


def test_a_batch_that_never_fits_is_told_so() -> None:
    with pytest.raises(QueueLimitReached, match="send smaller batches"):
        QueueLimits(project=10).require_room((0, 0), 11)


@pytest.mark.parametrize(
    ("waiting", "candidates", "advice"),
    [(8, 5, "resume the batch when some are done"), (0, 11, "have the limit raised")],
)
def test_what_is_resumed_is_not_to_be_sent_again(waiting: int, candidates: int, advice: str) -> None:
    for limits in (QueueLimits(project=10), QueueLimits(all_projects=10)):
        with pytest.raises(LimitReached, match=f"; {advice}$"):
            limits.require_room((waiting, waiting), candidates, resumed=True)
