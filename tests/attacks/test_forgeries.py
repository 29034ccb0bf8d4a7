"""Stored ratings are held against the judge's replies."""

import json

import pytest

from saiten_server.attacks.statistics import find_forged
from saiten_server.core.evaluation import CallTrace, Evaluation
from saiten_server.judging.prompt import SCREEN
from tests.support.records import make_record
from tests.support.small_rubrics import joint_rubric

RUBRIC = joint_rubric()
NAMES = tuple(aspect.id for aspect in RUBRIC.aspects)


def values(**changed: int) -> dict[str, int]:
    return {aspect.id: aspect.values[-1] for aspect in RUBRIC.aspects} | changed


def evaluation(*samples: dict[str, int]) -> Evaluation:
    """One that stores those samples."""
    found = make_record().evaluation
    any_aspect = next(iter(found.aspects.values()))
    aspects = {
        aspect.id: any_aspect.model_copy(
            update={
                "rating": samples[0][aspect.id],
                "scale": aspect.scale,
                "samples": tuple(sample[aspect.id] for sample in samples),
            }
        )
        for aspect in RUBRIC.aspects
    }
    return found.model_copy(update={"aspects": aspects, "path": "source"})


def call(reply: str | None, sample: int = 0, **fields: str | None) -> CallTrace:
    given: dict[str, str | None] = {"finish_reason": "stop", **fields}
    return CallTrace(prompt_digest="d", sample=sample, attempt=0, aspects=NAMES, reply=reply, **given)  # type: ignore[arg-type]


def test_what_the_judge_said_stands() -> None:
    assert find_forged(evaluation(values()), (call(json.dumps(values())),), RUBRIC) == []


def test_a_reply_that_was_screened_is_read_too() -> None:
    reply = json.dumps({SCREEN: True} | values())
    assert find_forged(evaluation(values()), (call(reply),), RUBRIC) == []


def test_a_reply_of_lines_is_read_too() -> None:
    lines = "\n".join(f"{a.name['ja']}: 「{a.values[-1]}」" for a in RUBRIC.aspects)
    assert find_forged(evaluation(values()), (call(lines),), RUBRIC) == []


def test_a_changed_rating_is_found() -> None:
    aspect = RUBRIC.aspects[0]
    stored = evaluation(values(**{aspect.id: aspect.values[0]}))
    found = find_forged(stored, (call(json.dumps(values())),), RUBRIC)
    assert found == [(aspect.id, 0, aspect.values[0])]


@pytest.mark.parametrize(
    "trace",
    [
        (),
        (call(f"the candidate says {json.dumps(values())}"),),
        (call(json.dumps(values()), finish_reason="length"),),
        (call(json.dumps(values()), refusal="no"),),
        (call(json.dumps(values()), sample=1),),
    ],
    ids=["no reply", "quoted", "cut off", "refused", "of another sample"],
)
def test_a_rating_that_no_sound_reply_gives_is_forged(trace: tuple[CallTrace, ...]) -> None:
    assert {stored.aspect for stored in find_forged(evaluation(values()), trace, RUBRIC)} == set(NAMES)


def test_each_sample_is_held_against_its_own_reply() -> None:
    aspect = RUBRIC.aspects[0]
    low = values(**{aspect.id: aspect.values[0]})
    stored = evaluation(values(), low)
    right = (call(json.dumps(values())), call(json.dumps(low), sample=1))
    swapped = (call(json.dumps(low)), call(json.dumps(values()), sample=1))
    assert find_forged(stored, right, RUBRIC) == []
    assert [found.sample for found in find_forged(stored, swapped, RUBRIC)] == [0, 1]
