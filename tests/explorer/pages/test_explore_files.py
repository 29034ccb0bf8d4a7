"""Files of the explorer's cases: known again where they are read."""

from types import SimpleNamespace
from typing import Any

import pytest

from saiten.core.spreadsheet import is_own_table
from saiten_server.explorer.pages.explore_files import list_heads


@pytest.mark.parametrize("runs", [1, 2])
def test_a_table_of_cases_is_known_as_our_own(runs: int) -> None:
    asked: Any = SimpleNamespace(runs=range(runs), is_list=runs == 1)
    assert is_own_table(list_heads(asked, ["overall"]))
