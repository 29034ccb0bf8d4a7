"""What tests of both clients share."""

from typing import get_args

import pytest

from tests.support.both_clients import Kind


@pytest.fixture(params=get_args(Kind))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of client."""
    found: Kind = request.param
    return found
