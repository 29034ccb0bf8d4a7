"""What `saiten analyze` refuses: each fault with its line, in words that help, exit 2."""

import io
import sys
from pathlib import Path

import pytest

from saiten.commands.files import InvalidItems
from saiten_server.cli.analysis_input import read_beginning
from saiten_server.cli.analyze_files import rank_file
from saiten_server.preferences.rankings.values import RankingRequest
from tests.support.analyzing import AGREED, analyze, ndjson, refused
from tests.support.command import saiten

BROKEN = b"""{"item": "1", "ratings": {"fluency": 1}}
{"item": "2", "ratings": {"fluency": "3"}}
{"item": "3", "ratings": {"fluency": 1}
{"item": "1", "ratings": {"fluency": 1}}
{"item": "5", "ratings": {"fluencey": 2}}
{"itm": "6", "ratings": {"fluency": 2}}
{"item": "7", "rating": {"fluency": 2}}
"""


def test_every_broken_line_is_named_with_what_is_wrong() -> None:
    lines = refused("agreement", stdin=BROKEN)
    assert lines[0] == "saiten: standard input: line 2: 'fluency' is not a number"
    assert lines[1].startswith("standard input: line 3: is not valid JSON: ")
    assert lines[2] == "standard input: line 4: rates 'fluency' again after line 1 (item '1')"
    assert "line 5: unknown aspect 'fluencey'" in lines[3]
    assert "did you mean 'fluency'?" in lines[3]
    assert lines[4] == "standard input: line 6: has no item"
    assert lines[5:] == ["… and 1 more"]


LANGUAGES = {
    "ja": ("標準入力: 2 行目: 'fluency' は数値ではありません", "標準入力: ドキュメントが正しい JSON ではありません: "),
    "ko": ("표준 입력: 2행: 'fluency': 숫자가 아닙니다", "표준 입력: 문서가 올바른 JSON이 아닙니다: "),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_broken_lines_are_told_in_the_language_of_the_command(language: str, tmp_path: Path) -> None:
    # Each in a process of its own: a command's help is translated once, where it stands.
    line, document = LANGUAGES[language]
    for name, given, told in (
        ("agreement", BROKEN, line),
        ("agreement", b'[{"item": 3', document),
        ("ranking", b'[{"item": 3', document),
    ):
        done = saiten("analyze", name, "-", folder=tmp_path, stdin=given, SAITEN_LANGUAGE=language)
        assert done.returncode == 2
        assert done.stderr.startswith(f"saiten: {told}"), name


def test_every_broken_row_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes("item,rater,自然さ\n1,A,3\n1,A,2\n2,A,三\n3,A\n".encode())
    done = analyze("agreement", str(tmp_path / "r.csv"))
    assert done.exit_code == 2
    told = [line.removeprefix("saiten: ").removeprefix(f"{tmp_path / 'r.csv'}: ") for line in done.stderr.splitlines()]
    assert told == [
        "line 3: rates '自然さ' again after line 2 (item '1', rater 'A')",
        "line 4: '自然さ' is not a number; a cell without a value is left empty",
        "line 5: has 2 cells where the header has 3",
    ]


MISTAKES = {
    "nothing": (b"", "line 1: there is no record"),
    "only a header": (b"item,a\n", "there is no record"),
    "a record over several lines": (b'{\n "item": 1\n}', "each record is one line"),
    "the body of a request": (b'{"data": []}', "a file holds only the records"),
    "a row for each aspect": (b"item,aspect,rating\n1,fluency,3\n", "a table has a column for each aspect"),
    "half a workbook": (b"PK\x03\x04\x14", "standard input: is damaged"),
    "no known encoding": (b"item,a\n1,\xff\n", "line 2: is not UTF-8"),
    "half a compressed file": (b"\x1f\x8b\x08\x00", "standard input: is damaged"),
    "a PDF": (b"%PDF-1.7", "standard input: is a PDF"),
    "an escape sequence": (b'{"item": 1, "ratings": {"\\u001b[31m": "x"}}', "is not a number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_newcomers_mistake_is_told_in_words(mistake: str) -> None:
    stdin, words = MISTAKES[mistake]
    told = "\n".join(refused("agreement", stdin=stdin))
    assert words in told
    assert "\x1b" not in told


def test_unknown_aspects_are_told_with_the_known_ones() -> None:
    stdin = b'{"item": 1, "ratings": {"grammar": 1}}'
    assert refused("composite-fit", stdin=stdin)[1].startswith("the rubric lfqa knows only formality, amount_info,")
    assert (
        refused("agreement", "--aspects", "fluency,relevance", stdin=stdin)[1]
        == "--aspects knows only fluency, relevance"
    )


LACKING = {
    "no scores": (["correlation"], "no record has values of a metric or a judge in its field 'scores'; see --scores"),
    "no chosen scores": (["win-rates", "--values", "scores"], "no record has scores; see --values"),
    "no similarity": (["blend-fit"], "no record has a similarity"),
    "no such rubric": (["agreement", "--rubric", "nope"], "there is no rubric 'nope'"),
    "no such composite": (["composite-fit", "--rubric", "ja-dialogue", "--aspects", "自然さ"], "; see --composite"),
    "no target": (["composite-fit", "--aspects", "自然さ"], "has no ratings"),
    "alpha": (["hierarchy", "--alpha", "0.5"], "--alpha: should be less than 0.5"),
    "resamples": (["correlation", "--resamples", "5"], "--resamples: should be greater than or equal to 100"),
    "a name": (["agreement", "--label-aspect", "A B"], "--label-aspect: must match"),
    "a drawing": (["agreement", "--plot", "x.txt"], "must end in .png, .svg, .pdf"),
    "labels": (["agreement", "--labels", "O"], "write --labels like O=1,T=0.5,X=0"),
    "a long label": (["agreement", "--labels", "OX=1"], "a letter and a number each, not 'OX=1'"),
    "no finite label": (["agreement", "--labels", "O=inf"], "a letter and a number each"),
    "a label twice": (["agreement", "--labels", "O=1,O=0"], "--labels has 'O' twice"),
    "an empty aspect": (["agreement", "--aspects", "a,,b"], "write --aspects like"),
    "two sources": (["agreement", "--batch", "ba_1"], "give FILE or --batch"),
    "a service for a file": (["agreement", "--url", "http://127.0.0.1:1"], "--url goes with --batch"),
}


@pytest.mark.parametrize("what", LACKING)
def test_what_cannot_be_asked_of_the_data_is_bad_input(what: str) -> None:
    arguments, words = LACKING[what]
    assert words in "\n".join(refused(*arguments, stdin=ndjson(AGREED)))


@pytest.mark.parametrize(("name", "words"), [("nope.csv", "No such file or directory"), (".", "Is a directory")])
def test_files_that_cannot_be_read(name: str, words: str, tmp_path: Path) -> None:
    done = analyze("agreement", str(tmp_path / name))
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["agreement"], ["nope"], ["agreement", "a", "b"], ["agreement", "--alpha", "1"]]
)
def test_usage(arguments: list[str]) -> None:
    assert analyze(*arguments).exit_code == 2


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidItems, match="standard input is closed"):
        rank_file("-", None, RankingRequest())


def test_blank_lines_before_the_first_are_kept_for_counting() -> None:
    file = io.BytesIO(b"\n  \n{}\n{}\n")
    assert read_beginning(file) == [b"\n", b"  \n", b"{}\n"]
    assert file.read() == b"{}\n"
