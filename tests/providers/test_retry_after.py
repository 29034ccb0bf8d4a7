"""`Retry-After` as servers write it, and as they should not."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.providers.flow_control import read_retry_after

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("3", 3.0),
        (" 1.5 ", 1.5),
        ("86400", 86400.0),
        ("86401", 86400.0),
        ("999999999999", 86400.0),
        ("9" * 13, None),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 -0000", 30.0),
        ("Wed, 21 Oct 2026 16:28:30 +0900", 30.0),
        ("Wed, 21 Oct 2026 07:28:30", 30.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86400.0),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
        ("soon", None),
        ("-1", None),
        ("1e3", None),
        ("inf", None),
        ("nan", None),
        ("３", None),
        ("3 s", None),
    ],
)
def test_seconds_are_a_number_or_a_date(written: str | None, seconds: float | None) -> None:
    assert read_retry_after(written, NOW) == seconds


def test_now_may_be_told_in_any_zone() -> None:
    seoul = NOW.astimezone(timezone(timedelta(hours=9)))
    assert read_retry_after(format_datetime(NOW + timedelta(seconds=90), usegmt=True), seoul) == 90.0


@given(
    st.text(max_size=40)
    | st.from_regex(r"\A[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,5} [0-9:]{1,9} [+-][0-9]{4}\Z")
)
def test_any_text_is_a_time_of_at_most_a_day_or_none(written: str) -> None:
    seconds = read_retry_after(written, NOW)
    assert seconds is None or 0.0 <= seconds <= 86400.0
