"""Batches from all sides: every part as the interface's own analysis answers it, or why there is none."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.analyses.requests import REQUESTS
from saiten_server.comparison.requests import ComparisonRequest
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.rubric import Rubric
from saiten_server.explorer import overview
from saiten_server.explorer.overview import Overviews
from saiten_server.explorer.pages.aspects import WHY_NOT
from saiten_server.ratings.values import HumanRating
from tests.support.bench import KO, Bench, build_bench
from tests.support.fake_rubrics import FakeRubrics, aspect_data, small_rubric
from tests.support.scored_batches import RUBRIC, score_batch

IDS = ("ba_1", "ba_2", "ba_3")
LEVELS = {"ba_1": (0, 1), "ba_2": (1, 2), "ba_3": (1, 3)}
"""Warmth and clarity of nearly every answer."""

COUNT = 12


@pytest.fixture
def overviews(bench: Bench) -> Overviews:
    return make(bench)


def make(bench: Bench, *rubrics: Rubric) -> Overviews:
    source = FakeRubrics([RUBRIC, KO, *rubrics])
    return Overviews(runs=bench.comparison.runs, ratings=bench.store, rubrics=source, compute=bench.comparison.compute)


async def fill(bench: Bench, *, raters: tuple[str, ...] = ()) -> None:
    """Three systems that differ; humans nearly agree with the judge."""
    for batch_id, (warmth, clarity) in LEVELS.items():
        columns = {"warmth": [warmth] * (COUNT - 1) + [1 - warmth], "clarity": [clarity] * (COUNT - 1) + [2]}
        await score_batch(bench.batches, batch_id, columns, name=f"system {batch_id}", blend=0.25)
        given = [
            HumanRating.model_validate(
                {
                    "item": f"item-{at}",
                    "batch": batch_id,
                    "rater": rater,
                    "ratings": {
                        "warmth": (columns["warmth"][at] + (at % 5 == 0)) % 2,
                        "clarity": columns["clarity"][at],
                    },
                }
            )
            for at in range(COUNT)
            for rater in raters
        ]
        if given:
            await bench.rating.keep_ratings("team", given)


async def ask(bench: Bench, name: str, **given: Any) -> Any:
    request = REQUESTS[name].model_validate({"batches": IDS, **given})
    report = await bench.comparison.analyse("team", request, remember=False)
    return report.model_copy(update={"ratings_used": None})  # the overview says it once


async def test_every_part_is_what_its_analysis_answers(bench: Bench, overviews: Overviews) -> None:
    await fill(bench, raters=("r1", "r2"))
    found: Any = await overviews.look("team", IDS)
    assert (found.batches, found.systems, found.ambiguous) == (IDS, tuple(f"system {one}" for one in IDS), 0)
    assert found.judged.hierarchy.report == await ask(bench, "hierarchy", values="scores")
    assert found.rated.hierarchy.report == await ask(bench, "hierarchy")
    assert found.agreement.report == await ask(bench, "agreement")
    assert found.correlation.report == await ask(bench, "correlation")
    assert found.correlation.report.aspects["warmth"].n == 3 * COUNT


async def test_the_matrices_say_what_a_comparison_of_the_runs_says(bench: Bench, overviews: Overviews) -> None:
    await fill(bench, raters=("r1",))
    found: Any = await overviews.look("team", IDS, alpha=0.01)
    for row, column in combinations(range(len(IDS)), 2):
        request = ComparisonRequest.model_validate({"baseline": IDS[row], "candidate": IDS[column]})
        compared = await bench.comparison.compare("team", request)
        blended = {f"{name}.blended": one for name, one in compared.blended.items()}
        measures = {**compared.aspects, **compared.composites, **blended}
        assert measures.keys() == found.judged.matrices.report.keys()
        for name, one in measures.items():
            rows = found.judged.matrices.report[name].rows
            expected = "none" if one.verdict == "inconclusive" else one.verdict
            assert (rows[column][row].outcome, rows[column][row].p) == (expected, one.p_adjusted), name
            assert rows[row][column].p == one.p_adjusted
    assert list(found.rated.matrices.report) == list(found.rated.hierarchy.report.aspects)
    clarity = found.judged.matrices.report["clarity"]
    assert [[cell and cell.outcome for cell in cells] for cells in clarity.rows] == [
        [None, "worse", "worse"],
        ["better", None, "worse"],
        ["better", "better", None],
    ]
    warmth = found.judged.matrices.report["warmth"].rows
    assert (warmth[1][2].outcome, warmth[1][2].p, warmth[0][1].p) == ("none", pytest.approx(1), warmth[1][0].p)


async def test_only_the_chosen_aspects_are_looked_at(bench: Bench, overviews: Overviews) -> None:
    await fill(bench, raters=("r1",))
    found: Any = await overviews.look("team", IDS, aspects=["clarity", "mood"])
    assert list(found.judged.hierarchy.report.aspects) == list(found.agreement.report.aspects) == ["clarity"]
    absent: Any = await overviews.look("team", IDS, aspects=["mood"])
    assert (absent.judged.matrices.code, absent.agreement.code) == ("no-values", "no-ratings")


async def test_without_ratings_the_judges_part_is_there(bench: Bench, overviews: Overviews) -> None:
    await fill(bench)
    found: Any = await overviews.look("team", IDS)
    assert found.judged.hierarchy.report is not None
    for part in (found.rated.hierarchy, found.rated.matrices, found.agreement, found.correlation):
        assert (part.report, part.code) == (None, "no-ratings")
        assert part.reason.startswith("no human ratings concern these results")


async def test_one_system_is_ranked_against_nobody_and_still_rated(bench: Bench, overviews: Overviews) -> None:
    await fill(bench, raters=("r1", "r2"))
    found: Any = await overviews.look("team", ["ba_1", "ba_1"])
    assert (found.judged.hierarchy.code, found.rated.matrices.code) == ("few-systems", "few-systems")
    assert found.agreement.report.aspects["clarity"].n == COUNT


async def test_systems_beyond_a_readable_table_have_no_matrix(
    bench: Bench, overviews: Overviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(bench)
    monkeypatch.setattr(overview, "MOST_MATRIX_SYSTEMS", 2)
    found: Any = await overviews.look("team", IDS)
    assert (found.judged.matrices.code, found.judged.hierarchy.report.systems) == ("many-systems", 3)


async def test_a_batch_without_any_value_says_so(bench: Bench, overviews: Overviews) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, fail=[0, 1])
    found: Any = await overviews.look("team", ["ba_1"])
    assert (found.systems, found.judged.hierarchy.code) == ((), "no-values")


async def test_an_aspect_that_is_best_inside_its_scale_counts_by_its_distance(sqlite_engine: AsyncEngine) -> None:
    tone = small_rubric("tone", aspects=[aspect_data("tone", (-1, 0, 1), best=0)])
    bench = build_bench(sqlite_engine, tone)
    await score_batch(bench.batches, "ba_1", {"tone": [-1, 1] * COUNT}, rubric="tone")
    await score_batch(bench.batches, "ba_2", {"tone": [0, 0] * COUNT}, rubric="tone")
    found: Any = await make(bench, tone).look("team", ["ba_1", "ba_2"])
    cell = found.judged.matrices.report["tone"].rows[0][1]
    assert (cell.outcome, cell.p < 0.01, found.judged.hierarchy.report.best) == ("worse", True, {"tone": 0.0})


async def test_what_cannot_be_looked_at_together_is_refused(
    bench: Bench, overviews: Overviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(bench)
    await score_batch(bench.batches, "ba_4", {"warmth": [0]}, rubric="ko-comment")
    for ids in ([], [f"ba_{number}" for number in range(21)], ["ba_1", "ba_4"]):
        with pytest.raises(InvalidRequest) as refused:
            await overviews.look("team", ids)
        assert refused.value.pointer == "/batches"
    with pytest.raises(InvalidRequest, match="alpha"):
        await overviews.look("team", IDS, alpha=float(np.nan))
    with pytest.raises(NotFound):
        await overviews.look("rivals", IDS)
    monkeypatch.setattr(overview, "MOST_RESULTS", 3 * COUNT - 1)
    with pytest.raises(InvalidRequest, match="36 results; at most 35"):
        await overviews.look("team", IDS)


async def test_results_and_ratings_are_read_once(
    bench: Bench, overviews: Overviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(bench, raters=("r1",))
    calls: list[str] = []
    frames, of_batch = bench.comparison.runs.frames, bench.store.of_batch
    read_frame = frames.read_frame

    async def watch_frames(project: str, batch_id: str):
        calls.append(f"frame of {batch_id}")
        return await read_frame(project, batch_id)

    async def watch_ratings(project: str, batch_id: str, **page: int):
        calls.append(f"ratings of {batch_id}")
        return await of_batch(project, batch_id, **page)

    monkeypatch.setattr(frames, "read_frame", watch_frames)
    monkeypatch.setattr(bench.store, "of_batch", watch_ratings)
    await overviews.look("team", IDS)
    # Of ratings a page with what there is, and an empty one.
    assert sorted(calls) == sorted(f"{what} of {one}" for what in ("frame", "ratings", "ratings") for one in IDS)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("analysis-of-uneven-sample"), "uneven"),
        (Message("aspects-compared-most", aspects=9, items=9, most=3), "too-much"),
    ],
)
def test_why_there_is_no_report_is_told_by_a_code_that_the_page_explains(message: Message, code: str) -> None:
    def refuse(_: int) -> int:
        raise InvalidRequest(message)

    assert overview.map_part(overview.ReportPart(1), refuse).code == code
    assert code in WHY_NOT
