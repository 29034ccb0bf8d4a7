"""Runs to compare, from columns of ratings or from responses one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

import numpy as np

from saiten_server.comparison.values import ComparedRun
from saiten_server.core.model import key_of
from saiten_server.runs.frame import Floats, FrameRows, Label, RunFrame, RunRatings, kind_of
from saiten_server.runs.summary import MeasureKey

SIGNATURE = "saiten:1|rubric:small@1|model:judge-1:8b"

Column = Sequence[float | None]


@dataclass(frozen=True)
class Row:
    """One response of a run. The item, its context and its dialogue are names, or keys where they were read back."""

    item: str | int
    context: str | int | None = None
    ratings: Mapping[str, float | None] = field(default_factory=dict)
    composites: Mapping[str, float | None] = field(default_factory=dict)
    blended: Mapping[str, float | None] = field(default_factory=dict)
    findings: Mapping[str, float | None] = field(default_factory=dict)
    cluster: str | int | None = None
    system: str | None = None
    inapplicable: frozenset[str] = frozenset()
    people: Mapping[str, float] = field(default_factory=dict)
    said: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    weight: float = 1.0


def key(name: str | int | None) -> int:
    """The key of a name; 0 of None."""
    return 0 if name is None else name if isinstance(name, int) else key_of(name)


def make_frame(rows: Sequence[Row], aspects: Sequence[str] = ()) -> RunFrame:
    """The frame of these responses; the `aspects` are there whether any response has them or not."""
    made = FrameRows()
    for number, row in enumerate(rows):
        values: dict[MeasureKey, float | None] = {("aspect", name): row.ratings.get(name) for name in aspects}
        values |= {("aspect", name): value for name, value in row.ratings.items()}
        values |= {("composite", name): value for name, value in row.composites.items()}
        values |= {("blended", name): value for name, value in row.blended.items()}
        values |= {(kind_of(name), name): value for name, value in row.findings.items()}
        reasons: dict[str, str | None] = {name: None for name, value in row.ratings.items() if value is None}
        reasons |= dict.fromkeys(row.inapplicable, "not-applicable")
        label = Label("scored" if row.ratings else "failed", reasons=frozenset(reasons.items()), system=row.system)
        keys = {"items": key(row.item), "contexts": key(row.context), "clusters": key(row.cluster)}
        made.add(label, values, positions=number, weights=row.weight, **keys)
    frame = made.finish()
    nothing: dict[MeasureKey, Floats] = {("aspect", name): np.full(len(rows), np.nan) for name in aspects}
    people = dict.fromkeys(name for row in rows for name in row.people)
    said = dict.fromkeys(name for row in rows for name in row.said)
    return replace(
        frame,
        values={**nothing, **frame.values},
        people={name: np.array([row.people.get(name, np.nan) for row in rows]) for name in people},
        said={name: list_ratings(rows, name) for name in said},
    )


def list_ratings(rows: Sequence[Row], name: str) -> RunRatings:
    """What each rater said of each response by that name."""
    found = [(number, *each) for number, row in enumerate(rows) for each in row.said.get(name, {}).items()]
    raters = [key(rater) for _, rater, _ in found]
    numbers, values = [number for number, *_ in found], [value for *_, value in found]
    return RunRatings(np.array(numbers, np.int64), np.array(raters, np.int64), np.array(values, np.float64))


def rows_of(run: ComparedRun) -> list[Row]:
    """The responses of a run, with the values that there are."""
    frame = run.frame

    def read(kinds: set[str], number: int) -> dict[str, float | None]:
        found = {name: float(column[number]) for (kind, name), column in frame.values.items() if kind in kinds}
        return {name: None if isnan(value) else value for name, value in found.items()}

    def known(values: dict[str, float | None]) -> dict[str, float]:
        return {name: value for name, value in values.items() if value is not None}

    said: list[dict[str, dict[int, float]]] = [{} for _ in range(len(frame))]
    for name, given in frame.said.items():
        for number, rater, value in zip(*(column.tolist() for column in given), strict=True):
            said[number].setdefault(name, {})[rater] = value
    rows = []
    for number in range(len(frame)):
        label = frame.labels[frame.label[number]]
        failed = label.status == "failed" and not label.unrated
        rows.append(
            Row(
                item=int(frame.items[number]),
                context=int(frame.contexts[number]) or None,
                ratings={} if failed else read({"aspect"}, number),
                composites=read({"composite"}, number),
                blended=known(read({"blended"}, number)),
                findings=read({"finding", "kind"}, number),
                cluster=int(frame.clusters[number]) or None,
                system=label.system,
                inapplicable=label.inapplicable,
                people={name: one for name, column in frame.people.items() if not isnan(one := float(column[number]))},
                said=said[number],
                weight=float(frame.weights[number]),
            )
        )
    return rows


def with_rows(run: ComparedRun, rows: Sequence[Row], **changes: Any) -> ComparedRun:
    """The run with these responses."""
    return replace(run, frame=make_frame(rows, run.aspects), **changes)


def make_run(
    name: str, columns: Mapping[str, Column], rows: Sequence[Row] | None = None, **changes: Any
) -> ComparedRun:
    """A complete run whose items are numbered from 0, with a rating of each aspect from its column; scales are 1–5."""
    count = max((len(column) for column in columns.values()), default=0)
    if rows is None:
        rows = [
            Row(
                str(number),
                f"context-{number}",
                {aspect: column[number] for aspect, column in columns.items()},
                system=name,
            )
            for number in range(count)
        ]
    fields: dict[str, Any] = {
        "frame": make_frame(rows, tuple(columns)),
        "expected": count,
        "signatures": {SIGNATURE: count} if count else {},
        "scales": dict.fromkeys(columns, (1.0, 5.0)),
        "aspects": tuple(columns),
    }
    return ComparedRun(name=name, **{**fields, **changes})
