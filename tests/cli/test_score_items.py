"""`saiten score` beside batches and the gate: items with ids, a batch's options, a rubric that cannot be rated."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from saiten import Connection
from saiten.commands.files import InvalidItems
from saiten.commands.score import read_scored_items, validate_items
from saiten_server.core.redaction import COVERED, ERASED, Cover, drop, hash_with
from saiten_server.runs.clusters import name_dialogue
from tests.support.command import saiten
from tests.support.conversations import make_turns
from tests.support.records import BODY

PLAIN = {key: value for key, value in BODY.items() if key != "rubric"}
UNUSABLE = 2
COULD_NOT_RUN = 3


def write(folder: Path, *values: object, name: str = "items.ndjson") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return str(path)


def refusal_of(path: str) -> str:
    with pytest.raises(InvalidItems) as caught:
        read_scored_items(path, {})
    return caught.value.message


def test_a_folder_and_a_pattern_stand_for_their_files_in_the_order_of_names(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "more").mkdir(parents=True)
    for name, item_id in (("b.jsonl", "q2"), ("a.jsonl", "q1"), ("c.json", "q3"), ("more/d.jsonl", "q4")):
        write(runs, {**PLAIN, "id": item_id}, name=name)
    (runs / "README.md").write_text("what these are")
    (runs / ".hidden.jsonl").write_text("{")
    write(tmp_path, {**PLAIN, "id": "q5"}, name="[1].jsonl")
    cases = {
        str(runs): ["q1", "q2", "q3"],
        f"{runs}/*.jsonl": ["q1", "q2"],
        f"{runs}/**/*.jsonl": ["q1", "q2", "q4"],
        f"{tmp_path}/[1].jsonl": ["q5"],
    }
    assert {path: [item.id for item in read_scored_items(path, {})] for path in cases} == cases


def test_files_that_are_not_there_or_share_ids_are_named(tmp_path: Path) -> None:
    assert refusal_of(f"{tmp_path}/*.jsonl") == f"{tmp_path}/*.jsonl: no file has such a name"
    assert "the folder holds no file of .csv" in refusal_of(str(tmp_path))
    write(tmp_path, {**PLAIN, "id": "q1"}, {**PLAIN, "id": "q2"}, PLAIN, name="a.jsonl")
    write(tmp_path, PLAIN, {**PLAIN, "id": "q2"}, name="b.jsonl")
    assert refusal_of(str(tmp_path)) == f"{tmp_path}/b.jsonl:2: the id 'q2' is also at {tmp_path}/a.jsonl:2"
    (tmp_path / "b.jsonl").write_text("{")
    assert f"{tmp_path}/b.jsonl" in refusal_of(str(tmp_path))


@pytest.fixture
async def service(client: httpx.AsyncClient) -> AsyncIterator[Connection]:
    async with Connection(str(client.base_url)) as connection:
        yield connection


async def services_refusal_of(path: str, service: Connection) -> str:
    with pytest.raises(InvalidItems) as caught:
        await validate_items(service, read_scored_items(path, {}))
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


def test_conversations_are_rated_as_such_with_their_findings_per_100_turns(tmp_path: Path) -> None:
    talk = {"id": "shop", "turns": make_turns("今日は何名様ですか。", "お席にご案内します。", "もう店は閉まったよ。")}
    done = saiten("score", write(tmp_path, talk), "--format", "ndjson", folder=tmp_path)
    result = json.loads(done.stdout)
    assert (result["item"], result["rubric"]["id"]) == ("shop", "ja-conversation")
    assert [(one["turn"], one["code"]) for one in result["findings"]] == [(5, "register-shift")]
    assert "findings per 100 system turns (3): register-shift 33.33" in done.stderr
    assert "not-applicable" not in done.stderr
    assert "persona 1" not in done.stderr
    assert "a response among conversations" in refusal_of(write(tmp_path, talk, PLAIN))


def test_conversations_take_the_language_path(tmp_path: Path) -> None:
    own = {"turns": make_turns("はい。"), "path": "both"}
    file = tmp_path / write(tmp_path, {"turns": make_turns("はい。")}, own)
    assert [item.request["path"] for item in read_scored_items(str(file), {"path": "english"})] == ["english", "both"]


async def test_a_faulty_conversation_is_named_before_any_is_rated(tmp_path: Path, service: Connection) -> None:
    path = write(
        tmp_path, {"turns": make_turns("はい。")}, {"turns": [{"speaker": "客", "role": "user", "text": "はい"}]}
    )
    assert "items.ndjson:2: /turns: has no turn" in await services_refusal_of(path, service)


def test_an_item_without_an_id_has_the_result_that_it_always_had(tmp_path: Path) -> None:
    done = saiten("score", write(tmp_path, PLAIN), "--format", "ndjson", folder=tmp_path)
    assert "item" not in json.loads(done.stdout)


@pytest.mark.parametrize("cover", [drop, hash_with("salt"), lambda _: ERASED])
async def test_texts_that_a_policy_covered_are_not_scored(tmp_path: Path, cover: Cover, service: Connection) -> None:
    path = write(tmp_path, PLAIN, {**PLAIN, "response": cover(PLAIN["response"])})
    assert (await services_refusal_of(path, service)).endswith(f":2: /response: {COVERED}")


async def test_what_no_policy_covers_may_look_as_it_likes(tmp_path: Path, service: Connection) -> None:
    name = hash_with("salt")("u-42")
    (found,) = items = read_scored_items(write(tmp_path, {**PLAIN, "id": name, "metadata": {"user": name}}), {})
    assert (found.id, found.request["metadata"]) == (name, {"user": name})
    assert await validate_items(service, items) == [None]


async def test_an_evaluation_is_asked_for_without_the_id(tmp_path: Path, service: Connection) -> None:
    (item,) = read_scored_items(write(tmp_path, {**PLAIN, "id": "q1"}), {})
    assert item.id == "q1"
    assert (await service.evaluate(item.request))["status"] == "scored"


async def test_an_id_obeys_the_rules_of_a_batch(tmp_path: Path, service: Connection) -> None:
    for name in ("", " ", "a\nb", 7, "x" * 1000):
        path = write(tmp_path, {**PLAIN, "id": name})
        assert ":1: /id: " in await services_refusal_of(path, service)


async def test_every_fault_is_counted_and_the_first_are_told_with_their_lines(
    tmp_path: Path, service: Connection
) -> None:
    bad = [{**PLAIN, "response": ""}] * 30
    told = (await services_refusal_of(write(tmp_path, PLAIN, *bad), service)).splitlines()
    assert told[0].endswith(":2: /response: is blank or holds only invisible characters (the same at 3, 4, 5, 6)")
    assert told[1:] == ["… and 25 more"]


async def test_turns_of_one_dialogue_are_found_over_the_whole_file(tmp_path: Path, service: Connection) -> None:
    turns = [{"speaker": "AB"[number % 2], "text": f"{number}番目の発話です。"} for number in range(4)]
    first, second = ({**PLAIN, "context": turns[:length]} for length in (2, 4))
    named = {**PLAIN, "dialogue": "d1"}
    found = await validate_items(service, read_scored_items(write(tmp_path, first, named, second, PLAIN), {}))
    assert found[0] is not None
    assert found == [found[0], name_dialogue("d1"), found[0], None]


def test_a_batch_is_sent_where_it_belongs(tmp_path: Path) -> None:
    path = write(tmp_path, {"rubric": "ja-dialogue", "name": "main"}, PLAIN)
    told = f"{path}: line 1 holds a batch's options; post this file to /v1/batches, or give it to saiten gate"
    assert refusal_of(path) == told
    path = write(tmp_path, [{"name": "main"}, PLAIN], name="items.json")
    assert refusal_of(path).startswith(f"{path}: item 1 holds a batch's options; ")


async def test_a_lone_item_without_a_context_is_no_batch(tmp_path: Path, service: Connection) -> None:
    assert "/context: " in await services_refusal_of(write(tmp_path, {"rubric": "ja-dialogue"}), service)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--rubric", "none"), UNUSABLE, "there is no rubric 'none'"),
        (("--rubric", "ja-conversation"), UNUSABLE, "rates whole conversations"),
        (("--rubric", "lfqa"), COULD_NOT_RUN, "The lexical judge cannot rate "),
        (("--path", "english"), COULD_NOT_RUN, "set DEEPL_API_KEY"),
    ],
)
def test_what_no_item_can_be_scored_by_fails_once_and_as_a_batch_does(
    tmp_path: Path, options: tuple[str, str], code: int, words: str
) -> None:
    path = write(tmp_path, *[PLAIN] * 12)
    done = {command: saiten(command, path, *options, folder=tmp_path) for command in ("score", "batch")}
    assert {(one.returncode, one.stdout) for one in done.values()} == {(code, "")}, done
    assert words in done["batch"].stderr
    assert done["score"].stderr.count(words) == 1, done["score"].stderr


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
