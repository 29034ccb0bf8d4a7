"""Equal signatures mean comparable scores: what may differ is not in them, what may not is."""

import pytest

from saiten_server.core import signature
from saiten_server.core.evaluation import JudgeOptions, JudgeProvenance, RelevanceResult
from saiten_server.core.rubric import Rubric
from saiten_server.scoring.rubrics.files import default_folder, read_rubric_file

COMMENT, LFQA = (read_rubric_file(default_folder() / f"{name}.yaml") for name in ("ko-comment", "lfqa"))
PROVENANCE = JudgeProvenance(
    kind="openai",
    model="gpt-6-luna-2026-09-22",
    fingerprint="fp_1",
    endpoint="openai",
    prompt="0123456789abcdef",
    parameters={"temperature": 0, "seed": 7},
)
RELEVANCE = RelevanceResult(
    score=0.731, baseline=0.69, baseline_source="calibration", weight=10.0, encoder="bert_L9", truncated=False
)


def judge_line(provenance: JudgeProvenance = PROVENANCE, options: JudgeOptions | None = None) -> str:
    return signature.sign(signature.describe_judge(provenance, options or JudgeOptions()))


def test_the_line_reads_like_sacrebleus() -> None:
    assert judge_line() == (
        "judge:openai/openai|model:gpt-6-luna-2026-09-22|prompt:0123456789ab|parameters:seed=7,temperature=0"
        "|dropped:-|samples:1|expected:no"
    )


def test_a_model_cannot_write_pieces_of_its_own() -> None:
    line = judge_line(PROVENANCE.model_copy(update={"model": "m|samples:9\nx"}))
    assert "|model:m/samples:9 x|" in line
    assert line.endswith("|samples:1|expected:no")


def test_weights_that_differ_sign_differently() -> None:
    lines = {
        signature.describe_relevance(RELEVANCE.model_copy(update={"weight": weight}), ())["weight"]
        for weight in (10.0, 10.000001)
    }
    assert lines == {"10", "10.000001"}


def test_a_fingerprint_of_the_endpoint_is_not_in_it() -> None:
    assert judge_line(PROVENANCE.model_copy(update={"fingerprint": "fp_2"})) == judge_line()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"prompt": "f" * 16},
        {"parameters": {"seed": 7}},
        {"dropped": ("seed",)},
        {"endpoint": "compatible"},
    ],
)
def test_whatever_changes_the_judgement_is(change: dict[str, object]) -> None:
    assert judge_line(PROVENANCE.model_copy(update=change)) != judge_line()


def test_samples_and_expected_are() -> None:
    assert len({judge_line(options=JudgeOptions(samples=n, expected=e)) for n in (1, 3) for e in (True, False)}) == 4


def test_the_blend_is() -> None:
    pieces = signature.describe_relevance(RELEVANCE, ("relevance",))
    assert signature.sign(pieces) == "encoder:bert_L9|baseline:calibration=0.6900|weight:10|blended:relevance"


def test_the_score_itself_is_not() -> None:
    other = RELEVANCE.model_copy(update={"score": 0.1})
    assert signature.describe_relevance(other, ()) == signature.describe_relevance(RELEVANCE, ())


def test_a_missing_encoder_shows() -> None:
    gone = RELEVANCE.model_copy(update={"score": None, "encoder": None})
    assert set(signature.describe_relevance(gone, ("relevance",)).values()) == {"-"}
    assert signature.describe_relevance(None, ()) == signature.describe_relevance(gone, ())


def test_both_paths_in_one_line() -> None:
    source = {"judge": "openai", "prompt": "aaa", "path": "source", "translator": "-"}
    english = {"judge": "openai", "prompt": "bbb", "path": "english", "translator": "deepl"}
    merged = signature.merge_paths(source, english)
    assert signature.sign(merged) == (
        "judge:openai|prompt:aaa|path:both|translator:-|english.prompt:bbb|english.translator:deepl"
    )


def test_pieces_that_differ_between_lines_are_found_in_their_order() -> None:
    lines = ("saiten:1|judge:a|model:b", "saiten:2|judge:a|model:c", "saiten:2|judge:d|model:b|weight:1")
    assert signature.find_differing(lines) == ("judge", "model", "weight")
    assert signature.find_differing(lines[:1]) == signature.find_differing([]) == ()  # every result may have failed


def test_a_given_baseline_stands_as_given_and_zero_has_no_sign() -> None:
    given = RELEVANCE.model_copy(update={"baseline_source": "number", "baseline": 4e-7, "weight": -0.0})
    pieces = signature.describe_relevance(given, ())
    assert (pieces["baseline"], pieces["weight"]) == ("number=4e-07", "0")
    minus = given.model_copy(update={"baseline": -0.0})
    assert signature.describe_relevance(minus, ())["baseline"] == "number=0"


@pytest.mark.parametrize(
    ("rubric", "options", "piece"),
    [
        (LFQA, JudgeOptions(samples=3), {"composites": "runs"}),
        (LFQA, JudgeOptions(samples=3, composites="means"), {"composites": "means"}),
        (LFQA, JudgeOptions(), {}),
        (COMMENT, JudgeOptions(samples=3), {}),
    ],
)
def test_how_composites_were_computed_is_named_where_it_matters(
    rubric: Rubric, options: JudgeOptions, piece: dict[str, str]
) -> None:
    assert signature.describe_composites(rubric, options) == piece
