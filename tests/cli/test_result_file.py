"""Results as a run: what counts, what is missing, and what is no result."""

from typing import Any

import pytest

from saiten.commands.files import InvalidItems
from saiten.commands.runs import Results, find_shared_rubric, is_result, read_results
from saiten_server.comparison.given_runs import GivenResults, GivenRun
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.dialogue import Limits
from saiten_server.core.model import key_of
from saiten_server.runs.clusters import name_dialogue
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.gate_files import ASPECTS, SIGNATURE, make_result
from tests.support.runs import rows_of

RUBRICS = open_rubrics(None)


def read(*results: object) -> ComparedRun:
    """The run that the service makes of what the command sends of these results."""
    placed = [(f"f:{number}", result) for number, result in enumerate(results, start=1)]
    file = Results("f", read_results(placed), {"id": "ja-dialogue", "version": 1})
    given = GivenResults("candidate", Limits())
    for line in file.write("candidate"):
        given.add({name: value for name, value in line.items() if name != "run"})
    given.finish()
    return given.assemble(GivenRun(**file.options()), RUBRICS)


def test_a_run_holds_means_blends_signatures_and_systems() -> None:
    blended = make_result(1, 2)
    blended["aspects"]["relevance"]["blended"] = 2.4
    run = read(make_result(0, 3), blended)
    assert run.aspects == ASPECTS
    assert [item.ratings["overall"] for item in rows_of(run)] == [3.0, 2.0]
    assert [dict(item.blended) for item in rows_of(run)] == [{}, {"relevance": 2.4}]
    assert (run.signatures, run.expected) == ({SIGNATURE: 2}, 2)
    assert [item.system for item in rows_of(run)] == ["bot-a"] * 2
    assert run.scales["overall"] == run.scales["overall.blended"] == (1.0, 5.0)
    assert not run.numbered


def test_what_failed_or_is_unrated_stays_in_the_denominator() -> None:
    partly = make_result(1)
    partly["aspects"]["overall"]["mean"] = None
    del partly["aspects"]["relevance"]
    run = read(make_result(0), partly, {"item": "i2", "candidate": None, "status": "failed", "error": {"code": "x"}})
    assert run.expected == 3
    assert [item.ratings.get("overall") for item in rows_of(run)] == [3.0, None, None]
    assert [item.ratings.get("relevance") for item in rows_of(run)] == [3.0, None, None]
    assert run.signatures == {SIGNATURE: 2}


def test_results_without_items_are_numbered_as_they_stand() -> None:
    bare = [make_result() for _ in range(3)]
    for result in bare:
        del result["item"]
    run = read(*bare)
    assert [item.item for item in rows_of(run)] == [key_of(number) for number in ("0", "1", "2")]
    assert run.numbered


@pytest.mark.parametrize(
    ("changes", "numbered"),
    [
        ({}, False),  # by `saiten score`, which names what has an id alone, or by hand
        ({"position": 0, "ids_given": True}, False),
        ({"position": 0, "ids_given": False}, True),
        ({"position": 0}, True),  # of a batch of an earlier release, which does not tell
    ],
)
def test_numbers_are_ids_where_the_caller_gave_them(changes: dict[str, Any], numbered: bool) -> None:
    placed = [changes | ({"position": number} if changes else {}) for number in range(3)]
    run = read(*(make_result(item=str(number), **place) for number, place in enumerate(placed)))
    assert run.numbered is numbered
    assert not read(make_result(item="a", **changes)).numbered or changes.get("ids_given") is False


def test_fields_of_later_versions_are_passed_over() -> None:
    later = make_result(0, mood="calm")
    later["aspects"]["overall"]["median"] = 3
    assert rows_of(read(later))[0].ratings["overall"] == 3.0


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "aspects as a list": ({"aspects": []}, "f:1: /aspects: must be an object"),
    "an aspect as a number": ({"aspects": {"overall": 3}}, "f:1: /aspects/overall: must be an object"),
    "a mean as a text": ({"aspects": {"overall": {"mean": "3"}}}, "f:1: /aspects/overall/mean: must be a number"),
    "a mean that is true": ({"aspects": {"overall": {"mean": True}}}, "f:1: /aspects/overall/mean: must be a number"),
    "no mean": ({"aspects": {"overall": {}}}, "f:1: /aspects/overall/mean: is missing"),
    "no aspects": ({"aspects": {}}, "f:1: this result has no aspects or names no rubric"),
    "no rubric": ({"rubric": None}, "f:1: this result has no aspects or names no rubric"),
    "a rubric without id": ({"rubric": {}}, "f:1: /rubric/id: is missing"),
    "composites as a list": ({"composites": []}, "f:1: /composites: must be an object"),
    "a signature as an object": ({"signature": {}}, "f:1: /signature: must be a text"),
    "a status as a number": ({"status": 1}, "f:1: /status: must be a text"),
}


@pytest.mark.parametrize(("changes", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_result_is_pointed_at(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidItems) as caught:
        read(make_result(**changes))
    assert caught.value.message == words


def test_results_and_items_are_told_apart() -> None:
    assert is_result(make_result())
    assert is_result({"status": "failed"})
    assert not is_result({"context": [], "response": "はい。", "status": "new"})
    assert not is_result([])
    with pytest.raises(InvalidItems, match="f:2: this is not a result"):
        read(make_result(), {"context": [], "response": "はい。"})


def test_a_run_has_one_rubric() -> None:
    ko = read_results([("f:1", make_result(rubric={"id": "ko-comment"}))])
    ja = read_results([("f:1", make_result())])
    failed = read_results([("f:1", {"status": "failed", "item": "1"})])
    assert find_shared_rubric("f", ja + failed) == "ja-dialogue@1"
    unjudged = read_results([("f:1", make_result(status="failed", rubric={"id": "ja-dialogue"}, aspects={}))])
    assert find_shared_rubric("f", ja + unjudged) == "ja-dialogue@1"
    assert find_shared_rubric("f", unjudged) == "ja-dialogue"
    assert find_shared_rubric("f", failed) is None
    with pytest.raises(
        InvalidItems, match="f: it holds results by the rubrics ja-dialogue@1, ko-comment; a run has one"
    ):
        find_shared_rubric("f", ja + ko)


def test_the_dialogue_of_a_result_is_read_back_and_may_be_named_by_hand() -> None:
    recorded, named, alone = make_result(0, cluster="0f", dialogue="d"), make_result(1, dialogue="d"), make_result(2)
    assert [item.cluster for item in rows_of(read(recorded, named, alone))] == [
        key_of("0f"),
        key_of(name_dialogue("d")),
        None,
    ]
