"""Comparisons of two systems: read from what other tools write, written for them, and there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from saiten.commands.convert import command
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.pairs import PAIR_SOURCES, PAIR_TARGETS, ComparedResponses, read_pairs, write_pairs
from saiten.core.formats.report import Report

PROMPT = "週末は何をしましたか。"
SEA, YES = "海に行きました。", "はい。"


def game(score: str | None) -> dict[str, Any]:
    return {"user_prompt": "…", "judgment": "わけ", "score": score}


def match(winner: str, rationale: str = "2 がよい") -> dict[str, Any]:
    given = {"id": "q1", "messages": [{"role": "user", "content": PROMPT}]}
    sides = [{"extra_info": given, "lm_output": text, "references": []} for text in (SEA, YES)]
    named = {"model1": "波", "model1_item": sides[0], "model2": "凪", "model2_item": sides[1]}
    return {**named, "winner": winner, "rationale": rationale}


def battle(winner: str, **changes: Any) -> dict[str, Any]:
    talks = [[{"role": "user", "content": PROMPT}, {"role": "assistant", "content": text}] for text in (SEA, YES)]
    told = {"question_id": "b1", "model_a": "波", "model_b": "凪", "winner": winner, "judge": "arena_user_7"}
    return {**told, "conversation_a": talks[0], "conversation_b": talks[1], **changes}


def annotation(preference: object) -> dict[str, Any]:
    outputs = {"output_1": SEA, "generator_1": "波", "output_2": YES, "generator_2": "凪"}
    return {"instruction": PROMPT, **outputs, "annotator": "weighted", "preference": preference, "price": 0.1}


def judged(first: str, second: str, **changes: Any) -> dict[str, Any]:
    told = {"question_id": 81, "model_1": "波", "model_2": "凪", "g1_winner": first, "g2_winner": second}
    return {**told, "judge": ["gpt-4", "pair-v2"], "g1_judgment": "[[A]]", "g2_judgment": "", "turn": 2, **changes}


def read(
    path: Path, records: list[dict[str, Any]], source: str | None = None
) -> tuple[list[ComparedResponses], Report]:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
    report = Report()
    return list(read_pairs(path, report, source)), report


def wins(looks: list[ComparedResponses]) -> list[tuple[str, str, str]]:
    return [(look.a, look.b, look.winner) for look in looks]


def skipped(report: Report) -> list[str]:
    return [where.rpartition(":")[2] for where, _ in report.skipped]


def test_arena_hard_has_the_baseline_first_and_then_second(tmp_path: Path) -> None:
    first = {"uid": "u1", "judge": "gpt", "model": "波", "baseline": "基", "games": [game("A>>B"), game("A>B")]}
    old = {"question_id": "u2", "model": "波", "judge": "gpt", "games": [game("[[B>A]]"), game(None)]}
    looks, report = read(tmp_path / "a.jsonl", [first, old, {**first, "games": [None, game("A=B")]}])
    assert report.source == "arena-hard"
    assert wins(looks) == [("基", "波", "a"), ("波", "基", "a"), ("baseline", "波", "b"), ("波", "基", "tie")]
    assert [look.item for look in looks] == ["u1", "u1", "u2", "u1"]
    assert skipped(report) == ["2", "3"]
    assert any("a win is a win" in line for line in report.lines())


def test_alpaca_eval_goes_from_one_to_two(tmp_path: Path) -> None:
    values = [1.0, 1.2, 1.5, 1.51, 2.0, 0, None, 3, True]
    looks, report = read(tmp_path / "a.jsonl", [annotation(value) for value in values])
    assert [look.winner for look in looks] == ["a", "a", "tie", "b", "b", "tie"]
    assert skipped(report) == ["7", "8", "9"]
    assert {(look.first, look.second, look.context[0]["text"], look.by_person) for look in looks} == {
        (SEA, YES, PROMPT, False)
    }
    assert len({look.item for look in looks}) == 1


def test_lmarena_is_what_people_said(tmp_path: Path) -> None:
    more = [{"role": "user", "content": "なぜ？"}, {"role": "assistant", "content": "暑いから。"}]
    longer = {name: battle("tie")[name] + more for name in ("conversation_a", "conversation_b")}
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "山です。"}, {"type": "image"}]}]
    given = [battle(one) for one in ("model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "invalid")]
    given += [
        battle("model_a", **longer),
        battle("model_b", conversation_b=battle("tie")["conversation_b"][:1] + parts),
    ]
    looks, report = read(tmp_path / "a.jsonl", given)
    assert [look.winner for look in looks] == ["a", "b", "tie", "tie", "tie", "a", "b"]
    assert skipped(report) == ["6"]
    assert {(look.rater, look.by_person) for look in looks} == {("arena_user_7", True)}
    assert (looks[0].first, looks[0].second) == (SEA, YES)
    assert looks[-1].second == "山です。"
    assert isinstance(looks[-2].first, list)
    assert [turn["role"] for turn in looks[-2].first] == ["user", "system"] * 2


def test_a_draw_that_flexeval_could_not_read_is_none(tmp_path: Path) -> None:
    given = [match("model1"), match("model2"), match("draw"), match("draw", "Parsing failure: ?"), match("x")]
    given.append(match("draw", "Invalid judge '7': 7"))
    looks, report = read(tmp_path / "a.jsonl", given)
    assert wins(looks) == [("波", "凪", "a"), ("波", "凪", "b"), ("波", "凪", "tie")]
    assert skipped(report) == ["4", "5", "6"]
    assert {(look.item, look.first, look.second) for look in looks} == {("q1", SEA, YES)}


def test_mt_bench_has_two_games_and_errors_are_no_ties(tmp_path: Path) -> None:
    given = [judged("model_1", "model_2"), judged("tie", "error"), judged("model_2", "model_2", m1_score=1, m2_score=2)]
    looks, report = read(tmp_path / "a.jsonl", given)
    assert wins(looks) == [("波", "凪", "a"), ("凪", "波", "a"), ("波", "凪", "tie"), ("波", "凪", "b")]
    assert {(look.item, look.dialogue, look.rater) for look in looks} == {("81-2", "81", "gpt-4")}
    assert skipped(report) == ["2"]
    assert any("taken once" in line for line in report.lines())


GIVEN = {
    "arena-hard": [
        {"uid": "u1", "judge": "gpt", "model": name, "baseline": "基", "games": [game("A>B"), game(second)]}
        for name, second in (("波", "A=B"), ("凪", "B>A"))
    ],
    "alpaca-eval": [annotation(value) for value in (1.0, 1.5, 2.0)],
    "lmarena": [battle(one, judge_hash="h", judge=None) for one in ("model_a", "tie", "model_b")],
    "flexeval-pairs": [match(one) for one in ("model1", "draw", "model2")],
    "mt-bench-pairs": [judged("model_1", "tie"), judged("error", "model_2", turn=1)],
    "ranking": [
        {"item": "i1", "dialogue": "d", "a": "波", "b": "凪", "winner": "a"},
        {"item": "i2", "a": "凪", "b": "波", "winner": "tie", "rater": "甲"},
    ],
    "preferences": [
        {
            "context": [{"speaker": "user", "text": PROMPT}],
            "first": {"response": SEA, "id": "波"},
            "second": {"response": YES, "id": "凪"},
            "rater": "甲",
            "preference": "first",
            "reason": "具体的",
        }
    ],
}


@pytest.mark.parametrize("tool", list(PAIR_SOURCES))
def test_what_is_written_for_a_tool_is_read_back_the_same(tmp_path: Path, tool: str) -> None:
    looks, report = read(tmp_path / "given.jsonl", GIVEN[tool])
    assert report.source == tool
    written = list(write_pairs(looks, tool, report))
    again, second = read(tmp_path / "written.jsonl", written)
    assert second.source == tool
    assert sorted(again, key=repr) == sorted(looks, key=repr)
    assert list(write_pairs(again, "ranking", second)) == list(write_pairs(again, "ranking", report))


@pytest.mark.parametrize("target", list(PAIR_TARGETS))
def test_every_comparison_reaches_every_tool_as_the_same_result(tmp_path: Path, target: str) -> None:
    looks, report = read(tmp_path / "given.jsonl", GIVEN["lmarena"][:1])
    again, second = read(tmp_path / "written.jsonl", list(write_pairs(looks, target, report)))
    assert second.source == target
    (look,) = again
    assert {look.a: "a", look.b: "b"}["波"] == look.winner


def test_records_of_a_ranking_have_lengths_where_there_are_texts(tmp_path: Path) -> None:
    looks, report = read(tmp_path / "a.jsonl", [battle("model_b"), battle("tie", conversation_a=None)])
    first, second = write_pairs(looks, "ranking", report)
    assert first == {
        "item": "b1",
        "a": "波",
        "b": "凪",
        "winner": "b",
        "rater": "arena_user_7",
        "length_a": len(SEA),
        "length_b": len(YES),
    }
    assert "length_a" not in second


def test_preferences_need_texts_that_differ_and_a_judges_are_simulated(tmp_path: Path) -> None:
    same = {**annotation(1.0), "output_2": SEA}
    looks, report = read(tmp_path / "a.jsonl", [annotation(2.0), same])
    (written,) = write_pairs(looks, "preferences", report)
    assert (written["preference"], written["simulated"], written["rater"]) == ("second", True, "weighted")
    assert any("the same text" in line for line in report.lines())
    looks, report = read(tmp_path / "b.jsonl", [judged("model_1", "model_2")])
    assert list(write_pairs(looks, "preferences", report)) == []


def test_what_names_no_pair_is_told_with_its_line(tmp_path: Path) -> None:
    good = GIVEN["ranking"][0]
    given = [good, {**good, "b": "波"}, {**good, "item": ""}, {**good, "winner": "c"}, {**good, "a": None}]
    looks, report = read(tmp_path / "a.jsonl", given)
    assert len(looks) == 1
    assert skipped(report) == ["2", "3", "4", "5"]
    with pytest.raises(UnreadableInput, match="no comparisons"):
        read(tmp_path / "b.jsonl", [{"context": ["a"], "response": "b"}])


def convert(*arguments: str) -> Any:
    return CliRunner().invoke(command, arguments)


def test_the_command_converts_and_reports(tmp_path: Path) -> None:
    path = tmp_path / "votes.json"
    path.write_text(json.dumps([battle("model_a"), battle("x")], ensure_ascii=False), encoding="utf-8")
    done = convert(str(path), "--to", "ranking")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["winner"] == "a"
    assert "1 comparison from 2 rows" in done.stderr
    assert "item 2" in done.stderr
    target = tmp_path / "out.jsonl"
    done = convert(str(path), "--from", "lmarena", "--to", "mt-bench-pairs", "--output", str(target))
    assert done.exit_code == 0, done.output
    assert json.loads(target.read_text(encoding="utf-8"))["g1_winner"] in {"model_1", "model_2", "error"}
    refused = convert(str(path), "--from", "promptfoo", "--to", "ranking")
    assert refused.exit_code == 2
    path.write_text(json.dumps([battle("x")]), encoding="utf-8")
    assert convert(str(path), "--to", "ranking").exit_code == 2
