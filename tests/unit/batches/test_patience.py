"""Waiting for what is down, and not for ever for what one candidate causes."""

from __future__ import annotations

from app.batches.patience import LONGEST_WAIT_SECONDS, MOST_STRIKES, Patience


def make(waits: list[float]) -> Patience:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Patience(sleep=sleep, spread=lambda _, most: most)


async def test_in_an_outage_a_candidate_waits_as_long_as_it_takes() -> None:
    waits: list[float] = []
    patience = make(waits)
    trial = patience.begin()
    assert all([await patience.wait(trial) for _ in range(50)])
    # 0.5 · 2^n, at most 8: 1, 2, 4, 8, 8 …
    assert waits[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert max(waits) == LONGEST_WAIT_SECONDS


async def test_a_candidate_that_fails_while_others_succeed_is_given_up() -> None:
    patience = make([])
    trial = patience.begin()
    rounds = 0
    while True:
        patience.succeeded()
        rounds += 1
        if not await patience.wait(trial):
            break
    assert rounds == MOST_STRIKES


async def test_a_success_before_it_began_is_no_strike() -> None:
    patience = make([])
    patience.succeeded()
    trial = patience.begin()
    assert all([await patience.wait(trial) for _ in range(2 * MOST_STRIKES)])
    assert trial.strikes == 0
