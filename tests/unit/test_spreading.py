"""Fault tests stand evenly among all others, none is lost, and no module is parted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FAULTS, pytest_collection_modifyitems


@dataclass(frozen=True)
class Item:
    path: Path
    name: int


def make(folder: Path, modules: int, each: int) -> list[Any]:
    return [Item(folder / f"test_{module}.py", number) for module in range(modules) for number in range(each)]


@pytest.mark.parametrize(
    ("faults", "others"), [((3, 4), (50, 8)), ((3, 4), (2, 3)), ((0, 0), (5, 2)), ((2, 5), (0, 0))]
)
def test_all_are_there_in_their_order_and_modules_are_whole(faults: tuple[int, int], others: tuple[int, int]) -> None:
    few, many = make(FAULTS, *faults), make(FAULTS.parent / "unit", *others)
    items = few + many
    pytest_collection_modifyitems(items)
    assert [item for item in items if item in few] == few
    assert [item for item in items if item in many] == many
    runs = [path for path, _ in groupby(items, key=lambda item: item.path) if path.parent != FAULTS]
    assert len(runs) == len(set(runs))


def test_they_stand_apart() -> None:
    few, many = make(FAULTS, 3, 4), make(FAULTS.parent / "unit", 50, 8)
    items = many + few
    pytest_collection_modifyitems(items)
    places = [place for place, item in enumerate(items) if item in few]
    gaps = [later - earlier for earlier, later in pairwise(places)]
    assert min(gaps) >= 24
    assert max(gaps) <= 42
