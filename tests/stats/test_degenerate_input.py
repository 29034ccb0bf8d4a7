"""Whatever records say, every analysis answers: no NaN, no warning, and no null without a reason."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from saiten_server.core.errors import UnknownAspect
from saiten_server.core.model import Value
from saiten_server.core.rubric import LinearComposite
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.correlation import correlate_scores
from saiten_server.stats.fitting import fit_blend, fit_composite
from saiten_server.stats.hierarchy import find_hierarchy
from saiten_server.stats.win_rates import rate_wins
from tests.support.observed import observe

BENT = LinearComposite.model_validate(
    {
        "id": "bent",
        "kind": "linear",
        "terms": [{"aspect": "a", "weight": 1}, {"aspect": "b", "weight": -1, "transform": {"absolute": True}}],
    }
)
NUMBERS = st.sampled_from([None, 0, -0.0, 1, 2, 0.1, 0.3, -1, 5e-324, 1e-160, 1e15, -1e15, 999_999_999_999_999.9])
RATINGS = st.fixed_dictionaries({}, optional={"a": NUMBERS, "b": NUMBERS, "y": NUMBERS})
RECORDS = st.dictionaries(
    st.tuples(st.sampled_from("ABC"), st.integers(0, 5), st.sampled_from([None, "r1", "r2", "r3"])),
    RATINGS,
    min_size=1,
    max_size=25,
)
SCORES = st.lists(NUMBERS, min_size=10, max_size=10)


def observed(records, scores, similarity, *, dialogues):
    return observe(
        [
            {
                "system": system,
                "item": item,
                **({"dialogue": item % 3} if dialogues else {}),
                "rater": rater,
                "ratings": {"a": None, **ratings},
                "scores": {"a": scores[item], "b": scores[-1 - item]},
                "similarity": similarity[item],
            }
            for (system, item, rater), ratings in records.items()
        ],
        aspects=["a", "b", "y"],
    )


def nulls_without_a_word(model, without):
    """The names of null figures that `undefined` has nothing to say of, in the model and all that it holds.

    `without` are fields that these data do not have. A part without an `undefined` of its own, as a share of wins, may be null where its holder says why.
    """
    words = getattr(model, "undefined", {})
    for name in type(model).model_fields:
        value = getattr(model, name)
        if value is None and name not in words and name not in without:
            yield name
        if isinstance(value, dict) and None in value.values() and name not in words and name not in without:
            yield name
        if isinstance(value, dict):
            value = tuple(value.values())
        for part in value if isinstance(value, tuple) else [value]:
            if isinstance(part, BaseModel) and (name not in words or "undefined" in type(part).model_fields):
                yield from nulls_without_a_word(part, without)


def check(report: Value, *, dialogues: bool):
    # Only ratings of a batch are listed, and clusters only where records name dialogues. Why a rater has no correlation
    # stands in `notes`. An aspect that nothing scores has no confusion.
    without = {"ratings_used", "by_rater", "confusion"} | (set() if dialogues else {"clusters"})
    assert list(nulls_without_a_word(report, without)) == []
    # Values refuse NaN and infinity when they are made; what is written must be JSON again.
    assert type(report).model_validate_json(report.model_dump_json()) == report


@settings(deadline=None, max_examples=150)
@given(RECORDS, SCORES, SCORES, st.booleans())
def test_every_analysis_answers_whatever_it_is_given(records, scores, similarity, dialogues):
    read = observed(records, scores, similarity, dialogues=dialogues)
    for find in (
        measure_agreement,
        lambda read: correlate_scores(read, resamples=10),
        lambda read: find_hierarchy(read, alpha=0.5, method="principal-axis"),
        lambda read: find_hierarchy(read, alpha=0.5, method="residual"),
        rate_wins,
    ):
        check(find(read), dialogues=dialogues)
    for fit in (
        lambda: fit_composite(read, BENT, "y", test_share=0.3),
        lambda: fit_blend(read, "a", folds=2),
        lambda: fit_blend(read, "b", folds=2, statistic="pearson"),
    ):
        try:
            check(fit(), dialogues=dialogues)
        except UnknownAspect as error:
            assert "has no ratings" in error.detail
