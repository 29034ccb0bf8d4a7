"""The example files are input that `saiten score` takes as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.items import read_items
from app.domain.dialogue import DEFAULT_LIMITS

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "rubric", "systems"),
    [
        ("ja_candidates.jsonl", "ja-dialogue", ["sys-1", "sys-2", "sys-1", "sys-2", "sys-3"]),
        ("ko_candidates.json", "ko-comment", ["sys-1", "sys-2", "sys-1"]),
    ],
)
def test_example_is_read_whole(name: str, rubric: str, systems: list[str]) -> None:
    requests = read_items(str(EXAMPLES / name), {}, DEFAULT_LIMITS)
    assert [request.metadata["system"] for request in requests] == systems
    assert {request.rubric for request in requests} == {rubric}
    assert len({request.response for request in requests}) == len(requests)
