"""A file on one's own machine may hold more than a service takes."""

from pathlib import Path

import pytest

from saiten.commands.files import InvalidItems
from saiten_server.analyses.requests import AgreementRequest
from saiten_server.cli.analysis_input import read_observations
from saiten_server.stats import reading
from saiten_server.stats.reading import FILE_BOUNDS, ReadingLimits
from tests.support.fake_rubrics import FakeRubrics

LINES = "".join(f'{{"item": "{number}", "ratings": {{"a": 1}}}}\n' for number in range(4))
TABLE = "item,a\n" + "".join(f"{number},1\n" for number in range(4))


@pytest.mark.parametrize(("name", "text"), [("r.ndjson", LINES), ("r.csv", TABLE)])
def test_a_file_has_bounds_of_its_own(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(reading, "MOST_READ_RATINGS", 3)
    assert read_observations(str(path), None, AgreementRequest(), FakeRubrics([])).n == 4
    monkeypatch.setattr(reading, "FILE_BOUNDS", ReadingLimits(rows=3, cells=FILE_BOUNDS.cells))
    with pytest.raises(InvalidItems, match=r"line [45]: is one more than the 3 ratings"):
        read_observations(str(path), None, AgreementRequest(), FakeRubrics([]))


def test_ten_million_ratings_of_ten_aspects_with_scores_fit() -> None:
    assert FILE_BOUNDS.rows >= 10_000_000
    assert FILE_BOUNDS.cells >= 10_000_000 * (20 + 5)
