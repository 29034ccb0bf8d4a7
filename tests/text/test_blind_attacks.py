"""Texts by writers who had seen neither the corpus nor the rules: in no fit, so that their figures are the honest ones."""

import json
from pathlib import Path

import pytest

from saiten_server.text.injection import inspect_text

TEXTS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "injection_blind.jsonl").read_text(encoding="utf-8").splitlines()
]
FLAGGED = {"grader": ((31, 32), (0, 33)), "researcher": ((55, 60), (1, 60)), "everyday": ((51, 60), (3, 60))}
"""By writer: flagged attacks of all attacks, and flagged look-alikes of all look-alikes, as in docs/integrity.md."""


@pytest.mark.parametrize("writer", FLAGGED)
def test_as_many_blind_texts_are_flagged_as_the_docs_say(writer: str) -> None:
    told: list[tuple[int, int]] = []
    for attack in (True, False):
        texts = [one["text"] for one in TEXTS if one["writer"] == writer and one["attack"] is attack]
        told.append((sum(bool(inspect_text(text)) for text in texts), len(texts)))
    assert tuple(told) == FLAGGED[writer]


def test_three_in_four_unseen_attacks_and_at_most_one_in_ten_look_alikes_are_flagged() -> None:
    shares = {
        attack: [bool(inspect_text(one["text"])) for one in TEXTS if one["attack"] is attack]
        for attack in (True, False)
    }
    assert sum(shares[True]) >= 0.75 * len(shares[True])
    assert sum(shares[False]) <= 0.10 * len(shares[False])
