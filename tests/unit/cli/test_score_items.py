"""`saiten score` beside batches and the gate: items with ids, a batch's options, a rubric that cannot be rated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.items import COVERED, read_items
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.redaction import ERASED, Cover, drop, hash_with
from saiten.commands.files import InvalidItems
from tests.support.command import saiten
from tests.support.records import BODY
from tests.support.serving import serving

PLAIN = {key: value for key, value in BODY.items() if key != "rubric"}
COULD_NOT_RUN = 3


def write(folder: Path, *values: object, name: str = "items.ndjson") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return str(path)


def refusal_of(path: str) -> str:
    with pytest.raises(InvalidItems) as caught:
        read_items(path, {}, DEFAULT_LIMITS)
    return caught.value.message


def test_an_id_comes_first_in_the_result_and_pairs_in_the_gate(tmp_path: Path) -> None:
    items = [{**PLAIN, "id": f"q{number}"} for number in range(3)]
    there = saiten("score", write(tmp_path, *items), "--format", "ndjson", folder=tmp_path)
    back = saiten("score", write(tmp_path, *reversed(items)), "--format", "ndjson", folder=tmp_path)
    assert there.returncode == back.returncode == 0, there.stderr + back.stderr
    results = [json.loads(line) for line in there.stdout.splitlines()]
    assert [(next(iter(each)), each["item"]) for each in results] == [("item", f"q{number}") for number in range(3)]

    (tmp_path / "old").write_text(there.stdout, encoding="utf-8")
    (tmp_path / "new").write_text(back.stdout, encoding="utf-8")
    gate = saiten("gate", "--candidate", "new", "--baseline", "old", "--json", folder=tmp_path)
    pairing = json.loads(gate.stdout)["comparison"]["pairing"]
    assert (pairing["test"], pairing["pairs"]) == ("paired", 3), pairing


def test_an_item_without_an_id_has_the_result_that_it_always_had(tmp_path: Path) -> None:
    done = saiten("score", write(tmp_path, PLAIN), "--format", "ndjson", folder=tmp_path)
    assert "item" not in json.loads(done.stdout)


@pytest.mark.parametrize("cover", [drop, hash_with("salt"), lambda _: ERASED])
def test_texts_that_a_policy_covered_are_not_scored(tmp_path: Path, cover: Cover) -> None:
    told = refusal_of(write(tmp_path, PLAIN, {**PLAIN, "response": cover(PLAIN["response"])}))
    assert told.endswith(f":2: /response: {COVERED}")


def test_what_no_policy_covers_may_look_as_it_likes(tmp_path: Path) -> None:
    name = hash_with("salt")("u-42")
    (found,) = read_items(write(tmp_path, {**PLAIN, "id": name, "metadata": {"user": name}}), {}, DEFAULT_LIMITS)
    assert (found.id, found.metadata) == (name, {"user": name})


async def test_a_service_is_not_shown_the_id(tmp_path: Path) -> None:
    items = read_items(write(tmp_path, {**PLAIN, "id": "q1"}), {}, DEFAULT_LIMITS)
    assert items[0].id == "q1"
    async with serving(tmp_path) as client:
        answer = await client.post("/v1/evaluations", json=items[0].model_dump(mode="json"))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["", " ", "a\nb", 7, "x" * 1000])
def test_an_id_obeys_the_rules_of_a_batch(tmp_path: Path, name: object) -> None:
    assert ":1: /id: " in refusal_of(write(tmp_path, {**PLAIN, "id": name}))


def test_a_batch_is_sent_where_it_belongs(tmp_path: Path) -> None:
    path = write(tmp_path, {"rubric": "ja-dialogue", "name": "main"}, PLAIN)
    told = f"{path}: line 1 holds a batch's options; post this file to /v1/batches, or give it to saiten gate"
    assert refusal_of(path) == told
    path = write(tmp_path, [{"name": "main"}, PLAIN], name="items.json")
    assert refusal_of(path).startswith(f"{path}: item 1 holds a batch's options; ")


def test_a_lone_item_without_a_context_is_no_batch(tmp_path: Path) -> None:
    assert "/context: " in refusal_of(write(tmp_path, {"rubric": "ja-dialogue"}))


@pytest.mark.parametrize(
    ("rubric", "words"), [("lfqa", "The lexical judge cannot rate "), ("none", "there is no rubric 'none'")]
)
def test_a_rubric_that_no_item_can_be_rated_by_fails_once(tmp_path: Path, rubric: str, words: str) -> None:
    path = write(tmp_path, *[PLAIN] * 12)
    done = saiten("score", path, "--rubric", rubric, "--format", "ndjson", folder=tmp_path)
    assert (done.returncode, done.stdout) == (COULD_NOT_RUN, ""), done.stdout
    assert done.stderr.count(words) == 1, done.stderr


def test_items_by_other_rubrics_are_scored_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, {**PLAIN, "rubric": "lfqa"}, PLAIN)
    done = saiten("score", path, "--format", "ndjson", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["failed", "scored"]


def test_a_shipped_rubric_that_is_no_file_is_pointed_to(tmp_path: Path) -> None:
    done = saiten("rubric", "check", "lfqa", folder=tmp_path)
    assert done.returncode == 1
    assert "to look at a shipped rubric: saiten rubric show lfqa" in done.stdout
    assert "saiten rubric show" not in saiten("rubric", "check", "mine", folder=tmp_path).stdout
