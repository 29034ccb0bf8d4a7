"""The file of a judge's own ratings, where the service keeps ratings as well."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from saiten import Connection
from saiten.commands.gate_settings import GateSettings
from saiten.commands.gating import Reference, name_keeper
from saiten.connection import Object
from saiten_server.comparison.judge_checks.values import AnchorRatings
from tests.support.judge_checks import make_check

KEPT = "in the database (saiten.db)"


@dataclass
class Answering:
    """The part of a service that checks the judge; it keeps ratings of its own."""

    verdict: Literal["steady", "moved", "recorded"]
    asked: Object | None = None

    async def check_judge(self, request: Object) -> Object:
        self.asked = request
        return make_check(self.verdict).model_dump(mode="json")


def answering(verdict: Any) -> Connection:
    return cast(Connection, Answering(verdict))


async def test_a_missing_file_is_written_though_the_service_keeps_ratings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "judge.json"
    await Reference(str(file), KEPT).check(answering("steady"), {})
    assert AnchorRatings.model_validate_json(file.read_bytes()) == make_check("steady").ratings
    told = f"{file} was written with the judge's current ratings; it was compared with the ratings kept {KEPT}\n"
    assert capsys.readouterr().err == told


async def test_the_ratings_of_a_judge_that_moved_are_no_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "judge.json"
    await Reference(str(file), KEPT).check(answering("moved"), {})
    assert not file.exists()
    assert "was not written, for the judge moved; it was compared with" in capsys.readouterr().err


async def test_a_file_that_is_there_is_the_measure_and_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, backend = tmp_path / "judge.json", Answering("steady")
    file.write_text(make_check("steady").ratings.model_dump_json(), encoding="utf-8")
    before = file.read_bytes()
    await Reference(str(file), KEPT).check(cast(Connection, backend), {})
    assert backend.asked is not None
    assert AnchorRatings.model_validate_json(json.dumps(backend.asked["reference"])) == make_check("steady").ratings
    assert (file.read_bytes(), capsys.readouterr().err) == (before, "")


@pytest.mark.parametrize(
    ("url", "database", "told"),
    [
        (None, "sqlite:///saiten.db", KEPT),
        (None, "sqlite:////srv/scores.db", "in the database (scores.db)"),
        (None, "postgresql://saiten:secret@db/saiten", "in the database"),
        ("http://127.0.0.1:8000", "sqlite:///saiten.db", "by the service"),
    ],
)
def test_where_ratings_are_kept(monkeypatch: pytest.MonkeyPatch, url: str | None, database: str, told: str) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert name_keeper(GateSettings(url=url)) == told
