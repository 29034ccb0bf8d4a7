"""The example files are input that `saiten score` and `POST /v1/batches` take as they stand."""

from pathlib import Path

import pytest

from saiten.commands.score import read_scored_items
from saiten_server.core.batch import count_candidates
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.validation import validate
from saiten_server.runs.document import BatchReader

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "rubric", "systems"),
    [
        ("ja_candidates.jsonl", "ja-dialogue", ["sys-1", "sys-2", "sys-1", "sys-2", "sys-3"]),
        ("ko_candidates.json", "ko-comment", ["sys-1", "sys-2", "sys-1"]),
    ],
)
def test_example_is_read_whole(name: str, rubric: str, systems: list[str]) -> None:
    items = read_scored_items(str(EXAMPLES / name), {})
    requests = [validate(EvaluationRequest, item.request, DEFAULT_LIMITS) for item in items]
    assert [request.metadata["system"] for request in requests] == systems
    assert {request.rubric for request in requests} == {rubric}
    assert len({request.response for request in requests}) == len(requests)


def test_the_example_batch_is_taken_whole() -> None:
    reader = BatchReader(DEFAULT_LIMITS, ndjson=True)
    items = [*reader.feed((EXAMPLES / "ja_batch.ndjson").read_bytes()), *reader.close()]
    assert reader.options.rubric == "ja-dialogue"
    assert len({item.id for item in items}) == len(items) == 8
    assert sum(map(count_candidates, items)) == 12
