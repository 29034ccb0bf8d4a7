"""What people said in research data: ratings that `saiten analyze` and `saiten ratings` read, none lost in silence."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from saiten.commands.convert import command
from saiten.commands.ratings import RatingFile
from saiten.core.formats import read_items, research

FOLDER = Path(__file__).parents[2] / "data" / "formats"


def rated(name: str) -> list[dict[str, Any]]:
    return [rating for item in read_items(FOLDER / name, rated=True) for rating in item.ratings]


def given(ratings: list[dict[str, Any]]) -> list[tuple[str | None, dict[str, float]]]:
    return [(rating.get("rater"), rating["ratings"]) for rating in ratings]


def test_labels_of_breakdown_are_numbers_by_annotator() -> None:
    found = rated("dbdc3.json")
    values = [("A1", 1.0), ("A2", 1.0), ("A3", 0.5), ("A1", 0.0), ("A2", 0.0), ("A3", 0.5)]
    assert given(found) == [(rater, {"no_breakdown": value}) for rater, value in values]
    assert {(one["item"], one["dialogue"]) for one in found} == {
        ("1500000001-2", "1500000001"),
        ("1500000001-4", "1500000001"),
    }
    assert [one["comment"] for one in found if "comment" in one] == ["話がつながらない"]


def test_lists_are_of_raters_and_systems_share_the_item() -> None:
    found = rated("usr.json")
    assert {(one["item"], one["system"]) for one in found} == {
        (found[0]["item"], "Original Ground Truth"),
        (found[0]["item"], "Argmax Decoding"),
    }
    assert [one["ratings"]["maintains_context"] for one in found] == [3, 3, 2, 1, 1, 1]
    assert [one["rater"] for one in found] == ["1", "2", "3"] * 2


def test_a_rating_that_is_no_number_is_that_raters_gap() -> None:
    found = rated("fed.json")
    assert given(found)[2] == ("3", {"interesting": 2, "overall": 4})
    assert given(found)[4] == ("2", {"coherent": 1, "overall": 3})


def test_records_of_one_dialogue_are_its_raters() -> None:
    found = rated("dstc9.json")
    values = [("1", 4, 2), ("2", 5, 3), ("3", 4, 2), ("1", 2, 1), ("2", 3, 1)]
    assert given(found) == [(rater, {"overall": overall, "topic_depth": depth}) for rater, overall, depth in values]
    assert given(rated("dstc9_table.json")) == [(None, {"overall": 4.25}), (None, {"overall": 2.5})]


def test_means_have_no_rater_and_a_metric_stands_beside_them() -> None:
    first, second = rated("unieval.json")
    assert first["item"] == second["item"]
    assert "rater" not in first
    assert (first["ratings"]["naturalness"], first["scores"]["naturalness"]) == (3.0, 0.98)


def test_without_the_option_ratings_are_told_as_left_out() -> None:
    reader = read_items(FOLDER / "fed.json")
    assert all(not item.ratings for item in reader)
    why = "ratings: `saiten convert --ratings FILE` writes them"
    assert reader.report.left_out["annotations.Overall", why] == 2


def test_a_turn_that_gives_no_item_is_named(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "dbdc3.json").read_text())
    document["turns"][0]["annotations"] = document["turns"][2]["annotations"]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    reader = read_items(path, rated=True)
    assert len(list(reader)) == 2
    assert reader.report.skipped == [(f"{path}:1", "turn 0 has no context")]


def test_a_dialogue_without_end_is_cut_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(research, "MOST_TURNS", 4)
    reader = read_items(FOLDER / "dbdc3.json", rated=True)
    assert [item.value["id"] for item in reader] == ["1500000001-2"]
    assert reader.report.left_out["turns[]", "more than 4 turns"] == 1


@pytest.mark.parametrize("name", ["dbdc3", "dstc9", "fed", "usr"])
def test_written_ratings_can_be_imported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ratings.ndjson"
    ran = CliRunner().invoke(command, [str(FOLDER / f"{name}.json"), "--ratings", str(path), "--system", "bot-a"])
    assert ran.exit_code == 0
    items = {json.loads(line)["id"]: json.loads(line)["metadata"]["system"] for line in ran.stdout.splitlines()}
    kept = RatingFile(str(path), {}).ratings
    assert kept
    assert all(one["item"] in items for one in kept)
    assert all(one.keys() <= {"item", "system", "rater", "ratings", "comment"} for one in kept)
    assert {one["system"] for one in kept} == set(items.values()) or name == "usr"


def test_the_file_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes((FOLDER / "fed.json").read_bytes())
    ran = CliRunner().invoke(command, [str(path), "--ratings", str(path)])
    assert (ran.exit_code, ran.stderr) == (2, f"saiten: {path}: is the file that is read\n")
    assert path.read_bytes() == (FOLDER / "fed.json").read_bytes()


def test_a_file_without_ratings_fails_where_these_were_asked_for(tmp_path: Path) -> None:
    ran = CliRunner().invoke(command, ["-", "--ratings", str(tmp_path / "r")], input="質問,回答\nq,r\n".encode())
    assert ran.exit_code == 2
    assert ran.stderr.endswith("no ratings by people were found; research data have them, see --from\n")


def test_ratings_that_were_kept_stay_where_there_are_none(tmp_path: Path) -> None:
    source, kept = tmp_path / "usr.json", tmp_path / "kept.ndjson"
    source.write_text(json.dumps([{"context": "a", "annotators": [], "responses": []}]), encoding="utf-8")
    kept.write_text("kept\n", encoding="utf-8")
    ran = CliRunner().invoke(command, [str(source), "--from", "fed", "--ratings", str(kept)])
    assert (ran.exit_code, kept.read_text("utf-8")) == (2, "kept\n")
    assert ran.stderr.endswith("no item was found; is the file of the format fed? Without --from it is detected\n")
