"""The explorer's state, as its addresses have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from starlette.datastructures import QueryParams

from saiten_server.core.conversation import FINDING
from saiten_server.core.evaluation import RESULT_STATUSES
from saiten_server.core.rubric import Rubric
from saiten_server.platform.web.language import query
from saiten_server.runs.result import ANY_ASPECT, CaseChoice, CaseQuery, CaseSort, ResultQuery
from saiten_server.runs.summary import BLENDED, SYSTEM

MOST_QUERY_CHARACTERS = 200
MOST_VALUE = 1e15
LARGEST_NUMBER = 10_000_000

MOST_VALUE_FILTERS = 8
"""Most value filters in an address."""

LINES = 25
"""Responses of one run on a page, each with all its texts."""

OF_SEVERAL = {"drop", "gain", "runs"}
"""Orders that one run has not."""

NEIGHBOURS = 2
"""Pages linked on either side of the one that is shown."""


@dataclass(frozen=True)
class Exploration:
    """The page's state: runs, of which the first is what the others are compared with, cases, and the page's number.
    `usual` is the measure of the only run's list where none is chosen: of several runs all aspects count together.

    Of the verdict on two runs: `link` is the id of a link between their judges, `mismatch` asks for it although they
    were not judged alike, `figures` is `corrected` for those by people's ratings, None for the judge's, and `gate` is
    the id of the kept verdict that is shown, None for the newest.
    """

    runs: tuple[str, ...]
    cases: CaseQuery
    number: int = 1
    link: str | None = None
    mismatch: bool = False
    figures: str | None = None
    gate: str | None = None
    usual: str | None = None

    def parameters(self) -> dict[str, Any]:
        """The state as an address has it."""
        cases = self.cases
        return {
            "run": list(self.runs),
            "sort": None if cases.sort == self.usual_sort else cases.sort,
            "measure": cases.measure,
            "show": None if cases.show == "all" else cases.show,
            "value": [f"{name}:{write_level(*ends)}" for name, ends in cases.levels.items()],
            **{name: getattr(cases, name) for name in ("unrated", "warning", "status", "text")},
            "meta": "=".join(cases.metadata) if cases.metadata else None,
            "link": self.link,
            "mismatch": "1" if self.mismatch else None,
            "figures": self.figures,
            "gate": self.gate,
        }

    @property
    def measure(self) -> str | None:
        """The measure that counts; None for all aspects together."""
        return self.cases.measure or self.usual

    def query(self, best: Mapping[str, float], ranked: Sequence[int] | None = None) -> ResultQuery:
        """What to ask of the only run's results. `best` holds the best value of measures on which it is not the
        highest, and `ranked` are the positions where they are sorted by what people say."""
        cases = self.cases
        sort = self.measure if cases.sort in {"worst", "best"} else None
        target = best.get((sort or "").removesuffix(BLENDED))
        # Far from the target is bad, low without one.
        best_first, by_spread = cases.sort == "best", cases.sort == "samples"
        return ResultQuery(
            sort=sort,
            descending=(sort is not None and (best_first if target is None else not best_first)) or by_spread,
            target=target,
            by_spread=by_spread,
            ranked=None if ranked is None else tuple(ranked),
            **{name: getattr(cases, name) for name in ("levels", "unrated", "warning", "status", "metadata", "text")},
        )

    def item(self, position: int, at: int) -> str:
        """The address of a result of the only run, which is number `at` of the list, from 0."""
        of_list = {name: value for name, value in self.parameters().items() if name != "run"}
        return query(f"/runs/{self.runs[0]}/items/{position}", at=str(at), **of_list)

    @property
    def usual_sort(self) -> CaseSort:
        return find_usual_sort(self.runs)

    def address(self, path: str = "/explore", *, number: int = 1, **changes: Any) -> str:
        """This page, the one of another number, or this one with other values of fields."""
        return query(path, **replace(self, **changes).parameters(), page=number if number > 1 else None)

    def with_runs(self, *runs: str) -> str:
        """The address of the same cases of other runs. What was said of two judges is left out."""
        changes: dict[str, Any] = {} if {*runs} == {*self.runs} else {"link": None, "mismatch": False, "gate": None}
        if self.cases.sort == self.usual_sort:
            changes["cases"] = replace(self.cases, sort=find_usual_sort(runs))
        return self.address(runs=runs, **changes)

    def where(self, **changes: Any) -> str:
        """The address of other cases of the same runs."""
        return self.asking(**changes).address()

    def without_each(self) -> Iterator[tuple[str, str, Exploration]]:
        """Each filter in force, as its parameter and value, with the state without it."""
        cases = self.cases
        for name, ends in cases.levels.items():
            left = {other: between for other, between in cases.levels.items() if other != name}
            yield "value", f"{name}:{write_level(*ends)}", self.asking(levels=left)
        for name in ("unrated", "warning", "status", "text"):
            if (value := getattr(cases, name)) is not None:
                yield name, value, self.asking(**{name: None})
        if cases.metadata is not None:
            yield "metadata", " = ".join(cases.metadata), self.asking(metadata=None)
        if cases.show != "all":
            yield "show", cases.show, self.asking(show="all")

    def asking(self, **changes: Any) -> Exploration:
        """The first page of other cases of the same runs."""
        return replace(self, cases=replace(self.cases, **changes), number=1)

    @property
    def bare(self) -> str:
        """The address without filters."""
        kept = CaseQuery(sort=self.cases.sort, measure=self.cases.measure)
        return self.address(cases=kept)


def read_exploration(
    asked: QueryParams, measures: Sequence[str], runs: Sequence[str], usual: str | None = None
) -> Exploration:
    """What the address says, of measures that there are."""
    sort, show, measure = asked.get("sort"), asked.get("show"), asked.get("measure")
    status, unrated = asked.get("status"), asked.get("unrated")
    key, between, value = (shorten_query(asked.get("meta")) or "").partition("=")
    is_known = len(runs) > 1 or sort not in OF_SEVERAL
    cases = CaseQuery(
        sort=cast(CaseSort, sort) if sort in get_args(CaseSort) and is_known else find_usual_sort(runs),
        measure=measure if measure in measures else None,
        show=cast(CaseChoice, show) if show in get_args(CaseChoice) and len(runs) > 1 else "all",
        levels=dict(read_levels(asked, measures)),
        unrated=unrated if unrated == ANY_ASPECT or unrated in measures else None,
        warning=shorten_query(asked.get("warning")),
        status=status if status in RESULT_STATUSES else None,
        text=shorten_query(asked.get("text")),
        metadata=(key.strip(), value.strip()) if key.strip() and between else None,
    )
    return Exploration(
        tuple(runs),
        cases,
        read_address_number(asked.get("page"), least=1) or 1,
        link=shorten_query(asked.get("link")),
        mismatch=asked.get("mismatch") == "1",
        figures="corrected" if asked.get("figures") == "corrected" else None,
        gate=shorten_query(asked.get("gate")),
        usual=usual,
    )


def find_usual_sort(runs: Sequence[str]) -> CaseSort:
    """The order where none is chosen."""
    return "drop" if len(runs) > 1 else "worst"


def find_usual(measures: Sequence[str], rubric: Rubric | None) -> str | None:
    """What sums a response up: the overall impression, else the first composite, else the first aspect."""
    composites = [composite.id for composite in rubric.composites] if rubric else []
    aspects = [aspect.id for aspect in rubric.aspects] if rubric else []
    return next((measure for measure in ("overall", *composites, *aspects, *measures) if measure in measures), None)


def read_levels(asked: QueryParams, measures: Sequence[str]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Measures with the least and the most that they are to be: out of `value=coherence:0` or `value=overall:2..4`,
    and out of `aspect`, `least` and `most` as the form has them. What is no number is passed by."""
    given = [text.rpartition(":") for text in asked.getlist("value")[: 2 * MOST_VALUE_FILTERS]]
    written = [(measure, ends.split("..") if ".." in ends else [ends, ends]) for measure, _, ends in given]
    form = [asked.get(name, "").strip() for name in ("least", "most")]
    for measure, ends in [*written[:MOST_VALUE_FILTERS], *([(asked.get("aspect", ""), form)] if any(form) else [])]:
        try:
            least, most = (
                float(end[:20]) if end else other for end, other in zip(ends, (-math.inf, math.inf), strict=True)
            )
        except ValueError:
            continue
        known = [end for end in (least, most) if not math.isinf(end)]
        if measure in measures and known and all(abs(end) <= MOST_VALUE for end in known):
            yield measure, (least, most)


def write_level(least: float, most: float) -> str:
    """A value, or what it is to lie between, as an address has it."""
    ends = ["" if math.isinf(end) else write_value(end) for end in (least, most)]
    return ends[0] if least == most else "..".join(ends)


def write_value(value: float) -> str:
    """Whole levels without a point, anything else with every digit."""
    return str(int(value)) if value.is_integer() else repr(value)


def shorten_query(text: str | None) -> str | None:
    """The text on one line, truncated; None if it is empty."""
    shown = "".join(character for character in (text or "")[:MOST_QUERY_CHARACTERS] if character.isprintable())
    return shown.strip() or None


def read_address_number(text: str | None, *, least: int = 0) -> int | None:
    """A number in an address, or None."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 8:
        return None
    number = int(text)
    return number if least <= number <= LARGEST_NUMBER else None


def list_numbers(number: int, last: int) -> list[int | None]:
    """The pages to link: the first, the last, and those near this one; None stands for those left out."""
    near = range(max(1, number - NEIGHBOURS), min(last, number + NEIGHBOURS) + 1)
    numbers: list[int | None] = []
    for page in sorted({1, last, *near}):
        if numbers and page - (numbers[-1] or 0) > 1:
            numbers.append(None)
        numbers.append(page)
    return numbers


def translate_query(batch_id: str, asked: QueryParams) -> dict[str, Any]:
    """The parameters of a run's former list of items as the explorer has them."""
    former = {name: asked.get(name) for name in ("sort", "order", "finding", "system", "unrated", "status", "text")}
    first = ((read_address_number(asked.get("page"), least=1) or 1) - 1) * FORMER_ROWS
    in_order = former["sort"] == "position"
    return {
        "run": batch_id,
        "sort": "item" if in_order else "best" if former["order"] == "best" else None,
        "measure": None if in_order else former["sort"],
        "value": asked.getlist("value"),
        "warning": FINDING + former["finding"] if former["finding"] else asked.get("warning"),
        "meta": f"{SYSTEM}={former['system']}" if former["system"] else None,
        **{name: former[name] for name in ("unrated", "status", "text")},
        "page": first // LINES + 1 if first else None,
    }


FORMER_ROWS = 50
"""Rows on a page of the former list of items."""
