"""`saiten analyze ranking`, `saiten leaderboard` and `saiten gate --pairwise`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from saiten.commands import leaderboard
from saiten.core.errors import SaitenError
from tests.preferences.rankings.test_api import list_records
from tests.support.analyzing import analyze, make_workbook, ndjson
from tests.support.command import saiten, served
from tests.support.preferences import PreferenceWorld, draw_pairs

RECORDS = list_records(draw_pairs(PreferenceWorld((-1.0, 0.0, 1.0), 0.3, 0.5, 0.3), 40, np.random.default_rng(1)))


def test_a_file_becomes_a_table_markdown_or_json() -> None:
    text = analyze("ranking", "-", stdin=ndjson(RECORDS))
    assert text.exit_code == 0, text.stderr
    assert "tied with the best: s2" in text.stdout
    assert "strength: log odds; 0 is the mean" in text.stdout
    assert "being shown first adds" in text.stdout
    lines = analyze("ranking", "-", "--markdown", stdin=ndjson(RECORDS)).stdout.splitlines()
    assert lines[0].startswith("| Rank | System | Strength |")
    assert [line.split(" | ")[1] for line in lines[2:]] == ["s2", "s1", "s0"]
    found = json.loads(analyze("ranking", "-", "--json", "--alpha", "0.1", stdin=ndjson(RECORDS)).stdout)
    assert found["alpha"] == 0.1
    assert found["tied_with_best"] == ["s2"]


def test_a_workbook_is_ranked_as_lines_are() -> None:
    names = ("item", "a", "b", "winner")
    rows = [names, *([record[name] for name in names] for record in RECORDS)]
    found = analyze("ranking", "-", "--json", stdin=make_workbook(rows))
    plain = [{name: record[name] for name in names} for record in RECORDS]
    assert found.stdout == analyze("ranking", "-", "--json", stdin=ndjson(plain)).stdout
    broken = analyze("ranking", "-", stdin=make_workbook([names, ["1", "x", "x", "x"]]))
    assert (broken.exit_code, "sheet 評価, row 2: " in broken.stderr) == (2, True), broken.stderr


@pytest.mark.parametrize(
    ("record", "said"),
    [({**RECORDS[0], "winner": "s9"}, "line 2"), ({**RECORDS[0], "b": RECORDS[0]["a"]}, "the same system")],
)
def test_faults_are_named_with_their_line(record: dict[str, str], said: str) -> None:
    done = analyze("ranking", "-", stdin=ndjson([RECORDS[0], record]))
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_options_that_do_not_fit_are_refused() -> None:
    assert analyze("ranking", "-", "--alpha", "2", stdin=ndjson(RECORDS)).exit_code == 2
    assert analyze("ranking", "-", "--by", "people", stdin=ndjson(RECORDS)).exit_code == 2


def test_two_runs_are_gated_by_preferences_and_ranked(tmp_path: Path) -> None:
    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        runs = []
        for system, answer in (("bot-a", "はい、家族で海へ行ってきました。"), ("bot-b", "海海海")):
            rows = [f"i{number},週末は出かけましたか？{number},{answer}" for number in range(12)]
            (tmp_path / "chat.csv").write_text("\n".join(["id,質問,回答", *rows]) + "\n", encoding="utf-8")
            done = saiten("batch", "chat.csv", "--metadata", f"system={system}", "--url", url, folder=tmp_path)
            runs += re.findall("ba_[0-9a-f]+", done.stdout)[:1]
        sides = ("--candidate", runs[0], "--baseline", runs[1])
        files = ("--junit", "gate.xml", "--markdown", "gate.md")
        gated = saiten("gate", "--pairwise", *sides, *files, "--url", url, "--json", folder=tmp_path, CI="")
        assert gated.returncode == 0, gated.stderr
        found = json.loads(gated.stdout)
        assert (found["verdict"], found["share"]) == ("pass", 1)
        assert "12 of 12 judged pairs have a preference" in found["coverage"]
        assert 0.5 < found["interval"][0] < 1
        suite = ET.parse(tmp_path / "gate.xml").getroot()
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
        said = {one.get("name"): one.get("value") for one in suite.iter("property")}
        assert (said["verdict"], said["preference_run"]) == ("pass", found["preference_run"])
        lines = (tmp_path / "gate.md").read_text("utf-8").splitlines()
        assert "| bot\\-a | bot\\-b | ties |".replace("\\", "") in [line.replace("\\", "") for line in lines]
        # Both say on their first line that the judge is a baseline.
        assert "lexical" in lines[0]
        assert "lexical" in (tmp_path / "gate.xml").read_text("utf-8").splitlines()[0]
        again = ("gate", "--pairwise", "--preferences", found["preference_run"], "--url", url)
        turned = ("--candidate", runs[1], "--baseline", runs[0], *files)
        worse = saiten(*again, *turned, folder=tmp_path)
        [failure] = ET.parse(tmp_path / "gate.xml").iter("failure")
        assert failure.get("type") == "share"
        assert (worse.returncode, "gate: fail" in worse.stdout) == (1, True), worse.stderr
        refused = saiten("gate", "--pairwise", *sides, "--url", url, folder=tmp_path, CI="true")
        assert refused.returncode == 3
        board = saiten("leaderboard", found["preference_run"], "--url", url, folder=tmp_path)
        assert board.returncode == 0, board.stderr
        assert "tied with the best: bot-a" in board.stdout
        table = saiten("leaderboard", found["preference_run"], "--markdown", "--url", url, folder=tmp_path)
        assert "| 1 | bot-a |" in table.stdout
        assert saiten("leaderboard", "--url", url, folder=tmp_path).returncode == 2
        (tmp_path / "said.ndjson").write_bytes(ndjson(RECORDS))
        file = ("gate", "--pairwise", "--preferences", "said.ndjson", "--url", url)
        passed = saiten(*file, "--candidate", "s2", "--baseline", "s1", folder=tmp_path)
        assert passed.returncode == 0, passed.stderr
        unsure = saiten(*file, "--candidate", "s0", "--baseline", "s9", folder=tmp_path)
        assert unsure.returncode == 3


def test_a_gate_of_pairs_says_what_it_needs(tmp_path: Path) -> None:
    sides = ("--candidate", "ba_1", "--baseline", "ba_2")
    nowhere = saiten("gate", "--pairwise", *sides, "--junit", "none/gate.xml", folder=tmp_path)
    assert (nowhere.returncode, "none/gate.xml" in nowhere.stderr) == (3, True)
    alone = saiten("gate", "--pairwise", "--candidate", "ba_1", folder=tmp_path)
    assert (alone.returncode, "--baseline" in alone.stderr) == (3, True)
    beside = saiten("gate", "--max-loss", "0.1", "--candidate", "ba_1", folder=tmp_path)
    assert (beside.returncode, "--pairwise" in beside.stderr) == (3, True)


def test_a_leaderboard_without_anything_to_rank_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*asked: object) -> dict[str, object]:
        return {"name": "nightly", "judge": None, "people": None, "ratings": None, "agreement": []}

    monkeypatch.setattr(leaderboard, "send", answer)
    done = CliRunner().invoke(leaderboard.command, ["--name", "nightly"])
    assert isinstance(done.exception, SaitenError)
    assert "nothing to rank" in str(done.exception)
