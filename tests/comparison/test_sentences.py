"""Sentences in values: what stands in JSON, and what is read from it again."""

import json
from typing import Any

import pytest

from saiten.core.messages import Message
from saiten_server.comparison.links.values import AspectLink, LinkMark
from saiten_server.comparison.values import GateReason
from saiten_server.core.reports import PairedWins, WinShare
from saiten_server.core.sentences import LANGUAGE

FELL = Message(
    "fell", amount="0.400", figures=[Message("from-to", before="3.1", after="2.7"), Message("items", n=1200)]
)
REASON = GateReason(
    code="drop",
    aspect="warmth",
    verdict="fail",
    detail=Message("beyond-tolerated", change=FELL, tolerated=0.1),
)


@pytest.mark.parametrize(
    ("language", "said"),
    [
        (
            "en",
            "fell by 0.400 (from 3.1 to 2.7; 1,200 items): beyond chance, and as observed more than the 0.1 tolerated",
        ),
        ("ja", "0.400 低下（3.1 → 2.7、1,200 件）: 偶然とは言えず、観測値は許容幅 0.1 を超えています"),
    ],
)
def test_json_has_the_text_in_the_language_and_the_same_values_in_each(language: str, said: str) -> None:
    found = REASON.model_dump(mode="json", context={LANGUAGE: language})
    assert found["detail"] == said
    assert (found["code"], found["values"]["tolerated"]) == ("drop", 0.1)
    assert found["values"]["change"]["values"]["figures"][1] == {"code": "items", "values": {"n": 1200}}
    assert found["messages"] == {"detail": {"code": "beyond-tolerated", "values": found["values"]}}


def test_what_is_stored_in_one_language_is_read_in_any() -> None:
    stored = REASON.model_dump_json(context={LANGUAGE: "ko"})
    assert GateReason.model_validate_json(stored) == REASON


def test_messages_of_lists_and_maps_are_read_again() -> None:
    none = WinShare(wins=0, share=None, interval=None)
    wins = PairedWins(
        a="a",
        b="b",
        contexts=0,
        a_wins=none,
        b_wins=none,
        ties=none,
        preference=None,
        preference_interval=None,
        undefined={"preference": Message("no-contest"), "ties": "as an old version said it"},
    )
    found = json.loads(wins.model_dump_json())
    assert found["messages"] == {"undefined": {"preference": {"code": "no-contest", "values": {}}}}
    assert PairedWins.model_validate_json(json.dumps(found)) == wins
    mark = LinkMark(id="ln_1", old_signature="", new_signature="", runs=(), refused={"x": Message("new-constant")})
    assert LinkMark.model_validate_json(mark.model_dump_json()) == mark


@pytest.mark.parametrize(
    "messages",
    [
        None,
        {},
        {"reason": {"code": "gone", "values": {}}},
        {"reason": {"code": "few-responses", "values": {"rated": 1}}},
        {"reason": {"code": "few-responses", "values": {"rated": {}, "needed": {"code": "gone", "values": {}}}}},
        {"reason": {"code": ["few-responses"], "values": 1}},
        {"reason": "few-responses", "n": {"code": "no-values", "values": {}}},
    ],
)
def test_a_text_without_a_message_that_can_be_said_stays_as_it_is(messages: Any) -> None:
    stored = {"state": "refused", "reason": "as an old version said it", "n": 3, "correlation": None}
    read = AspectLink.model_validate(stored if messages is None else {**stored, "messages": messages})
    assert (read.reason, read.messages) == ("as an old version said it", {})
    assert "messages" not in read.model_dump(mode="json", context={LANGUAGE: "ja"})
