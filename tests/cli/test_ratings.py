"""`saiten ratings`: files in and out, whole or not at all, here and over a running service."""

import asyncio
import csv
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

import saiten as saiten_client
from saiten.commands.files import InvalidItems
from saiten.commands.ratings import RatingFile, parse_table, post_pieces, write_csv
from saiten_server.container import open_container
from saiten_server.platform.settings import Settings
from tests.support.analyzing import make_workbook
from tests.support.command import saiten, served
from tests.support.posted import make_item, wait_for
from tests.support.waiting import LIMIT_SECONDS

RATINGS: list[dict[str, Any]] = [
    {"item": "a", "rater": "R1", "ratings": {"warmth": 3, "clarity": -1.5}, "comment": "=HYPERLINK(0)\nと「言う」,\"引用\""},
    {"item": "a", "candidate": 0, "system": "甲", "rater": "@R2", "ratings": {"clarity": 1e-7}},
    {"item": "'=b", "rater": "'-R1", "ratings": {"warmth": 0}, "comment": "\t"},
    {"item": "-c", "rater": "＋R3", "ratings": {"warmth": 0.1}, "simulated": True},
]  # fmt: skip


def write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def write_lines(folder: Path, ratings: list[dict[str, Any]], name: str = "ratings.ndjson") -> str:
    return write(folder, name, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in ratings))


def read_export(text: str) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in json.loads(one).items() if name != "created_at"} for one in text.splitlines()
    ]


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_what_is_exported_is_imported_as_what_is_there(tmp_path: Path, form: str) -> None:
    first = saiten("ratings", "import", write_lines(tmp_path, RATINGS), folder=tmp_path)
    assert (first.returncode, first.stdout) == (0, "4 ratings: 4 added, 0 replaced\n"), first.stderr
    exported = saiten("ratings", "export", "--format", form, folder=tmp_path)
    assert exported.returncode == 0, exported.stderr
    again = saiten("ratings", "import", "-", folder=tmp_path, stdin=exported.stdout.encode())
    assert (again.returncode, again.stdout) == (0, "4 ratings: 0 added, 4 replaced\n"), again.stderr
    assert read_export(saiten("ratings", "export", folder=tmp_path).stdout) == RATINGS


def test_names_that_differ_in_white_space_stay_apart_in_a_table() -> None:
    names = ["a", " a", "a\u3000", "'a ", "'' a", "' '=a", "'", "'a", " =a", "\u2028a"]
    ratings = [{"item": item, "rater": rater, "ratings": {"x": 1.0}} for item in names for rater in names]
    table = "".join(write_csv(ratings)).encode()
    assert [record for _, record in parse_table(table)] == ratings


def test_no_cell_of_an_export_is_a_formula(tmp_path: Path) -> None:
    saiten("ratings", "import", write_lines(tmp_path, RATINGS), folder=tmp_path)
    text = saiten("ratings", "export", "--format", "csv", folder=tmp_path).stdout
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["comment"][:2] for row in rows] == ["'=", "", "'\t", ""]
    assert [row["rater"] for row in rows] == ["R1", "'@R2", "''-R1", "'＋R3"]
    assert [row["item"] for row in rows] == ["a", "a", "''=b", "'-c"]
    assert [row["clarity"] for row in rows] == ["-1.5", "1e-07", "", ""]  # numbers, which no quotation makes texts
    assert ",-1.5\r\n" in text


def test_an_array_and_a_table_of_a_spreadsheet_are_read(tmp_path: Path) -> None:
    array = write(tmp_path, "ratings.json", json.dumps(RATINGS[:2], indent=2))
    assert saiten("ratings", "import", array, folder=tmp_path).stdout == "2 ratings: 2 added, 0 replaced\n"
    sheet = "\ufeffitem, candidate ,system,warmth,clarity,comment\r\na,,,1,,\r\n\r\na,0,甲,,2, 良い \r\n"
    given = saiten("ratings", "import", "--rater", "R9", write(tmp_path, "r.csv", sheet), folder=tmp_path)
    assert (given.returncode, given.stdout) == (0, "2 ratings: 2 added, 0 replaced\n"), given.stderr
    assert read_export(saiten("ratings", "export", "--rater", "R9", folder=tmp_path).stdout) == [
        {"item": "a", "rater": "R9", "ratings": {"warmth": 1.0}},
        {"item": "a", "candidate": 0, "system": "甲", "rater": "R9", "ratings": {"clarity": 2.0}, "comment": " 良い "},
    ]


BAD = [
    ("r.ndjson", '{"item": "a", "rater": "R1", "ratings": {"x": 1}}\n\n{"item": "b"\n', "r.ndjson: line 3: the document is not valid JSON"),
    ("r.ndjson", '{"item": "a", "rater": "R1", "ratings": {"x": 1}}\n' * 2, "line 2: rates what line 1 rates, by the same rater"),
    ("r.csv", "rater,x\nR1,1\n", "r.csv: line 1: the header has no column 'item'"),
    ("r.csv", "item,rater\na,R1\n", "line 1: the header names no aspect"),
    ("r.csv", "item,rater,x,x\n", "line 1: the header has 'x' more than once"),
    ("r.csv", "item,rater,X y\n", "line 1: column 3 is called 'X y', and no aspect can be"),
    ("r.csv", 'item,rater,comment,x\na,R1,"two\nlines",1\nb,R1,,one\n', "r.csv: line 4: 'x' is not a number"),
    ("r.csv", "item,rater,x\na,R1\n", "line 2: has 2 cells where the header has 3"),
    ("r.csv", "item,rater,x\na,R1,\n", "line 2: rates nothing"),
    ("r.csv", "item,candidate,rater,x\na,first,R1,1\n", "line 2: 'candidate' is not a whole number from 0"),
    ("r.csv", "item,simulated,rater,x\na,maybe,R1,1\n", "line 2: 'simulated' is neither true nor false"),
    ("r.csv", 'item,rater,x\na,R1,1\n"b,R1,1\n', "line 3: is not valid CSV"),
    ("r.csv", b"item,rater,x\na,\xff,1\n", "line 2: is not UTF-8"),
    ("r.xlsx", make_workbook([["item", "rater", "x"], ["a", "R1", 1], ["b", "R1", "one"]]), "r.xlsx: sheet 評価, row 3: 'x' is not a number"),
    ("r.csv", b"PK\x03\x04", "r.csv: is damaged"),
    ("r.ndjson", "\n", "r.ndjson: no ratings"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "told"), BAD, ids=[told for *_, told in BAD])
def test_a_fault_of_a_file_is_told_with_its_line(tmp_path: Path, name: str, content: str | bytes, told: str) -> None:
    with pytest.raises(InvalidItems) as caught:
        RatingFile(str(tmp_path / write(tmp_path, name, content)), {})
    assert caught.value.exit_code == 2
    assert told in caught.value.message


BY_THE_SERVICE = [
    ("r.ndjson", '{"item": "a", "ratings": {"x": 1}}\n', "r.ndjson: line 1: /rater: is missing"),
    ("r.json", '[{"item": "a", "rater": "R1", "ratings": {"x": "1"}}]', "r.json: element 1: /ratings/x: must be a number"),
    ("r.ndjson", '{"item": "a", "rater": "R1", "ratings": {"x": 1}, "simulated": 1}\n', "line 1: /simulated: must be true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "told"), BY_THE_SERVICE, ids=[told for *_, told in BY_THE_SERVICE])
def test_what_the_service_refuses_is_told_with_its_line(tmp_path: Path, name: str, content: str, told: str) -> None:
    done = saiten("ratings", "import", write(tmp_path, name, content), folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ('{"item": "b", "rater": "R1"', "r.ndjson: line 2: the document is not valid JSON"),
        ('{"evaluation": "ev_0", "rater": "R1", "ratings": {"x": 1}}', "r.ndjson: line 2: there is no evaluation ev_0"),
    ],
)
def test_a_bad_file_is_refused_whole(tmp_path: Path, second: str, told: str) -> None:
    path = write(tmp_path, "r.ndjson", json.dumps(RATINGS[0]) + "\n" + second)
    done = saiten("ratings", "import", path, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"saiten: {told}")
    none = saiten("ratings", "export", folder=tmp_path)
    assert (none.stdout, none.stderr, none.returncode) == ("", "saiten: there are no such ratings\n", 0)


def test_usage_and_what_cannot_run(tmp_path: Path) -> None:
    assert saiten("ratings", "import", "none.csv", folder=tmp_path).returncode == 2
    assert saiten("ratings", "export", "--format", "xml", folder=tmp_path).returncode == 2
    path = write_lines(tmp_path, RATINGS)
    nobody = saiten("ratings", "import", path, "--url", "http://127.0.0.1:9", folder=tmp_path)
    assert nobody.returncode == 3
    assert "no service answers at http://127.0.0.1:9" in nobody.stderr


async def score(url: str, count: int) -> str:
    """The id of a finished batch of different responses."""
    items = [make_item(number, response="はい、" * (number % 5) + "海まで行きました。") for number in range(count)]
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SECONDS) as client:
        batch: str = (await client.post("/v1/batches", json={"items": items})).json()["id"]
        await wait_for(client, batch)
    return batch


async def test_a_service_takes_a_long_file_in_pieces_and_gives_it_back(tmp_path: Path) -> None:
    with served(tmp_path, SAITEN_LIMITS__BODY_BYTES="4096") as (url, _):
        batch = await score(url, 20)
        table = "item,rater,naturalness,relevance,overall\n" + "".join(
            f"i{number},R{rater},{1 + (number + rater) % 3},{1 + number % 3},{1 + (number + rater) % 5}\n"
            for rater in range(70)
            for number in range(20)
        )
        path = write(tmp_path, "ratings.csv", table)
        done = saiten("ratings", "import", path, "--batch", batch, "--url", url, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, "1400 ratings: 1400 added, 0 replaced\n"), done.stderr
        exported = saiten("ratings", "export", "--batch", batch, "--url", url, folder=tmp_path).stdout
        found = read_export(exported)
        assert (len(found), found[0]["batch"], found[-1]["rater"]) == (1400, batch, "R69")
        one = saiten("ratings", "export", "--rater", "R7", "--item", "i3", "--url", url, folder=tmp_path).stdout
        assert read_export(one) == [one for one in found if (one["rater"], one["item"]) == ("R7", "i3")]
        # A piece that would be refused wherever it stands is found before any is kept.
        misshapen = write(tmp_path, "misshapen.csv", table.replace("i3,R69,", "i3,R6\x019,"))
        whole = saiten("ratings", "import", misshapen, "--batch", batch, "--url", url, folder=tmp_path)
        # What is not in the batch stands in a later piece, and is found when that is kept.
        broken = write(tmp_path, "broken.csv", table.replace("i3,R69,", "i99,R69,"))
        refused = saiten("ratings", "import", broken, "--batch", batch, "--url", url, folder=tmp_path)
    line = 2 + 69 * 20 + 3
    assert (whole.returncode, f"misshapen.csv: line {line}: /rater: " in whole.stderr) == (2, True), whole.stderr
    assert "were kept" not in whole.stderr
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"broken.csv: line {line}: the batch has no item i99" in refused.stderr
    assert "of 1400 ratings were kept, the others were not" in refused.stderr


async def test_a_table_of_items_alone_makes_the_badge_of_the_judge_that_rated_them(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        batch = await score(url, 24)
        async with httpx.AsyncClient(base_url=url) as client:
            lines = (await client.get(f"/v1/batches/{batch}/results")).text.splitlines()
    scored = [(one["item"], one["aspects"]["coherence"]["rating"]) for one in map(json.loads, lines)]
    path = write(
        tmp_path, "r.csv", "item,rater,coherence\n" + "".join(f"{item},R1,{value}\n" for item, value in scored)
    )
    done = saiten("ratings", "import", path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    settings = Settings(database_url=f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}", encoder="off")
    async with open_container(settings) as service:
        summary = await service.batches.summarize("default", batch)
        badge = (await service.ratings.reliabilities.mark_summary("default", summary)).reliability
    assert badge is not None
    assert badge.n == 24
    assert badge.aspects["coherence"].spearman == pytest.approx(1)
    for words, told in (("exclude", "excluded"), ("exclude", "was excluded already")):
        assert saiten("ratings", words, "--rater", "R1", folder=tmp_path).stdout == f"{told}\n"
    async with open_container(settings) as service:
        marked = (await service.ratings.reliabilities.mark_summary("default", summary)).reliability
        events = await service.governance.audit.events("default", before=None, limit=9)
    assert marked is not None
    assert (marked.n, marked.aspects["coherence"].state) == (None, "unknown")
    assert [event.action for event in events] == ["ratings.excluded"]
    assert saiten("ratings", "include", "--rater", "R1", folder=tmp_path).stdout == "counts again\n"
    for wrong in ([], ["--rater", "R1", "--round", "rr_1"], ["--rater", " "]):
        assert saiten("ratings", "exclude", *wrong, folder=tmp_path).returncode == 2
    asked = ("ratings", "round", batch, "--name", "人手", "--items")
    opened = saiten(*asked, "5", "--choose", "informative", folder=tmp_path)
    assert opened.returncode == 0, opened.stderr
    assert re.match("rr_[0-9a-f]+: 5 responses; ", opened.stdout)
    assert "drawn at random" in opened.stderr
    assert saiten(*asked, "0", folder=tmp_path).returncode == 2
    own = saiten(*asked, "5", "--shared-with", opened.stdout.split(":")[0], folder=tmp_path)
    assert own.returncode == 2
    assert "a round of another batch" in own.stderr
    alone = saiten("ratings", "pairs", batch, batch, "--name", "比較", folder=tmp_path)
    assert alone.returncode == 2
    assert "names a run twice" in alone.stderr


def test_a_whole_file_is_said_to_be_simulated(tmp_path: Path) -> None:
    saiten("ratings", "import", "--simulated", write_lines(tmp_path, RATINGS), folder=tmp_path)
    exported = read_export(saiten("ratings", "export", folder=tmp_path).stdout)
    assert exported == [{**one, "simulated": True} for one in RATINGS]


@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_piece_that_fails_says_how_many_were_kept_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, interrupted: bool
) -> None:
    taken = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal taken
        if request.url.path == "/v1/info":
            return httpx.Response(200, json={"limits": {"body_bytes": 1}})
        if request.url.path == "/v1/validations/ratings":
            return httpx.Response(200, json={"ratings": 1})
        if taken == 2 and interrupted:
            raise asyncio.CancelledError
        if taken == 2:
            return httpx.Response(500, json={"detail": "away"})
        taken += 1
        return httpx.Response(200, json={"added": 1, "replaced": 0})

    read = RatingFile(str(tmp_path / write_lines(tmp_path, RATINGS)), {})
    async with saiten_client.Connection("http://h", transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(asyncio.CancelledError if interrupted else saiten_client.ServiceRefused):
            await post_pieces(read, client)
    assert "the first 2 of 4 ratings were kept" in capsys.readouterr().err


def test_a_table_that_excel_saved_in_japan_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes("item,rater,fluency,comment\r\n1,田中,3,自然な返答です\r\n".encode("cp932"))
    (rating,) = RatingFile(str(path), {}).ratings
    assert (rating["rater"], rating["comment"]) == ("田中", "自然な返答です")
    assert capsys.readouterr().err == f"saiten: {path}: text, CP932 (Shift_JIS), detected, separated by commas\n"


@pytest.mark.parametrize("form", ["tabs", "semicolons", "workbook", "compressed"])
def test_a_table_of_any_kind_is_read(tmp_path: Path, form: str) -> None:
    rows = [
        ["item", "rater", "fluency", "comment"],
        ["001", "田中", "3", "良い\nです"],
        ["2", "田中", "2", ""],
        ["3", "鈴木", "1", "'=1"],
    ]
    ends = {"tabs": "\t", "semicolons": ";", "compressed": ","}
    if form == "workbook":
        body = make_workbook(rows)
    else:
        table = io.StringIO()
        csv.writer(table, delimiter=ends[form]).writerows(rows)
        body = table.getvalue().encode("utf-16" if form == "tabs" else "utf-8")
    path = tmp_path / "ratings"
    path.write_bytes(gzip.compress(body) if form == "compressed" else body)
    assert RatingFile(str(path), {"batch": "ba_0"}).ratings == [
        {"item": "001", "rater": "田中", "batch": "ba_0", "ratings": {"fluency": 3.0}, "comment": "良い\nです"},
        {"item": "2", "rater": "田中", "batch": "ba_0", "ratings": {"fluency": 2.0}},
        {"item": "3", "rater": "鈴木", "batch": "ba_0", "ratings": {"fluency": 1.0}, "comment": "=1"},
    ]
