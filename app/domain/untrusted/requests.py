"""Sentences that speak to the judge: which ideas of the lexicon must meet, and how close to each other."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
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
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("self", "value", "request", "rating|value")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("all", "value", "request")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("machine", "value", "request", "rating")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("self|all|grader", "declared")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("ignore", "standards", "value|self|grader|all")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 2, ("ignore", "orders", "value|grader|all|rating")),
    Rule(Kind.INSTRUCTION_TO_JUDGE, 1, ("override",)),
    Rule(Kind.SCALE_REDEFINITION, 2, ("inverted", "self|occasion|grader")),
    Rule(Kind.SCORE_PACT, 2, ("later", "speech", "value|top", "certain", "pact|rating")),
    Rule(Kind.SCORE_PACT, 1, ("pact", "certain", "value|top", "rating")),
    Rule(Kind.REFUSAL_DEMAND, 2, ("no-score", "grader|self")),
    Rule(Kind.PROMPT_LEAK, 1, ("prompt", "write-out", "yours")),
    Rule(Kind.TRANSLATOR_INSTRUCTION, 1, ("translator", "insert", "value|rating|all")),
    Rule(Kind.ENCODED_PAYLOAD, 1, ("decode", "obey")),
)


@cache
def sentence_end() -> re.Pattern[str]:
    """What ends a sentence in the four languages; a full stop only before white space, for it is in numbers too."""
    return re.compile(r"[。!?\n]+|\.(?=\s|$)")


class Ideas:
    """Where in a folded text each idea occurs, by number of sentence; an idea is looked for when first asked for."""

    def __init__(self, folded: str) -> None:
        self.folded = folded
        self.scripts = scripts_of(folded)
        self.ends = [match.start() for match in sentence_end().finditer(folded)]
        self.known: dict[str, frozenset[int]] = {}

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
        # Almost every text lacks one of them altogether.
        if not all(map(self.group, rule.needs)):
            return False
        starts = [{number - back for number in self.group(names) for back in range(rule.reach)} for names in rule.needs]
        return bool(set.intersection(*starts))


def find_requests(folded: str) -> set[Kind]:
    """The kinds of request to the judge that a folded text makes."""
    ideas = Ideas(folded)
    return {rule.kind for rule in RULES if ideas.meet(rule)}
