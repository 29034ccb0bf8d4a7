"""A run as columns: what is declared, what is absent, and what stays of some rows."""

import dataclasses

import numpy as np
import pytest

from saiten_server.platform.sql.tables import result_figures
from saiten_server.runs.frame import COLUMNS, FrameRows, Label, RunFrame, make_frame

FAILED = Label("failed")
PLAIN = Label("scored")


def read_rows() -> RunFrame:
    """Three results, the second of which failed; the last has a measure more."""
    rows = FrameRows()
    rows.add(PLAIN, {("aspect", "warmth"): 2.0}, positions=0, items=7)
    rows.add(FAILED, {}, positions=2, items=8)
    rows.add(PLAIN, {("aspect", "warmth"): None, ("blended", "warmth"): 1.5}, positions=5, items=9)
    return rows.finish()


def test_every_column_is_declared_with_its_meaning_and_a_stored_source() -> None:
    frame = make_frame(2, {})
    for name, column in COLUMNS.items():
        found = getattr(frame, name)
        assert found.dtype == column.dtype, name
        assert np.array_equal(found, np.full(2, column.absent, dtype=column.dtype), equal_nan=True), name
        assert column.meaning, name
        assert column.source is None or column.source in result_figures.c, name
    arrays = {one.name for one in dataclasses.fields(RunFrame) if isinstance(getattr(frame, one.name), np.ndarray)}
    assert arrays == {*COLUMNS}
    with pytest.raises(TypeError, match="no column"):
        make_frame(2, {}, moods=np.zeros(2))


def test_rows_that_come_one_by_one_leave_no_gap() -> None:
    frame = read_rows()
    shown = {key: column.tolist() for key, column in frame.values.items()}
    assert str(shown) == str(
        {("aspect", "warmth"): [2.0, np.nan, np.nan], ("blended", "warmth"): [np.nan, np.nan, 1.5]}
    )
    assert (frame.items.tolist(), frame.positions.tolist()) == ([7, 8, 9], [0, 2, 5])
    assert (frame.judged, frame.valued, frame.count_labels(lambda label: [label.status])) == (
        2,
        True,
        {"scored": 2, "failed": 1},
    )
    assert frame.marked(lambda label: label == FAILED).tolist() == [False, True, False]


def test_some_rows_are_a_run_of_their_own() -> None:
    frame = read_rows()
    rows = frame.at(np.array([5, 1, 0], dtype=np.int32))
    assert rows.tolist() == [2, 0]
    taken = frame.take(rows)
    assert (taken.items.tolist(), taken.judged) == ([9, 7], 2)
    assert str(taken.values["aspect", "warmth"].tolist()) == "[nan, 2.0]"
    assert len(FrameRows().finish()) == 0
