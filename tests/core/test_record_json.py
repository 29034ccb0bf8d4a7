"""A record written in parts has the bytes of one that is written whole."""

from datetime import UTC, datetime

import pytest

from saiten_server.core.evaluation import CallTrace, Record, add_badge, write_json
from saiten_server.core.reliability import UNVALIDATED, AspectValidation, Reliability
from tests.support.records import make_record

CALL = CallTrace(
    prompt_digest="p", sample=0, attempt=1, aspects=("a", "b"), reply='{"a": "「\\" \u2028😀"}', finish_reason=None
)
FOUND = AspectValidation(n=20, raters=2, spearman=0.5, pearson=0.25, spearman_interval=(0.1, 0.9))
BADGES = [
    UNVALIDATED,
    Reliability(validated=True, detail="ok", n=20, at=datetime(2026, 1, 2, tzinfo=UTC), aspects={"a": FOUND}),
]


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_the_record_is_as_pydantic_writes_it(calls: int) -> None:
    record = make_record().model_copy(update={"trace": (CALL,) * calls})
    written = write_json(record, record.evaluation.model_dump_json())
    assert written == record.model_dump_json()
    assert Record.model_validate_json(written) == record


@pytest.mark.parametrize("badge", BADGES)
def test_the_answer_has_the_badge_where_pydantic_puts_it(badge: Reliability) -> None:
    evaluation = make_record().evaluation
    marked = evaluation.model_copy(update={"reliability": badge})
    assert add_badge(evaluation.model_dump_json(), badge) == marked.model_dump_json()


def test_a_second_badge_is_not_added() -> None:
    marked = make_record().evaluation.model_copy(update={"reliability": UNVALIDATED})
    with pytest.raises(ValueError, match="badge"):
        add_badge(marked.model_dump_json(), UNVALIDATED)
