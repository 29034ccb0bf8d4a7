"""Tests are dealt to processes in like shares: none is lost, no module is parted, and fault tests stand early and apart."""

from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BROWSER, FAULTS, WITH_PYTORCH, arrange, pytest_collection_modifyitems

OTHERS = str(Path(FAULTS).parent / "unit")


@dataclass(frozen=True)
class Item:
    path: Path
    name: int


def make(folder: str, modules: int, each: int) -> list[Any]:
    return [Item(Path(folder, f"test_{module}.py"), number) for module in range(modules) for number in range(each)]


@pytest.mark.parametrize(
    ("faults", "others"), [((3, 4), (50, 8)), ((3, 4), (2, 3)), ((0, 0), (5, 2)), ((2, 5), (0, 0))]
)
def test_in_one_process_all_are_there_in_their_order_and_modules_are_whole(
    monkeypatch: pytest.MonkeyPatch, faults: tuple[int, int], others: tuple[int, int]
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    few, many = make(FAULTS, *faults), make(OTHERS, *others)
    items = few + many
    pytest_collection_modifyitems(items)
    assert [item for item in items if item in few] == few
    assert [item for item in items if item in many] == many
    assert_whole(items)


def test_each_process_has_as_many_and_its_fault_tests_apart_and_none_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    few = make(FAULTS, 4, 12)
    torch, seen = make(WITH_PYTORCH[2], 2, 5), make(BROWSER, 4, 3)
    items = make(OTHERS, 40, 8) + few + torch + seen + make(f"{OTHERS}/more", 306, 1)
    given = [*items]
    pytest_collection_modifyitems(items)
    assert sorted(items, key=given.index) == given
    assert_whole(items)
    each = len(items) // 4
    assert items[:10] == torch
    assert items[3 * each :][:12] == seen
    for first in range(0, 4 * each, each):
        places = [place for place, item in enumerate(items[first : first + each]) if item in few]
        assert len(places) == 12
        assert places[-1] <= each * 3 / 4
        assert max(later - earlier for earlier, later in pairwise(places)) <= 18
        assert min(later - earlier for earlier, later in zip(places, places[2:], strict=False)) > 2


def test_fewer_tests_than_processes_are_all_there() -> None:
    items = make(OTHERS, 1, 2) + make(FAULTS, 1, 1)
    assert sorted(arrange(items, 8), key=items.index) == items


def assert_whole(items: list[Any]) -> None:
    """No module is parted, but those of fault tests."""
    others = [item for item in items if not str(item.path).startswith(FAULTS)]
    paths = [path for path, _ in groupby(others, key=lambda item: item.path)]
    assert len(paths) == len(set(paths))
