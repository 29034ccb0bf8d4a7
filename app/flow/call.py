"""One call that was let through, and what is learned from how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.flow.state import Report

RATIO_WEIGHT = 0.1
"""Of the latest reply in the running ratio of tokens used to tokens expected."""
LEAST_RATIO, GREATEST_RATIO = 0.05, 20.0


@dataclass(frozen=True)
class RateLimits:
    """What a reply said of the endpoint's limits; None where it said nothing.

    `closed_seconds` is above 0 where it said that nothing is left until then.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    closed_seconds: float = 0.0


SAID_NOTHING = RateLimits()


@dataclass
class News:
    """What a process has seen since its last exchange. `urgent` where the others must know it before they call."""

    successes: int = 0
    tokens: int = 0
    throttled_since: float | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    urgent: bool = False

    def learn(self, limits: RateLimits) -> None:
        self.requests_per_minute = limits.requests_per_minute or self.requests_per_minute
        self.tokens_per_minute = limits.tokens_per_minute or self.tokens_per_minute

    def throttle(self, since: float) -> None:
        """A call that began at `since` was answered with 429."""
        self.throttled_since = since if self.throttled_since is None else max(since, self.throttled_since)

    def take(self, now: float, opens_at: float) -> Report:
        """All of it, as the other processes are to be told; then it is no news any more."""
        report = Report(
            successes=self.successes,
            throttled_age_seconds=None if self.throttled_since is None else now - self.throttled_since,
            closed_seconds=max(0.0, opens_at - now),
            tokens=self.tokens,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
        )
        self.successes = self.tokens = 0
        self.throttled_since = self.requests_per_minute = self.tokens_per_minute = None
        self.urgent = False
        return report


@dataclass
class TokenRatio:
    """How many tokens a call uses for each that was expected, as the last calls had it."""

    value: float = 1.0

    def reserve(self, expected: int) -> int:
        return max(1, round(expected * self.value))

    def learn(self, used: int, expected: int) -> None:
        latest = min(GREATEST_RATIO, max(LEAST_RATIO, used / max(1, expected)))
        self.value += RATIO_WEIGHT * (latest - self.value)


@dataclass(frozen=True)
class Call:
    """A call under way since `began_at`. Tell it once how it went; errors that say nothing of limits are not told."""

    began_at: float
    expected: int
    reserved: int
    news: News
    ratio: TokenRatio
    close_for: Callable[[float], None]

    def succeeded(self, limits: RateLimits = SAID_NOTHING, tokens_used: int = 0) -> None:
        """`tokens_used` are the prompt's and the reply's together, 0 where the endpoint does not tell."""
        self.news.successes += 1
        if tokens_used > 0:
            self.news.tokens += tokens_used - self.reserved
            self.ratio.learn(tokens_used, self.expected)
        self._heed(limits, 0.0)

    def throttled(self, retry_after_seconds: float | None = None, limits: RateLimits = SAID_NOTHING) -> None:
        """The endpoint answered with 429. It counts no tokens."""
        self.news.throttle(self.began_at)
        self.news.tokens -= self.reserved
        self.news.urgent = True
        self._heed(limits, retry_after_seconds or 0.0)

    def put_off(self, retry_after_seconds: float, limits: RateLimits = SAID_NOTHING) -> None:
        """The endpoint failed and asked for a pause."""
        self._heed(limits, retry_after_seconds)

    def _heed(self, limits: RateLimits, seconds: float) -> None:
        self.news.learn(limits)
        seconds = max(seconds, limits.closed_seconds)
        if seconds > 0:
            self.news.urgent = True
            self.close_for(seconds)
