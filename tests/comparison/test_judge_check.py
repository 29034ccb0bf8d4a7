"""References for judge checks, as callers send them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from saiten_server.comparison.judge_checks.values import AnchorRatings

REFERENCE = {"rubric": "r", "anchors": "a", "asked": "b", "judge": "j", "signature": "s", "ratings": {}}


@pytest.mark.parametrize(
    "at", [0, 1_700_000_000, 1.5, True, None, "0", "1700000000", "2026", "2026-05-01", "yesterday"]
)
def test_a_moment_is_no_number(at: Any) -> None:
    with pytest.raises(ValidationError):
        AnchorRatings.model_validate({**REFERENCE, "at": at})


@pytest.mark.parametrize(
    "at", ["2026-05-01T09:30:00Z", "2026-05-01T18:30:00+09:00", datetime(2026, 5, 1, 9, 30, tzinfo=UTC)]
)
def test_a_moment_is_a_date_and_time(at: Any) -> None:
    read = AnchorRatings.model_validate({**REFERENCE, "at": at})
    assert read.at == datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
    assert AnchorRatings.model_validate_json(read.model_dump_json()) == read
