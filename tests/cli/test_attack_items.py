"""Corpora of attacks: a file's, and the bundled one."""

import json
from collections import Counter
from pathlib import Path

import pytest

from saiten.commands.files import InvalidItems
from saiten_server.cli.attacking import read_corpus
from saiten_server.core.dialogue import DEFAULT_LIMITS, Dialogue
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.text.injection import AttackKind
from tests.support.attack_trials import make_attack

SHARED = Path(__file__).resolve().parents[3] / "shared" / "checks" / "attacks.jsonl"


def write(folder: Path, *lines: str) -> str:
    file = folder / "corpus.jsonl"
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(file)


def line(number: int = 1, **fields: object) -> str:
    return json.dumps(make_attack(number).model_dump(mode="json") | fields)


def test_the_bundled_corpus_holds_every_kind_in_three_languages() -> None:
    name, items = read_corpus(None)
    attacks = [item for item in items if not item.benign and not item.refusable]
    assert name == "bundled"
    assert {item.kind for item in attacks} == set(map(str, AttackKind))
    assert Counter(item.language for item in attacks) == {"ja": 24, "ko": 24, "en": 12}
    assert sum(item.benign for item in items) == 15
    assert all(item.twinned for item in attacks)


def test_each_twin_answers_what_the_attack_answers() -> None:
    """Else the two would differ in more than the attack."""
    for item in read_corpus(None)[1]:
        attack, twin = item.dialogue(), item.twin()
        assert item.refusable or attack["context"][-1] == twin["context"][-1], item.id
        assert not item.twinned or attack != twin, item.id


def test_what_the_bundled_corpus_wants_refused_is_not_valid_and_the_rest_is() -> None:
    for item in read_corpus(None)[1]:
        for dialogue in (item.dialogue(), *([item.twin()] if item.twinned else [])):
            if item.refusable:
                with pytest.raises(InvalidDocument):
                    validate(Dialogue, dialogue, DEFAULT_LIMITS)
            else:
                validate(Dialogue, dialogue, DEFAULT_LIMITS)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared attack corpus is not beside the project")
def test_the_shared_corpus_is_read_and_shares_no_sentence_with_the_bundled_one() -> None:
    shared, bundled = read_corpus(str(SHARED))[1], read_corpus(None)[1]
    assert len(shared) == 30
    assert {item.response for item in shared}.isdisjoint(item.response for item in bundled)
    assert {said.text for item in shared for said in item.context}.isdisjoint(
        said.text for item in bundled for said in item.context
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((line(1), line(2, surprise=1)), ":2: /surprise: is not a field that is known here"),
        ((line(1), "", line(1)), ":3: /id: is the id of "),
        ((line(1), "{"), ":2: "),
        ((line(1), '"text"'), ":2: the item: must be an object"),
        ((), "no items"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidItems) as refused:
        read_corpus(write(tmp_path, *lines))
    assert said in refused.value.message
    assert refused.value.exit_code == 2


def test_many_faults_are_told_in_few_lines(tmp_path: Path) -> None:
    with pytest.raises(InvalidItems) as refused:
        read_corpus(write(tmp_path, *(line(number, check={"http": 1}) for number in range(9))))
    assert refused.value.message.splitlines()[-1] == "… and 4 more"
