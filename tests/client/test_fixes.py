"""What to fix first, as `saiten score` works it out of results and prints it."""

import io
from collections.abc import Iterator

import numpy as np
import pytest
from rich.console import Console

from saiten.commands.fixes import FixTally, RatedTalk, find_quantile, print_fixes, weigh_kind
from saiten.commands.score import FindingTally
from saiten.core.language import use_language
from saiten_server.stats.resampling import find_quantile as find_exact
from saiten_server.stats.severity import weigh_fault


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    use_language("en")


def test_weights_are_those_of_a_batch() -> None:
    generator = np.random.default_rng(1)
    for talks in (7, 8, 12, 31, 200):
        for share in (0.1, 0.5, 1.0):
            ratings, has = generator.integers(1, 10, talks).astype(np.float64), generator.random(talks) < share
            has[0] = True
            expected = weigh_fault(ratings, has, np.arange(talks))
            found = weigh_kind(
                "repetition",
                [
                    RatedTalk(rating, 5, {"repetition": 1} if own else {})
                    for rating, own in zip(ratings, has, strict=True)
                ],
            )
            assert (found.effect, found.weight) == (
                pytest.approx(expected.effect) if expected.effect is not None else None,
                pytest.approx(expected.weight) if expected.weight is not None else None,
            )
            assert (found.interval is None) == (expected.interval is None)
            if expected.interval is not None:
                assert found.interval == pytest.approx(expected.interval)
            assert found.rate == pytest.approx(100 * int(has.sum()) / (5 * talks))
    for freedom in (1, 2, 3, 4, 7, 30, 501):
        assert find_quantile(freedom) == pytest.approx(find_exact(freedom, 0.05))


def make_result(number: int, **changes: object) -> dict[str, object]:
    """Conversations of two system turns, half of which repeat themselves and are rated 2 lower."""
    kinds = {"repetition": 1} if number % 2 else {}
    aspects = {"overall": {"mean": 7.0 - 2 * (number % 2) - number % 3, "unrated": None}}
    return {"aspects": aspects, "findings": [], "kinds": kinds, "warnings": [], **changes}


@pytest.mark.usefixtures("restored")
def test_the_table_has_what_is_known_in_three_languages() -> None:
    tally = FindingTally()
    turns = [{"speaker": name, "role": role} for name, role in (("u", "user"), ("s", "system")) * 2]
    for number in range(12):
        tally.add({"turns": turns}, make_result(number))
    unrated = {"overall": {"mean": 1.0, "unrated": None}, "empathy": {"mean": None, "unrated": {"reason": "missing"}}}
    for changes in (
        {"kinds": None},
        {"aspects": {"overall": {"mean": None, "unrated": {"reason": "refused"}}}},
        {"aspects": unrated},
        {"warnings": [{"code": "findings-unrated"}]},
    ):
        tally.add({"turns": turns}, make_result(1, **changes))
    (fix,) = tally.fixes.rank()
    assert (fix.conversations, fix.of, fix.rate) == (6, 12, 25.0)
    for language, told in (("en", "overall lower by"), ("ja", "overall の低下"), ("ko", "overall 하락")):
        use_language(language)
        out = io.StringIO()
        print_fixes([fix], Console(file=out, width=120))
        shown = out.getvalue()
        assert told in shown
        row = next(line for line in shown.splitlines() if "repetition" in line)
        assert row.split()[:4] == ["repetition", "25.00", "2.00", "1.00"]
        assert "[" in row
    out = io.StringIO()
    print_fixes(FixTally().rank(), Console(file=out))
    assert out.getvalue() == ""
