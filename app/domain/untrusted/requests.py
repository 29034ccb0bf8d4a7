"""Sentences that speak to the judge: which ideas of the lexicon must meet, and how close to each other."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cache, cached_property
from typing import NamedTuple

from app.domain.untrusted.findings import Kind
from app.domain.untrusted.ideas import idea, scripts_of


class Rule(NamedTuple):
    """`needs`: from each group, written `a|b`, one idea must occur within `reach` sentences in a row."""

    kind: Kind
    reach: int
    needs: tuple[str, ...]


RULES = (
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("grader", "value", "request")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("machine", "command")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("grader|addressed", "command")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("addressed", "bare|value", "self|all", "request|declared")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("self", "value", "request", "rating|value")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("all", "value", "request")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("machine", "value", "request", "rating")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("self|all", "declared")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("grader", "declared")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("notice", "command")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("revised", "value", "self|grader")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("ignore", "standards", "value|self|grader|all")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("ignore", "orders", "value|grader|all|rating")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("override|stage",)),
    Rule(Kind.SCALE_REDEFINITION, 2, ("self|occasion|grader", "inverted|turned")),
    Rule(Kind.SCALE_REDEFINITION, 2, ("speech|self|occasion|grader", "redefined")),
    Rule(Kind.SCALE_REDEFINITION, 2, ("revised", "speech", "value", "certain")),
    Rule(Kind.SCALE_REDEFINITION, 2, ("recoded", "request", "value|command|rating")),
    Rule(Kind.SCORE_PACT, 2, ("later", "speech", "value|top", "certain", "pact|rating")),
    Rule(Kind.SCORE_PACT, 1, ("pact", "certain", "value|top", "rating")),
    Rule(Kind.SCORE_PACT, 2, ("whatever", "value|top", "speech", "rating|pact|grader")),
    Rule(Kind.SCORE_PACT, 2, ("trigger", "value|top", "speech", "certain|pact")),
    Rule(Kind.SCORE_PACT, 2, ("your words", "value|top|command", "later|whatever|trigger", "rating|grader|pact")),
    Rule(Kind.REFUSAL_DEMAND, 2, ("grader|self|addressed", "no-score")),
    Rule(Kind.REFUSAL_DEMAND, 2, ("empty", "no-score", "rating")),
    Rule(Kind.PROMPT_LEAK, 1, ("prompt", "write-out", "yours")),
    Rule(Kind.PROMPT_LEAK, 2, ("received", "verbatim", "write-out", "reasons")),
    Rule(Kind.PROMPT_LEAK, 2, ("prompt", "write-out", "addressed|reason box")),
    Rule(Kind.PROMPT_LEAK, 1, ("text above", "write-out", "verbatim|certain", "rating|reasons|grader")),
    Rule(Kind.TRANSLATOR_INSTRUCTION, 1, ("translator", "insert", "value|rating|all")),
    Rule(Kind.TRANSLATOR_INSTRUCTION, 2, ("translator", "insert", "value")),
    Rule(Kind.ENCODED_PAYLOAD, 1, ("decode", "obey")),
)


FIRST_ASKED = (
    *("speech", "rating", "command", "write-out", "declared", "recoded", "insert", "decode", "your words", "ignore"),
    *("revised", "addressed", "redefined", "request", "override|stage", "no-score", "self|occasion|grader"),
)
"""Needs of which each rule has one, and which ordinary texts mostly lack: by what it costs to find that out."""


@cache
def rules_by_need() -> Mapping[str, tuple[Rule, ...]]:
    """The rules by the need that is asked for first."""
    first = {rule: min(rule.needs, key=lambda names: (*FIRST_ASKED, names).index(names)) for rule in RULES}
    return {names: tuple(rule for rule in RULES if first[rule] == names) for names in dict.fromkeys(first.values())}


@cache
def patterns_of(names: str, scripts: frozenset[str]) -> tuple[re.Pattern[str], ...]:
    """The patterns of the ideas of a group, written `a|b`."""
    return tuple(idea(name, scripts) for name in names.split("|"))


@cache
def sentence_end() -> re.Pattern[str]:
    """What ends a sentence in the four languages; a full stop only before white space, for it is in numbers too."""
    return re.compile(r"[。!?\n]+|\.(?=\s|$)")


class Ideas:
    """Where in a folded text each idea occurs, by number of sentence; an idea is looked for when first asked for."""

    def __init__(self, folded: str) -> None:
        self.folded = folded
        self.scripts = scripts_of(folded)
        self.found: dict[str, bool] = {}
        self.known: dict[str, frozenset[int]] = {}

    @cached_property
    def ends(self) -> list[int]:
        """Where sentences end."""
        return [match.start() for match in sentence_end().finditer(self.folded)]

    def occurs(self, names: str) -> bool:
        """Whether one of the ideas, written `a|b`, is anywhere in the text."""
        found = self.found.get(names)
        if found is None:
            found = False
            for pattern in patterns_of(names, self.scripts):
                if pattern.search(self.folded):
                    found = True
                    break
            self.found[names] = found
        return found

    def sentences(self, name: str) -> frozenset[int]:
        """The numbers of the sentences that hold the idea."""
        if name not in self.known:
            matches = idea(name, self.scripts).finditer(self.folded)
            self.known[name] = frozenset(bisect_right(self.ends, match.start()) for match in matches)
        return self.known[name]

    def group(self, names: str) -> frozenset[int]:
        """The numbers of the sentences that hold one of the ideas, written `a|b`."""
        if names not in self.known:
            self.known[names] = frozenset().union(*(self.sentences(name) for name in names.split("|")))
        return self.known[names]

    def meet(self, rule: Rule) -> bool:
        """Whether the ideas that `rule` needs occur within its reach of each other."""
        # Almost every text lacks one of them altogether; the costly ideas stand last.
        if not all(map(self.occurs, rule.needs)):
            return False
        starts = [{number - back for number in self.group(names) for back in range(rule.reach)} for names in rule.needs]
        return bool(set.intersection(*starts))


def find_requests(folded: str) -> set[Kind]:
    """The kinds of request to the judge that a folded text makes."""
    ideas = Ideas(folded)
    asked = [rule for names, rules in rules_by_need().items() if ideas.occurs(names) for rule in rules]
    kinds = {rule.kind for rule in asked if ideas.meet(rule)}
    # Where a text says that it is to be read from the end, a value that stands there will do.
    if ideas.occurs("backwards") and Ideas(folded[::-1]).group("value|all|command"):
        kinds.add(Kind.REVERSED_TEXT)
    return kinds
