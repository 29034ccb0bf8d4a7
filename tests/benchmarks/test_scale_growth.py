"""What of a batch is held to be flat, as figures."""

from benchmarks.scale import FLAT_COLUMNS, Row
from benchmarks.scale_growth import LABELS, compare


def row(items, **changes):
    """Rates of 1,000/s, 100 MB, a page of 10 ms."""
    made = Row("embedded", items, reads_ms={"a page": 10.0})
    for name in FLAT_COLUMNS:
        setattr(made, name, 1000.0 if name.endswith("per_second") else 100.0)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_all_that_is_to_be_flat_has_a_label():
    assert set(LABELS) == set(FLAT_COLUMNS)


def test_the_same_at_every_size_is_flat():
    figures = compare("embedded", [row(1000), row(10_000), row(100_000)])
    assert len(figures) == len(FLAT_COLUMNS) + 1
    assert all(figure.met for figure in figures)
    assert all(figure.ratio("limit") == 1 for figure in figures)
    assert figures[0].name == "embedded, 100,000 items: taken in"


def test_what_grows_is_missed():
    grown = row(100_000, work_per_second=790.0, work_steady_mb=126.0, reads_ms={"a page": 36.0})
    missed = [figure.name.split(": ")[1] for figure in compare("embedded", [row(1000), grown]) if not figure.met]
    assert missed == ["scored", "memory while scored, of who scores", "a page"]


def test_a_little_is_not_growth():
    grown = row(100_000, work_per_second=801.0, work_steady_mb=124.0, reads_ms={"a page": 34.0})
    assert all(figure.met for figure in compare("embedded", [row(1000), grown]))


def test_a_part_that_a_stage_has_not_is_left_out():
    figures = compare("embedded", [row(1000, service_steady_mb=0.0), row(100_000, service_steady_mb=0.0)])
    assert not any("of the service" in figure.name for figure in figures)
