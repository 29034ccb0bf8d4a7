"""The error that carries faults with their lines."""

from saiten_server.core.errors import MOST_FAULTS, InvalidLines
from tests.support.faults import said, words


def test_the_first_fault_is_the_detail():
    assert InvalidLines([(57, words("has no item"))]).detail == "line 57: has no item"


def test_faults_come_in_order_and_are_counted():
    error = InvalidLines([(9, words("b")), (3, words("a"))])
    assert (said(error.faults), error.total) == ([(3, "a"), (9, "b")], 2)
    assert error.detail == "line 3: a (and 1 more)"


def test_of_many_the_first_are_listed_and_all_counted():
    error = InvalidLines([(number, words("x")) for number in range(100, 0, -1)], total=5000, noun="element")
    assert [number for number, _ in error.faults] == list(range(1, MOST_FAULTS + 1))
    assert error.detail == "element 1: x (and 4999 more)"
