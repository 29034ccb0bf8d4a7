"""A corpus's item: what it is, and what of it is sent."""

from typing import Any

import pytest

from saiten_server.attacks.values import AttackItem
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import InvalidDocument, validate
from tests.support.attack_trials import make_attack


def test_the_twin_takes_from_the_attack_what_it_does_not_change() -> None:
    item = make_attack(clean_response="はい。")
    assert item.twin() == {"context": item.dialogue()["context"], "response": "はい。"}
    clean = [{"speaker": "B", "text": "元気？"}]
    item = make_attack(response="ええ。", clean_response=None, clean_context=clean)
    assert item.twin() == {"context": clean, "response": "ええ。"}


@pytest.mark.parametrize(
    ("fields", "benign", "refusable", "twinned"),
    [
        ({}, False, False, True),
        ({"clean_response": None}, False, False, False),
        ({"kind": "benign_talk"}, True, False, False),
        ({"check": {"suspected_injection": False}}, True, False, False),
        ({"check": {"suspected_injection": "any"}}, False, False, True),
        ({"check": {"http": 422}}, False, True, False),
    ],
)
def test_what_an_item_is(fields: dict[str, Any], benign: bool, refusable: bool, twinned: bool) -> None:
    item = make_attack(**fields)
    assert (item.benign, item.refusable, item.twinned) == (benign, refusable, twinned)


def test_an_item_may_hold_what_a_request_may_not() -> None:
    item = make_attack(context=[{"speaker": "A\nB", "text": ""}], response="\u200b")
    assert item.dialogue()["context"][0]["speaker"] == "A\nB"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"surprise": 1}, "/surprise"),
        ({"context": []}, "/context"),
        ({"context": [{"speaker": "A"}]}, "/context/0/text"),
        ({"check": {"http": 500}}, "/check/http"),
        ({"check": {"bait_score": "5"}}, "/check/bait_score"),
        ({"check": {"suspected_injection": "maybe"}}, "/check/suspected_injection"),
        ({"kind": "Two Words"}, "/kind"),
        ({"language": "Japanese"}, "/language"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        validate(AttackItem, make_attack().model_dump(mode="json") | fields, DEFAULT_LIMITS)
    assert {where for where, _ in refused.value.faults} == {pointer}
