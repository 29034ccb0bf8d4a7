"""A run as columns: what is read of conversations, and what is kept of a large run."""

import numpy as np

from saiten_server.core.conversation import FaultyTurns
from saiten_server.runs.frame import COLUMNS, RunFrame
from saiten_server.runs.store.frames import pack_frame, unpack_frame
from saiten_server.runs.summary import ResultFigures
from tests.support.figures import make_figures, place_figures

RESULTS = [
    make_figures(
        "scored",
        {"overall": (7 / 3, None, None, 2)},
        {},
        faulty=FaultyTurns(4, {"judge": [0, 3], "kinds": [], "kind:repetition": [3]}),
        system="甲",
        build="b1",
    ),
    make_figures(
        "partial",
        {"overall": (2.0, None, None, 2), "goal": (None, None, "not-applicable", None)},
        {},
        faulty=FaultyTurns(5, {"judge": [], "repetition": [1]}),
        warnings=("baseline-judge",),
    ),
    make_figures("failed", {"overall": (None, None, "refused", None)}, {}, faulty=FaultyTurns(2, {})),
    ResultFigures("failed", {}, failure="judge-refused-request"),
]


def show(frame: RunFrame) -> dict[str, object]:
    """Everything in the frame, with NaN as a text, which is equal to itself."""
    columns = {name: str(getattr(frame, name).tolist()) for name in COLUMNS}
    values = {key: str(column.tolist()) for key, column in frame.values.items()}
    ratings = {name: str(column.tolist()) for name, column in frame.ratings.items()}
    return {**columns, "values": values, "ratings": ratings, "labels": frame.labels, "faults": frame.faults}


def test_findings_are_rates_where_they_are_known() -> None:
    frame = place_figures(RESULTS)
    rates = {name: frame.values[kind, name] for kind, name in frame.values if kind in {"finding", "kind"}}
    nan = np.nan
    assert np.array_equal(rates["finding:judge"], [50.0, 0.0, nan, nan], equal_nan=True)
    assert np.array_equal(rates["finding:any"], [50.0, 20.0, nan, nan], equal_nan=True)
    assert np.array_equal(rates["finding:repetition"], [0.0, 20.0, 0.0, nan], equal_nan=True)
    assert np.array_equal(rates["finding:kind:repetition"], [25.0, nan, nan, nan], equal_nan=True)
    assert frame.system_turns.tolist() == [4, 5, 2, 0]
    assert [frame.labels[number].inapplicable for number in frame.label] == [set(), {"goal"}, set(), set()]
    assert (frame.judged, dict(frame.inapplicable)) == (3, {"goal": 1})


def test_a_run_is_kept_and_read_back_as_it_is() -> None:
    for frame in (place_figures(RESULTS), place_figures([])):
        assert show(unpack_frame(pack_frame(frame))) == show(frame)
