"""A batch as a run: every value where it belongs, whatever is missing."""

from typing import Any

import numpy as np
import pytest

from saiten_server.comparison.runs import find_batch, fit_frame, have_numbers, scales_of
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.dialogue import digest_context
from saiten_server.core.errors import NotFound
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.model import key_of
from saiten_server.core.rubric import Rubric
from saiten_server.runs import summaries
from saiten_server.runs.frame import COLUMNS, FrameRows, Label, RunFrame, key_all
from saiten_server.runs.store import frames
from saiten_server.runs.summary import MeasureKey
from tests.support.bench import Bench
from tests.support.fake_rubrics import aspect_data, small_rubric
from tests.support.records import make_record
from tests.support.scored_batches import RUBRIC, SIGNATURE, score_batch


async def run_of(bench: Bench, batch_id: str = "ba_1", rubric: Rubric = RUBRIC) -> ComparedRun:
    return await bench.comparison.runs.read("team", await find_batch(bench.batches, "team", batch_id), rubric)


async def results_of(bench: Bench, batch_id: str = "ba_1") -> RunFrame:
    """What the results themselves say, one by one."""
    rows = FrameRows()
    for result in await bench.batches.results("team", batch_id, after=-1, limit=1000):
        entry, evaluation = result.entry, result.evaluation
        aspects = evaluation.aspects if evaluation else {}
        values: dict[MeasureKey, float | None] = {("aspect", name): one.mean for name, one in aspects.items()}
        values |= {("composite", name): value for name, value in (evaluation.composites if evaluation else {}).items()}
        values |= {("blended", name): one.blended for name, one in aspects.items() if one.blended is not None}
        reasons = {name: one.unrated.reason for name, one in aspects.items() if one.unrated}
        label = Label(
            evaluation.status if evaluation else "failed",
            frozenset(one.code for one in evaluation.warnings) if evaluation else frozenset(),
            frozenset(reasons.items()),
            system=evaluation.metadata.get("system") if evaluation else None,
            failure=result.failure.code if result.failure else None,
        )
        similarity = evaluation.relevance.score if evaluation and evaluation.relevance else None
        rows.add(
            label,
            values,
            positions=entry.position,
            items=key_of(entry.item),
            contexts=key_of(entry.context_digest) if entry.context_digest else 0,
            clusters=key_of(entry.cluster) if entry.cluster else 0,
            similarity=np.nan if similarity is None else similarity,
            candidates=-1 if entry.candidate is None else entry.candidate,
        )
    return rows.finish()


async def columns_of(bench: Bench, batch_id: str = "ba_1") -> RunFrame:
    return await bench.comparison.runs.frames.read_frame("team", batch_id)


def show(frame: RunFrame) -> dict[tuple[str, str], list[float | None]]:
    """The values, None where there is none."""
    return {
        key: [None if np.isnan(value) else value for value in column.tolist()] for key, column in frame.values.items()
    }


async def test_a_run_has_the_batchs_values(bench: Bench) -> None:
    await score_batch(
        bench.batches, "ba_1", {"warmth": [0, 1], "clarity": [3, None]}, blend=0.25, name="夜間", systems=["甲", ""]
    )
    run = await run_of(bench)
    assert (run.name, run.expected, run.signatures) == ("夜間 (ba_1)", 2, {SIGNATURE: 2})
    assert (run.aspects, run.numbered, run.best) == (("warmth", "clarity"), False, {})
    for frame in (run.frame, await results_of(bench)):
        assert frame.items.tolist() == [key_of("item-0"), key_of("item-1")]
        assert [frame.labels[number].system for number in frame.label] == ["甲", ""]
        assert show(frame) == {
            ("aspect", "warmth"): [0, 1],
            ("aspect", "clarity"): [3, None],
            ("blended", "warmth"): [0.25, 1.25],
            ("blended", "clarity"): [3.25, None],
        }
        assert frame.positions.tolist() == [0, 1]
        request = make_record().request
        assert isinstance(request, EvaluationRequest)
        assert frame.contexts[0] == key_of(digest_context(request.context))


async def test_a_batch_is_found_in_its_project_alone(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0]})
    assert (await find_batch(bench.batches, "team", "ba_1")).id == "ba_1"
    with pytest.raises(NotFound, match="no batch ba_1 in this project"):
        await find_batch(bench.batches, "rivals", "ba_1")


async def test_a_failed_candidate_is_expected_and_has_no_value(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, 1]}, fail=[1])
    run = await run_of(bench)
    assert (run.name, run.expected, run.signatures) == ("ba_1", 3, {SIGNATURE: 2})
    assert show(await columns_of(bench)) == {("aspect", "warmth"): [0, None, 1]}
    assert [run.frame.labels[number].status for number in run.frame.label] == ["scored", "failed", "scored"]


async def test_a_batch_of_failures_alone_has_no_signature(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, fail=[0, 1])
    assert (await run_of(bench)).signatures == {}


def tell(frame: RunFrame) -> str:
    """Everything in the frame as a text that is equal where it is, NaN in its place too."""
    labels = [tuple(map(str, frame.labels[number])) for number in frame.label]
    columns = {name: getattr(frame, name).tolist() for name in COLUMNS if name not in {"label", "fault"}}
    return str(({key: column.tolist() for key, column in sorted(frame.values.items())}, columns, labels))


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
    columns = await columns_of(bench)
    assert tell(fit_frame(columns, RUBRIC)) == tell(fit_frame(await results_of(bench), RUBRIC))
    assert (await run_of(bench)).numbered is have_numbers(columns.items) is kind.startswith("numbers")


async def test_another_rubric_reads_the_aspects_that_it_has(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1], "clarity": [3, None]}, blend=0.25)
    less, more = (
        small_rubric(aspects=[aspect_data("warmth")]),
        small_rubric(aspects=[aspect_data(name) for name in ("warmth", "clarity", "wit")]),
    )
    for rubric in (less, more):
        run = await run_of(bench, rubric=rubric)
        assert run.frame.values["aspect", "warmth"].tolist() == [0, 1]
        assert {name for kind, name in run.frame.values if kind == "aspect"} == {one.id for one in rubric.aspects}


async def test_all_pages_are_read_once_in_order(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_ROWS", 3)
    monkeypatch.setattr(summaries, "FRAME_ROWS", 3)
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1] * 4})
    assert (await columns_of(bench)).positions.tolist() == list(range(8))
    pages = [page.positions.tolist() async for page in summaries.read_frames(bench.batches, "team", "ba_1")]
    assert pages == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [page async for page in summaries.read_frames(bench.batches, "rivals", "ba_1")] == []


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
    assert have_numbers(key_all(items)) is expected


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
