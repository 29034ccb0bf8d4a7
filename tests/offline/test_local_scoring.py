"""Scoring files by a model in the process: the same columns and the same reader, and a signature that names the model."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.offline.scorer import Scorer
from tests.support.offline_input import make_response
from tests.support.tiny_lm import save_judge

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("llguidance", "torch", "transformers")),
    reason="the judge extra is absent",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_judge(tmp_path_factory.mktemp("models") / "tiny-judge")


def open_scorer(folder: Path, batch: int = 8, judge: dict[str, Any] | None = None) -> Scorer:
    settings = {
        "judge": "local",
        "judge_folder": str(folder),
        "judge_precision": "float32",
        "judge_device": "cpu",
        "judge_concurrency": batch,
    }
    return Scorer("ja-dialogue", judge, relevance=None, settings=settings)


def score(scorer: Scorer, count: int) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = scorer(pa.Table.from_pylist([make_response(n) for n in range(count)])).to_pylist()
        return found
    finally:
        scorer.close()


def test_rows_are_scored_by_the_model_and_the_batch_does_not_matter(folder: Path) -> None:
    found = score(open_scorer(folder, 8), 3)
    assert {row["status"] for row in found} == {"scored"}
    assert found == score(open_scorer(folder, 1), 3)
    assert all("|model:tiny-judge_rev=" in row["signature"] for row in found)
    assert "judge:local/transformers" in found[0]["signature"]
    assert "float32" in found[0]["signature"]


def test_expected_values_are_asked_of_the_model_and_told_or_missed(folder: Path) -> None:
    [row] = score(open_scorer(folder, judge={"expected": True}), 1)
    expected = [value for name, value in row.items() if name.startswith("expected.") and value is not None]
    # Random weights may not have the values among their likeliest tokens.
    assert expected or "expected-unavailable" in row["warnings"]
    assert "top_logprobs=20" in row["signature"]


def test_another_model_starts_a_folder_of_its_own(folder: Path, tmp_path: Path) -> None:
    one, other = open_scorer(folder), open_scorer(save_judge(tmp_path / "tiny-judge", seed=9))
    assert one.signature == open_scorer(folder, 2).signature
    assert one.signature != other.signature
    assert str(folder.parent) not in json.dumps(one.described)
    for scorer in (one, other):
        scorer.close()


def test_a_broken_model_stops_the_run(tmp_path: Path) -> None:
    broken = save_judge(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(SettingsInvalid) as raised:
        score(open_scorer(broken), 3)
    assert raised.value.message.id == "model-not-loaded"


@pytest.mark.parametrize("options", [{"samples": 2}, {"temperature": 0.5}, {"model": "other"}])
def test_what_a_greedy_model_cannot_do_fails_each_row(folder: Path, options: dict[str, Any]) -> None:
    [row] = score(open_scorer(folder, judge=options), 1)
    assert (row["status"], row["failure"]) == ("failed", InvalidRequest.code)
