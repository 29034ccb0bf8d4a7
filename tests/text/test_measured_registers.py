"""Precision and recall on the labelled utterances, recomputed; floors just under what docs/registers.md says."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.text.japanese import JapaneseRegister
from saiten_server.text.scripts import read_scripts
from saiten_server.text.speech_check import SpeechChecks, read_misuse, read_register

DATA = Path(__file__).parents[1] / "data" / "register"
CONVERSATIONS = Path(__file__).parents[3] / "shared" / "checks" / "conversations.jsonl"
REGISTERS = ("polite", "plain", "mixed", "none")

FLOORS = {  # (precision, recall)
    ("ja", "language-mismatch"): (0.97, 0.97),
    ("ja", "polite"): (0.98, 0.97),
    ("ja", "plain"): (0.98, 0.98),
    ("ja", "mixed"): (0.97, 0.97),
    ("ja", "none"): (0.92, 0.97),
    ("ko", "language-mismatch"): (0.97, 0.97),
    ("ko", "polite"): (0.98, 0.98),
    ("ko", "plain"): (0.98, 0.98),
    ("ko", "mixed"): (0.96, 0.96),
    ("ko", "none"): (0.96, 0.98),
}
ACCURACY = {"ja": 0.98, "ko": 0.99}


def rows_of(language: str) -> list[dict[str, Any]]:
    lines = (DATA / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def read_pairs(language: str) -> Counter[tuple[str, str]]:
    """How often each (labelled, read) pair of registers occurs."""
    japanese = JapaneseRegister()
    rows = [row for row in rows_of(language) if row["register"] is not None]
    return Counter((row["register"], read_register(row["text"], language, japanese).value) for row in rows)


def mismatch_pairs(language: str) -> Counter[tuple[str, str]]:
    """The same for `language-mismatch`: a text in no language is no mismatch."""
    fitting = {language, "none"}
    return Counter(
        tuple("language-mismatch" if found not in fitting else "match" for found in (row["language"], read))  # type: ignore[misc]
        for row in rows_of(language)
        for read in [read_scripts(row["text"]).language]
    )


def rates(pairs: Counter[tuple[str, str]], name: str) -> tuple[int, int, int]:
    """Right, said and true occurrences of a class."""
    said = sum(count for (_, read), count in pairs.items() if read == name)
    true = sum(count for (label, _), count in pairs.items() if label == name)
    return pairs[name, name], said, true


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_the_set_is_large_enough_to_mean_something(language: str) -> None:
    rows = rows_of(language)
    assert len({row["text"] for row in rows}) == len(rows) >= 200
    assert min(Counter(row["register"] for row in rows)[name] for name in REGISTERS) >= 25
    assert sum(row["kind"] in {"quoted", "mixed"} for row in rows) >= 50


@pytest.mark.parametrize(("language", "name"), FLOORS)
def test_precision_and_recall_stay_where_they_were(language: str, name: str) -> None:
    pairs = mismatch_pairs(language) if name == "language-mismatch" else read_pairs(language)
    right, said, true = rates(pairs, name)
    print(
        f"{language} {name}: precision {right}/{said} = {right / said:.3f}, recall {right}/{true} = {right / true:.3f}"
    )
    precision, recall = FLOORS[language, name]
    assert right / said >= precision
    assert right / true >= recall


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_accuracy_stays_where_it_was(language: str) -> None:
    pairs = read_pairs(language)
    right = sum(count for (label, read), count in pairs.items() if label == read)
    print(f"{language} accuracy: {right}/{pairs.total()} = {right / pairs.total():.3f}")
    assert right / pairs.total() >= ACCURACY[language]


@pytest.mark.parametrize(("language", "least_recall"), [("ja", 0.6), ("ko", 0.82)])
def test_misuses_of_honorifics_are_found_and_correct_uses_are_not_flagged(language: str, least_recall: float) -> None:
    japanese = JapaneseRegister()
    rows = [row for row in rows_of("honorifics") if row["language"] == language]
    flagged = [row for row in rows if read_misuse(row["text"], language, japanese)]
    assert [row["text"] for row in flagged if not row["misuse"]] == []
    assert len(flagged) / sum(row["misuse"] for row in rows) >= least_recall
    others = (row["text"] for row in rows_of(language) if row["language"] == language)
    assert [text for text in others if read_misuse(text, language, japanese)] == []


def test_planted_shifts_are_found_in_conversations() -> None:
    if not CONVERSATIONS.exists():
        pytest.skip("../shared/checks/conversations.jsonl is absent")
    checks = SpeechChecks()
    codes = {"register-shift", "register-mix", "register-mixed", "honorific-misuse"}
    counts = Counter[str]()
    for conversation in map(json.loads, CONVERSATIONS.read_text(encoding="utf-8").splitlines()):
        said = [Utterance(speaker=turn["speaker"], text=turn["text"]) for turn in conversation["turns"]]
        for place, turn in enumerate(conversation["turns"]):
            if turn["role"] != "system" or not place:
                continue
            expected = {fault["code"] for fault in conversation["expect"] if fault["turn"] == place} & codes
            dialogue = Dialogue(context=tuple(said[:place]), response=turn["text"])
            found = {warned.code for warned in checks.check(dialogue, conversation["lang"])} & codes
            counts += Counter(turns=1, planted=len(expected), found=len(expected & found), false=len(found - expected))
    print(dict(counts))
    assert counts["found"] >= 0.9 * counts["planted"]
    assert counts["false"] <= 0.01 * counts["turns"]
