"""What is kept of recent texts: so much, so long, and those that were used last."""

from hypothesis import given
from hypothesis import strategies as st

from saiten_server.providers.bertscore.similarity import ByteLimitedCache


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make(max_bytes: int = 10, max_age_seconds: float = 20.0) -> tuple[ByteLimitedCache[str, int], Clock]:
    clock = Clock()
    return ByteLimitedCache(max_bytes, clock, max_age_seconds), clock


def test_what_was_not_used_for_longest_makes_room() -> None:
    recent, _ = make(max_bytes=10)
    recent.put("a", 1, 4)
    recent.put("b", 2, 4)
    assert recent.get("a") == 1
    recent.put("c", 3, 4)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]


def test_what_is_put_again_counts_once() -> None:
    recent, _ = make(max_bytes=10)
    for value in range(5):
        recent.put("a", value, 6)
    recent.put("b", 9, 4)
    assert [recent.get(key) for key in "ab"] == [4, 9]


def test_what_is_larger_than_all_room_is_not_kept() -> None:
    recent, _ = make(max_bytes=10)
    recent.put("a", 1, 11)
    assert recent.get("a") is None
    assert len(recent) == 0


def test_age_counts_from_the_first_moment_not_from_the_last_use() -> None:
    recent, clock = make(max_age_seconds=20)
    recent.put("a", 1, 1)
    clock.seconds = 12
    recent.put("b", 2, 1)
    clock.seconds = 19
    assert recent.get("a") == 1
    assert recent.expire() == 1
    clock.seconds = 20
    assert recent.get("a") is None
    assert recent.expire() == 12
    assert (len(recent), recent.get("b")) == (1, 2)
    clock.seconds = 32
    assert recent.expire() is None
    assert len(recent) == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12), st.floats(0, 9)), max_size=50))
def test_never_holds_more_bytes_or_anything_older(steps: list[tuple[str, int, float]]) -> None:
    recent, clock = make(max_bytes=20, max_age_seconds=20)
    put: dict[str, tuple[int, float]] = {}
    for key, size, wait in steps:
        clock.seconds += wait
        recent.expire()
        recent.put(key, size, size)
        put[key] = (size, clock.seconds)
        kept = [one for one in "abcdef" if recent.get(one) is not None]
        assert len(kept) == len(recent)
        assert sum(put[one][0] for one in kept) <= 20
        assert all(clock.seconds - put[one][1] < 20 for one in kept)
