"""`saiten export-finetune`: files in, chat JSONL out, and one clear line for every mistake."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from saiten_server.cli.export_finetune import command
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.redaction import hash_with
from saiten_server.judging.verdict import read_verdict
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.analyzing import make_workbook

LFQA = RubricFiles([default_folder()]).get("lfqa")
RATINGS = {"formality": 0, "amount_info": -1, "factuality": 3, "acceptability": 2}


def ndjson(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def item(name: str, **more: Any) -> dict[str, Any]:
    context = [{"speaker": "質問", "text": f"{name}とは何ですか。"}]
    return {"id": name, "context": context, "response": f"{name}です。", **more}


def rating(name: str, **more: Any) -> dict[str, Any]:
    return {"item": name, "rater": "r1", "ratings": RATINGS, **more}


class Desk:
    """A folder with the two files, and the command over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write([item("a"), item("b")], [rating("a"), rating("b")])

    def write(self, items: list[dict[str, Any]], ratings: list[dict[str, Any]] | str) -> None:
        (self.folder / "items.jsonl").write_text(ndjson(items), encoding="utf-8")
        text = ratings if isinstance(ratings, str) else ndjson(ratings)
        (self.folder / "ratings").write_text(text, encoding="utf-8")

    def run(self, *options: str, rubric: str = "lfqa") -> Result:
        files = [str(self.folder / "items.jsonl"), str(self.folder / "ratings")]
        return CliRunner().invoke(command, [*files, "--rubric", rubric, *options])

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_rubric_asked_independently_gives_a_line_an_aspect(desk: Desk):
    done = desk.run()
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line)["messages"] for line in done.stdout.splitlines()]
    assert [messages[2]["content"] for messages in lines] == 2 * [
        '{"formality":0}',
        '{"amount_info":-1}',
        '{"factuality":3}',
        '{"acceptability":2}',
    ]
    assert "8 conversations about 2 responses to train on" in done.stderr
    assert "factuality: nothing to train on is rated 0, 1, 2; such a judge" in done.stderr


def test_text_and_english_are_asked_and_answered_so(desk: Desk):
    done = desk.run("--format", "text", "--language", "en")
    first = json.loads(done.stdout.splitlines()[0])["messages"]
    assert first[0]["content"].startswith("# Task\n")
    reading = read_verdict(
        first[2]["content"], aspects=LFQA.aspects[:1], language="en", structured=False, explain=False
    )
    assert reading.ratings == {"formality": 0}


def test_csv_and_an_array_are_read_as_well(desk: Desk):
    wanted = desk.run().stdout
    head = "item,rater,formality,amount_info,factuality,acceptability\n"
    desk.write([item("a"), item("b")], head + "a,r1,0,-1,3,2\nb,r1,0,-1,3,2\n")
    assert desk.run().stdout == wanted
    desk.write([item("a"), item("b")], json.dumps([rating("a"), rating("b")]))
    assert desk.run().stdout == wanted


def test_a_workbook_is_read_as_well(desk: Desk):
    expected = desk.run().stdout
    names = ["item", "rater", *RATINGS]
    (desk.folder / "ratings").write_bytes(make_workbook([names, *([one, "r1", *RATINGS.values()] for one in "ab")]))
    assert desk.run().stdout == expected
    (desk.folder / "ratings").write_bytes(make_workbook([names, ["a", "r1", 7, 0, 0, 0]]))
    assert f"{desk.path('ratings')}: sheet 評価, row 2: " in desk.run().stderr


def test_a_byte_order_mark_before_the_ratings_is_passed_over(desk: Desk):
    wanted = desk.run().stdout
    table = "item,rater,formality,amount_info,factuality,acceptability\na,r1,0,-1,3,2\nb,r1,0,-1,3,2\n"
    records = [rating("a"), rating("b")]
    for text in (ndjson(records), json.dumps(records), table):
        desk.write([item("a"), item("b")], "\ufeff" + text)
        done = desk.run()
        assert (done.exit_code, done.stdout) == (0, wanted), done.stderr


def test_there_is_nothing_to_learn_from_texts_that_were_covered(desk: Desk):
    covered = item("b") | {"context": [{"speaker": "A", "text": hash_with("salt")("今日は？")}]}
    desk.write([item("a"), covered], [rating("a"), rating("b")])
    done = desk.run()
    assert done.exit_code == 2
    assert "items.jsonl:2: /context/0/text: was dropped, hashed or erased" in done.stderr


def test_an_element_of_an_array_is_no_line(desk: Desk):
    desk.write([item("a")], json.dumps([rating("a"), rating("b", ratings={"formality": 7})]))
    assert "ratings: element 2: 'formality' is 7, which is not a level of it" in desk.run().stderr


def test_raters_are_merged_or_kept_apart(desk: Desk):
    desk.write([item("a")], [rating("a"), rating("a", rater="r2", ratings=RATINGS | {"factuality": 0})])
    medians = [json.loads(line)["messages"][2]["content"] for line in desk.run().stdout.splitlines()]
    assert medians[2] == '{"factuality":0}'
    each = [json.loads(line)["messages"][2]["content"] for line in desk.run("--label", "each").stdout.splitlines()]
    assert len(each) == 8
    assert (each[2], each[6]) == ('{"factuality":3}', '{"factuality":0}')


def test_items_are_held_out_whole(desk: Desk):
    systems = [{"system": "甲"}, {"system": "乙"}]
    names = [f"q{number}" for number in range(10)]
    desk.write(
        [item(name, metadata=system) for name in names for system in systems],
        [rating(name, **system) for name in names for system in systems],
    )
    done = desk.run("--output", desk.path("train"), "--validation", desk.path("valid"), "--validation-share", "0.2")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    users = [{line["messages"][1]["content"] for line in desk.lines(name)} for name in ("train", "valid")]
    asked = [{name for name in names for user in side if f"{name}とは" in user} for side in users]
    assert (len(desk.lines("train")), len(desk.lines("valid"))) == (64, 16)
    assert [len(side) for side in asked] == [8, 2]
    assert not asked[0] & asked[1]
    assert "64 conversations about 16 responses to train on; 16 of 4 held out" in done.stderr


def test_what_is_held_out_can_be_scored_and_exported_again(desk: Desk):
    desk.write(
        [item(name, reference="手本。", metadata={"system": "甲"}) for name in "abc"], [rating(n) for n in "abc"]
    )
    desk.run(
        "--output", desk.path("train"), "--validation", desk.path("valid"), "--validation-items", desk.path("held")
    )
    (held,) = desk.lines("held")
    request = EvaluationRequest.model_validate(held)
    assert request.references == ("手本。",)
    name = request.metadata["item"]
    assert request.metadata == {"item": name, "system": "甲"}
    desk.write([held], [rating(name)])
    assert [json.loads(line) for line in desk.run().stdout.splitlines()] == desk.lines("valid")


def test_what_is_left_out_is_counted(desk: Desk):
    desk.write([item("a"), item("b")], [rating("a"), rating("c"), rating("d")])
    done = desk.run()
    assert done.exit_code == 0
    assert (
        "left out: responses without ratings: 1; rated responses that ITEMS lacks: 2, the first 'c' on line 2"
        in done.stderr
    )


MISTAKES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]] | str, str]] = {
    "a mean": ([item("a")], [rating("a"), rating("b", ratings={"formality": 0.5})], "ratings:2: 'formality' is 0.5"),
    "off the scale": ([item("a")], [rating("a", ratings={"factuality": 4})], "ratings:1: 'factuality' is 4, which is"),
    "an unknown aspect": (
        [item("a")],
        [rating("a", ratings={"factualty": 1})],
        "ratings:1: unknown aspect 'factualty'",
    ),
    "text for a number": (
        [item("a")],
        [rating("a", ratings={"formality": "0"})],
        "ratings:1: 'formality' is not a num",
    ),
    "a broken line": ([item("a")], '{"item": "a"', "ratings:1: is not valid JSON"),
    "a broken array": ([item("a")], "[1", "ratings: the document is not valid JSON"),
    "a broken table": ([item("a")], "item,formality\na\n", "ratings:2: has 1 cells where the header has 2"),
    "twice rated": ([item("a")], [rating("a"), rating("a")], "ratings:2: rates"),
    "no id": ([{**item("a"), "id": None}], [rating("a")], 'items.jsonl:1: needs an "id"'),
    "two ids": ([item("a", item="b")], [rating("a")], "items.jsonl:1: has two ids"),
    "no object": ([3], [rating("a")], "items.jsonl:1: an item is a JSON object"),  # type: ignore[list-item]
    "a bad field": ([item("a", response="")], [rating("a")], "items.jsonl:1: /response: is blank"),
    "another rubric": ([item("a", rubric="ja-dialogue")], [rating("a")], "items.jsonl:1: names the rubric ja-dialogue"),
    "twice the same": ([item("a"), item("a")], [rating("a")], "items.jsonl:2: item 'a' of the same system stands at"),
    "no item": ([], [rating("a")], "items.jsonl: no items"),
    "no ratings": ([item("a")], "", "ratings:1: there is no record"),
    "nothing in common": ([item("a")], [rating("b")], "ratings: no rating belongs to an item (left out: responses"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_file_is_told_with_its_place(desk: Desk, mistake: str):
    items, ratings, message = MISTAKES[mistake]
    desk.write(items, ratings)
    done = desk.run("--output", desk.path("train"))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"saiten: {desk.folder}/{message}")
    assert not (desk.folder / "train").exists()


def test_many_faults_are_counted_and_not_all_listed(desk: Desk):
    desk.write([item("a")], [rating(f"{number}", ratings={"formality": 7}) for number in range(40)])
    shown = desk.run().stderr.splitlines()
    assert len(shown) == 6
    assert shown[-1] == "… and 35 more"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--language", "ko"], "lfqa exists in ja, en"),
        (["--validation-share", "0.2"], "nothing is held out without --validation FILE"),
        (["--validation-items", "x"], "nothing is held out without --validation FILE"),
        (["--validation", "x", "--validation-share", "1"], "--validation-share"),
        (["--validation", "same", "--output", "same"], "must all be different files"),
    ],
)
def test_a_usage_that_cannot_be_meant_is_refused(desk: Desk, options: list[str], message: str):
    done = desk.run(*options)
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_unknown_rubric_and_input_read_twice_are_usage_errors(desk: Desk):
    assert "there is no rubric 'lfq'" in desk.run(rubric="lfq").stderr
    done = CliRunner().invoke(command, ["-", "-", "--rubric", "lfqa"])
    assert (done.exit_code, "cannot both be standard input" in done.stderr) == (2, True)
    over = desk.run("--output", desk.path("ratings"))
    assert (over.exit_code, "must all be different files" in over.stderr) == (2, True)


def test_one_dialogue_cannot_be_split(desk: Desk):
    desk.write([item("a")], [rating("a")])
    done = desk.run("--validation", desk.path("valid"))
    assert (done.exit_code, "nothing can be held out" in done.stderr) == (2, True)


def test_a_file_that_cannot_be_written_is_one_line(desk: Desk):
    done = desk.run("--output", desk.path("absent/train"))
    assert str(done.exception) == f"{desk.folder}/absent/train cannot be written: No such file or directory"


def test_the_page_pairs_scores_with_ratings(tmp_path: Path):
    """The script in docs/finetuning.md, on what `saiten score` and people gave."""
    page = (Path(__file__).parents[2] / "docs" / "finetuning.md").read_text(encoding="utf-8")
    script = page.partition('```python title="pair.py"\n')[2].partition("```")[0]
    scored = {"aspects": {"formality": {"mean": 1.0}}, "metadata": {"item": "a", "system": "甲"}}
    failed = {"error": {}, "metadata": {"item": "b", "system": "甲"}}
    ratings = [rating(name, system=system) for name in "ab" for system in ("甲", "乙")]
    (tmp_path / "results.ndjson").write_text(ndjson([scored, failed]), encoding="utf-8")
    (tmp_path / "ratings.ndjson").write_text(ndjson(ratings), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True)
    (paired,) = map(json.loads, done.stdout.decode().splitlines())
    assert paired == {**ratings[0], "scores": {"formality": 1.0}}
