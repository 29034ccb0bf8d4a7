"""What `x-ratelimit-*` headers say, as OpenAI and others write them."""

import pytest

from saiten_server.providers.flow_control import RateLimits
from saiten_server.providers.openai.errors import read_duration, read_limits


def raw(**headers: str) -> list[tuple[bytes, bytes]]:
    named = {f"X-RateLimit-{name.replace('_', '-')}": value for name, value in headers.items()}
    return [(name.encode(), value.encode()) for name, value in ({"Content-Type": "application/json"} | named).items()]


@pytest.mark.parametrize(
    ("headers", "limits"),
    [
        ({}, RateLimits()),
        ({"limit_requests": "600"}, RateLimits(requests_per_minute=600)),
        ({"limit_tokens": "30000"}, RateLimits(tokens_per_minute=30_000)),
        ({"limit_requests": "0"}, RateLimits()),
        ({"limit_requests": "-1"}, RateLimits()),
        ({"limit_requests": "many"}, RateLimits()),
        ({"remaining_requests": "0", "reset_requests": "120ms"}, RateLimits(closed_seconds=0.12)),
        ({"remaining_tokens": "0", "reset_tokens": "6m0s"}, RateLimits(closed_seconds=360)),
        (
            {"remaining_tokens": "0", "reset_tokens": "6s", "remaining_requests": "0", "reset_requests": "1s"},
            RateLimits(closed_seconds=6),
        ),
        ({"remaining_requests": "0"}, RateLimits()),
        ({"remaining_requests": "3", "reset_requests": "6m0s"}, RateLimits()),
    ],
)
def test_headers_become_limits(headers: dict[str, str], limits: RateLimits):
    assert read_limits(raw(**headers)) == limits


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("120ms", 0.12),
        ("2m59.56s", 179.56),
        ("1h2m3s", 3723),
        ("0.100s", 0.1),
        ("7", 7),
        ("1d12h", 86_400),
        ("99999d", 86_400),
        ("", 0),
        ("soon", 0),
        ("-1s", 0),
        ("1s later", 0),
        ("1.2.3s", 0),
        ("1e9s", 0),
        (None, 0),
    ],
)
def test_durations_in_all_their_forms(written: str | None, seconds: float):
    assert read_duration(written) == pytest.approx(seconds)
