"""The collector's settings for a server."""

import gc
from collections.abc import Iterator

import pytest

from saiten_server.platform.memory import FEW, MANY, SOME, set_aside, tune_collection, without_collection


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


@pytest.mark.usefixtures("collector")
def test_what_is_loaded_later_is_put_aside_too_where_a_server_is() -> None:
    set_aside()
    assert gc.get_freeze_count() == 0
    tune_collection()
    later = [[number] for number in range(1000)]
    before = gc.get_freeze_count()
    set_aside()
    assert gc.get_freeze_count() >= before + len(later)


def test_nothing_is_collected_while_modules_are_loaded_and_all_of_it_afterwards() -> None:
    def load(*, fails: bool) -> None:
        with without_collection():
            assert not gc.isenabled()
            if fails:
                raise ImportError

    load(fails=False)
    assert gc.isenabled()
    with pytest.raises(ImportError):
        load(fails=True)
    assert gc.isenabled()
