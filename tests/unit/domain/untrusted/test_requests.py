"""Asking for the rare ideas first finds what asking for all of them would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.untrusted.findings import Kind
from app.domain.untrusted.folding import fold
from app.domain.untrusted.requests import FIRST_ASKED, RULES, Ideas, find_requests, rules_by_need
from tests.unit.domain.test_untrusted import corpus

TEXTS = [row["text"] for attack in (True, False) for row in corpus(attack=attack)]


def find_plainly(folded: str) -> set[Kind]:
    """Every idea of every rule, by sentence."""
    ideas = Ideas(folded)
    found = set()
    for rule in RULES:
        places = [{number - back for number in ideas.group(need) for back in range(rule.reach)} for need in rule.needs]
        if set.intersection(*places):
            found.add(rule.kind)
    return found


def test_every_rule_is_asked_by_one_of_the_rare_needs() -> None:
    assert all(set(rule.needs) & set(FIRST_ASKED) for rule in RULES)
    asked = [rule for rules in rules_by_need().values() for rule in rules]
    assert sorted(asked) == sorted(RULES)
    assert set(rules_by_need()) <= set(FIRST_ASKED)


def test_the_same_is_found_in_the_whole_corpus() -> None:
    found = [find_requests(fold(text)) - {Kind.REVERSED_TEXT} for text in TEXTS]
    assert found == [find_plainly(fold(text)) for text in TEXTS]
    assert sum(map(bool, found)) > 100


@settings(deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=3).map("".join))
def test_the_same_is_found_where_texts_meet(text: str) -> None:
    assert find_requests(fold(text)) - {Kind.REVERSED_TEXT} == find_plainly(fold(text))
