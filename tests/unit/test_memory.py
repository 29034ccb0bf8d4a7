"""The collector's settings for a server."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from app.memory import FEW, MANY, SOME, tune_collection


@pytest.fixture
def collector() -> Iterator[None]:
    """As it was, afterwards."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_what_was_imported_is_put_aside_and_the_rest_still_collected() -> None:
    tune_collection()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == (FEW, SOME, MANY)
    assert gc.isenabled()
