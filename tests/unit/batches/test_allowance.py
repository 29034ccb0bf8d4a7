"""A chunk never begins what its reserve might not bear."""

from __future__ import annotations

from app.batches.chunk import BudgetReservation


def test_without_a_budget_everything_may_begin() -> None:
    allowance = BudgetReservation(1, None)
    assert all(allowance.begin() for _ in range(100))
    allowance.end(None)
    assert allowance.begin()


def test_as_many_begin_as_were_reserved_for() -> None:
    # 3 x 0.1 in binary is a little more than 0.3: none is lost to that.
    allowance = BudgetReservation(3, 0.1)
    assert [allowance.begin() for _ in range(4)] == [True, True, True, False]


def test_what_was_cheaper_than_reckoned_leaves_room() -> None:
    allowance = BudgetReservation(2, 0.2)
    allowance.begin()
    allowance.end(0.05)
    # 0.4 - 0.05 are left: one at 0.2 fits, two do not.
    assert [allowance.begin(), allowance.begin()] == [True, False]


def test_what_was_dearer_is_what_the_next_are_reckoned_with() -> None:
    allowance = BudgetReservation(4, 0.1)
    allowance.begin()
    allowance.end(0.3)
    # 0.4 - 0.3 = 0.1 is left, and the next may cost 0.3 too.
    assert not allowance.begin()


def test_an_unknown_cost_ends_it() -> None:
    allowance = BudgetReservation(4, 0.0)
    allowance.begin()
    allowance.end(None)
    assert not allowance.begin()


def test_what_costs_nothing_has_no_bound() -> None:
    allowance = BudgetReservation(2, 0.0)
    assert all(allowance.begin() for _ in range(10))
