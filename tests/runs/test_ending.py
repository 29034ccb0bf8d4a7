"""b̄ of a batch: the mean of its own similarities, put into every result at its end."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.evaluation import AspectResult, Evaluation, PathResult, Paths, RelevanceOptions, RelevanceResult
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.worker import Means, blend_evaluation, end_batch
from tests.support.batches import LEASE, claim, finish, make_batch
from tests.support.fake_rubrics import FakeRubrics, aspect_data, small_rubric
from tests.support.records import make_record

NAMES = ("relevance",)


def measured(score: float | None) -> RelevanceResult:
    return RelevanceResult(score=score, baseline=None, baseline_source="batch", weight=10.0, encoder="fake")


def make_evaluation(score: float | None, rating: int | None = 2) -> Evaluation:
    mean = None if rating is None else float(rating)
    aspect = AspectResult(rating=rating, scale=(1, 3), label=None, samples=(rating,), mean=mean, sd=None)
    return make_record().evaluation.model_copy(
        update={"aspects": {"relevance": aspect, "overall": aspect}, "relevance": measured(score)}
    )


def means_of(*scores: float | None) -> Means:
    means = Means()
    for score in scores:
        means.add("source", measured(score))
    return means


def test_the_baseline_is_the_mean_of_what_was_measured() -> None:
    # (0.6 + 0.8) / 2: the response without a similarity is not a zero.
    assert means_of(0.6, 0.8, None).mean("source") == pytest.approx(0.7)
    assert means_of(None).mean("source") is None


def test_the_blend_is_c_plus_w_times_the_difference_and_the_rating_stands() -> None:
    found = blend_evaluation(make_evaluation(0.8), means_of(0.6, 0.8), NAMES)
    # 2 + 10 · (0.8 − 0.7)
    assert found.aspects["relevance"].blended == pytest.approx(3.0)
    assert found.aspects["relevance"].rating == 2
    assert found.aspects["overall"].blended is None
    assert found.relevance is not None
    assert found.relevance.baseline == pytest.approx(0.7)
    assert "baseline:batch=0.7000" in found.signature
    assert found.signature_pieces["blended"] == "relevance"


def test_blended_values_average_to_the_mean_rating() -> None:
    """The paper's choice: the term averages to zero in each batch."""
    evaluations = [make_evaluation(score, rating) for score, rating in ((0.5, 1), (0.7, 2), (0.9, 3))]
    means = means_of(0.5, 0.7, 0.9)
    blended = [blend_evaluation(one, means, NAMES).aspects["relevance"].blended for one in evaluations]
    assert sum(value for value in blended if value is not None) / 3 == pytest.approx(2.0)


def test_doing_it_twice_gives_the_same() -> None:
    means = means_of(0.6, 0.8)
    once = blend_evaluation(make_evaluation(0.8), means, NAMES)
    assert blend_evaluation(once, means, NAMES) == once


@pytest.mark.parametrize("evaluation", [make_evaluation(None), make_evaluation(0.8, None)])
def test_what_has_no_similarity_or_no_rating_has_no_blended_value(evaluation: Evaluation) -> None:
    found = blend_evaluation(evaluation, means_of(0.6, 0.8), NAMES)
    assert found.aspects["relevance"].blended is None


def test_each_language_path_has_its_own_baseline() -> None:
    means = means_of(0.6, 0.8)
    means.add("english", measured(0.2))
    means.add("english", measured(0.4))
    plain = make_evaluation(0.8)
    result = PathResult(aspects=plain.aspects, composites={}, relevance=measured(0.8), signature="s")
    english = result.model_copy(update={"relevance": measured(0.4)})
    pieces = {"saiten": "0", "path": "both", "model": "m", "english.model": "n"}
    paths = Paths(source=result, english=english, difference={}, translation_sensitive=False)
    found = blend_evaluation(
        plain.model_copy(update={"path": "both", "paths": paths, "signature_pieces": pieces}), means, NAMES
    )
    assert found.paths is not None
    # 2 + 10 · (0.8 − 0.7) and 2 + 10 · (0.4 − 0.3)
    assert found.paths.source.aspects["relevance"].blended == pytest.approx(3.0)
    assert found.paths.english.aspects["relevance"].blended == pytest.approx(3.0)
    assert found.signature_pieces["baseline"] == "batch=0.7000"
    assert found.signature_pieces["english.baseline"] == "batch=0.3000"
    assert found.signature_pieces["english.model"] == "n"
    assert found.signature_pieces["path"] == "both"
    assert "model:n" in found.paths.english.signature


async def test_what_the_results_amount_to_is_kept_at_the_end(engine: AsyncEngine) -> None:
    """A summary then reads no results, however many there are."""
    store = BatchStore(engine)
    rubric = small_rubric(aspects=[aspect_data("relevance", (1, 2, 3)), aspect_data("overall", (1, 2, 3))])
    asked = RelevanceOptions(baseline="batch", aspects=("relevance",))
    await make_batch(store, count=3, rubric=rubric.id, relevance=asked)
    work = await claim(store, 0)
    aspects = make_evaluation(0.8).aspects
    finished = [finish(work, place, aspects=aspects, relevance=measured(0.6 + 0.1 * place)) for place in range(3)]
    told = await store.commit("w1", finished, [work.job])
    await store.claim(told.ready[0], "w1", LEASE)
    await end_batch(store, FakeRubrics([rubric]), "ba_1")
    tally = (await store.tallies("team", ["ba_1"]))["ba_1"]
    assert tally is not None
    assert tally.results == 3
    # 2 + 10 · (b − 0.7) averages to 2.
    assert tally.aspects["relevance"].blended.n == 3
    assert tally.aspects["relevance"].blended.mean == pytest.approx(2.0)
