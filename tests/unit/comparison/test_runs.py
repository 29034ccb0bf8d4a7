"""A batch as a run: every value where it belongs, whatever is missing."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Executable, delete

from app.batches import summaries
from app.comparison.runs import are_numbered, find_batch, read_items, scales_of, tabulate_frame
from app.domain.comparison import ComparedRun
from app.domain.dialogue import digest_context
from app.domain.errors import NotFound
from app.domain.evaluation import EvaluationRequest
from app.domain.rubric import Rubric
from app.domain.run_frame import RunTable, tabulate_items
from app.domain.summary import RunItem
from app.storage.sql.engine import write
from app.storage.sql.tables import result_figures
from tests.support.bench import Bench
from tests.support.fake_rubrics import aspect_data, small_rubric
from tests.support.records import make_record
from tests.support.scored_batches import RUBRIC, SIGNATURE, score_batch


async def run_of(bench: Bench, batch_id: str = "ba_1", rubric: Rubric = RUBRIC) -> ComparedRun:
    return await bench.comparison.runs.read("team", await find_batch(bench.batches, "team", batch_id), rubric)


async def items_of(bench: Bench, batch_id: str = "ba_1") -> list[RunItem]:
    return await read_items(bench.batches, "team", await find_batch(bench.batches, "team", batch_id))


async def test_a_run_has_the_batchs_values(bench: Bench) -> None:
    await score_batch(
        bench.batches, "ba_1", {"warmth": [0, 1], "clarity": [3, None]}, blend=0.25, name="夜間", systems=["甲", ""]
    )
    run = await run_of(bench)
    assert (run.name, run.expected, run.signatures) == ("夜間 (ba_1)", 2, {SIGNATURE: 2})
    assert (run.aspects, run.numbered, run.best) == (("warmth", "clarity"), False, {})
    first, second = await items_of(bench)
    assert (first.item, first.candidate, first.system, second.system) == ("item-0", None, "甲", None)
    assert (first.ratings, first.blended) == ({"warmth": 0, "clarity": 3}, {"warmth": 0.25, "clarity": 3.25})
    assert (second.ratings, second.blended) == ({"warmth": 1, "clarity": None}, {"warmth": 1.25})
    assert (first.position, second.position) == (0, 1)
    request = make_record().request
    assert isinstance(request, EvaluationRequest)
    assert first.context == digest_context(request.context)


async def test_a_batch_is_found_in_its_project_alone(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0]})
    assert (await find_batch(bench.batches, "team", "ba_1")).id == "ba_1"
    with pytest.raises(NotFound, match="no batch ba_1 in this project"):
        await find_batch(bench.batches, "rivals", "ba_1")


async def test_the_system_is_the_candidates_own_else_the_batchs(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, systems=["甲", ""], metadata={"system": "乙"})
    assert [item.system for item in await items_of(bench)] == ["甲", "乙"]
    await score_batch(bench.batches, "ba_2", {"warmth": [0, 1]}, metadata={"system": "乙"})
    assert [item.system for item in await items_of(bench, "ba_2")] == ["乙", "乙"]


async def test_a_failed_candidate_is_expected_and_has_no_value(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, 1]}, fail=[1])
    run = await run_of(bench)
    assert (run.name, run.expected, run.signatures) == ("ba_1", 3, {SIGNATURE: 2})
    assert [item.ratings for item in await items_of(bench)] == [{"warmth": 0}, {}, {"warmth": 1}]


async def test_a_batch_of_failures_alone_has_no_signature(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, fail=[0, 1])
    assert (await run_of(bench)).signatures == {}


def tell(table: RunTable) -> dict[str, object]:
    """Everything in the table, as values that are equal where it is."""
    named = {name: getattr(table, name) for name in ("values", "people")}
    columns = {name: {key: column.tolist() for key, column in found.items()} for name, found in named.items()}
    keys = {name: getattr(table, name).tolist() for name in ("items", "contexts", "clusters")}
    return {**columns, **keys, "counts": (table.judged, table.valued, dict(table.inapplicable))}


TRICKY: dict[str, dict[str, Any]] = {
    "blended, some failed": {"blend": 0.3, "fail": [1]},
    "turns of dialogues": {"clusters": ["00000000000000a1", None, "fedcba9876543210", "00000000000000a1"]},
    "candidates and repetitions": {"entries": [("a", 0), ("a", 1), ("b", None), ("a", 0)]},
    "numbers": {"entries": [(str(number), None) for number in range(4)]},
    "numbers again": {"entries": [("0", None), ("1", None), ("0", None), ("1", None)]},
    "all failed": {"fail": range(4)},
}


@pytest.mark.parametrize("kind", TRICKY)
async def test_columns_say_what_the_results_say(bench: Bench, kind: str) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, None, 1], "clarity": [3, None, 1, 2]}, **TRICKY[kind])
    batch, items = await find_batch(bench.batches, "team", "ba_1"), await items_of(bench)
    table = tabulate_frame(await bench.comparison.runs.frames.read_frame("team", "ba_1"), batch, RUBRIC)
    assert table is not None
    told = tabulate_items(items, [aspect.id for aspect in RUBRIC.aspects])
    # NaN is in its place where it is equal as text.
    assert str(tell(table)) == str(tell(told))
    assert (await run_of(bench)).numbered is are_numbered(item.item for item in items) is kind.startswith("numbers")


async def test_results_are_read_one_by_one_where_columns_do_not_tell_everything(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1], "clarity": [3, None]}, blend=0.25)
    batch, frames = await find_batch(bench.batches, "team", "ba_1"), bench.comparison.runs.frames
    expected = str(tell((await run_of(bench)).table))
    # Another rubric measures one of the aspects only, or one more.
    less, more = (
        small_rubric(aspects=[aspect_data("warmth")]),
        small_rubric(aspects=[aspect_data(name) for name in ("warmth", "clarity", "wit")]),
    )
    for rubric in (less, more):
        assert tabulate_frame(await frames.read_frame("team", "ba_1"), batch, rubric) is None
        run = await run_of(bench, rubric=rubric)
        assert run.table.values["aspect", "warmth"].tolist() == [0, 1]
    await write_all(bench, delete(result_figures).where(result_figures.c.position == 0))
    assert tabulate_frame(await frames.read_frame("team", "ba_1"), batch, RUBRIC) is None
    assert str(tell((await run_of(bench)).table)) == expected


async def write_all(bench: Bench, statement: Executable) -> None:
    async with write(bench.engine) as connection:
        await connection.execute(statement)


async def test_all_pages_are_read_once_in_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "SCORES_PAGE", 3)
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1] * 4})
    batch = await find_batch(bench.batches, "team", "ba_1")
    assert [item.position for item in await read_items(bench.batches, "team", batch)] == list(range(8))
    assert await read_items(bench.batches, "rivals", batch) == []


@pytest.mark.parametrize("given", [True, False, None])
async def test_whether_ids_were_given_is_recorded_and_guessed_only_of_earlier_batches(
    bench: Bench, given: bool | None
) -> None:
    entries = [(str(number), None) for number in range(3)]
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, 1]}, entries=entries, ids_given=given)
    assert (await run_of(bench)).numbered is (not given)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["0", "1", "2"], True),
        (["0", "0", "1"], True),  # two candidates of the first item
        (["1", "2"], False),  # a caller's own
        (["0", "2"], False),
        (["0", "01"], False),
        (["a"], False),
        ([], True),
    ],
)
def test_numbers_are_those_that_nobody_gave(items: list[str], expected: bool) -> None:
    assert are_numbered(items) is expected


def test_a_blend_counts_on_its_aspects_scale_and_a_composite_on_its_own() -> None:
    rubric = small_rubric(
        composites=[
            {"id": "both", "kind": "mean", "of": ["warmth", "clarity"]},
            {"id": "cold", "kind": "linear", "intercept": 5, "terms": [{"aspect": "clarity", "weight": -2}]},
        ]
    )
    assert scales_of(rubric) == {
        "warmth": (0.0, 1.0),
        "clarity": (1.0, 3.0),
        "both": (0.5, 2.0),  # (0 + 1)/2 and (1 + 3)/2
        "cold": (-1.0, 3.0),  # 5 − 2·3 and 5 − 2·1
        "warmth.blended": (0.0, 1.0),
        "clarity.blended": (1.0, 3.0),
    }
