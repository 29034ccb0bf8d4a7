"""Cases in one test are all tried, and the one that fails is named."""

import inspect

import pytest

from tests.support.cases import in_turn


async def test_each_case_is_tried_and_a_fault_names_its_own() -> None:
    tried: list[tuple[int, str, object]] = []

    @in_turn("number, name", [(1, "a"), (2, "b"), (3, "c")])
    async def check(fixture: object, number: int, name: str) -> None:
        tried.append((number, name, fixture))
        assert number != 2

    assert [*inspect.signature(check).parameters] == ["fixture"]
    with pytest.raises(AssertionError) as caught:
        await check(fixture="it")
    assert caught.value.__notes__ == ["case: {'number': 2, 'name': 'b'}"]
    assert tried == [(1, "a", "it"), (2, "b", "it")]


def test_no_case_and_what_does_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no case"):
        in_turn("number", [])
    with pytest.raises(ValueError, match="shorter"):
        in_turn(("number", "name"), [(1,)])
