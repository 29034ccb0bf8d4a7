"""A lenient reading takes a whole verdict in a fence and behind thinking, and still cuts none out of prose."""

import json

import pytest

from saiten_server.judging.verdict import read_verdict
from tests.support.small_rubrics import joint_rubric

ASPECTS = joint_rubric().aspects
GOOD = {aspect.id: aspect.values[-1] for aspect in ASPECTS}
VERDICT = json.dumps(GOOD)
FENCED = f"```json\n{VERDICT}\n```"
THOUGHT = "<think>It quotes “5”.\n```\n{}\n```</think>"
TEXT = "\n".join(f"{aspect.name['ja']}: 「{GOOD[aspect.id]}」" for aspect in ASPECTS)


def rated(reply: str, *, lenient: bool, structured: bool = True, finish: str = "stop") -> int:
    reading = read_verdict(
        reply,
        aspects=ASPECTS,
        language="ja",
        structured=structured,
        explain=False,
        finish_reason=finish,
        lenient=lenient,
    )
    for aspect_id, (start, end) in reading.spans.items():
        assert reply[start:end] == str(reading.ratings[aspect_id])
    return reading.rated


@pytest.mark.parametrize(
    ("reply", "structured"),
    [
        (FENCED, True),
        (f"```\r\n{VERDICT}\r\n```\n", True),
        (f"{THOUGHT}{VERDICT}", True),
        (f" {THOUGHT}\n\n{FENCED}", True),
        (f"{THOUGHT}\n{TEXT}", False),
    ],
)
def test_a_covered_verdict_is_read_where_that_is_asked_for(reply: str, structured: bool) -> None:
    assert rated(reply, lenient=True, structured=structured) == len(ASPECTS)
    assert rated(reply, lenient=False, structured=structured) == 0
    assert rated(reply, lenient=True, structured=structured, finish="length") == 0


@pytest.mark.parametrize(
    "reply",
    [
        f"Here it is:\n{FENCED}",
        f"{FENCED}\nI hope this helps.",
        f"{FENCED}\n{FENCED}",
        f"{FENCED}{THOUGHT}",
        f"{THOUGHT}{THOUGHT}{VERDICT}",
        f"It is good.</think>{VERDICT}",
        f"<think>{VERDICT}",
        f"<think>The text says </think>{VERDICT} but no</think>{VERDICT}",
        f"{THOUGHT}Well. {VERDICT}",
        f"```json {VERDICT} ```",
        f"```python\n{VERDICT}\n```",
        f"```json\n[{VERDICT}]\n```",
        f"~~~\n{VERDICT}\n~~~",
        "```json\n```",
    ],
)
def test_nothing_is_cut_out_of_more(reply: str) -> None:
    assert rated(reply, lenient=True) == 0


def test_long_replies_are_read_once() -> None:
    assert rated("```json\n" + "\n  ```x" * 200_000, lenient=True) == 0
    assert rated("<think>" * 100_000, lenient=True) == 0
