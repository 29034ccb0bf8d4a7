"""Figures of conversations that a monitor sampled with different probabilities: each counts for the inverse of its."""

from dataclasses import replace

import numpy as np
import pytest

from saiten.core.messages import Message
from saiten_server.comparison.corrected_runs import compare_corrected
from saiten_server.comparison.differences import compare
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.links.rules import LinkUse
from saiten_server.comparison.values import ComparedRun, GateRule
from saiten_server.core.conversation import FaultyTurns
from saiten_server.core.errors import InvalidRequest
from saiten_server.explorer.overview import split_systems as split_runs
from saiten_server.runs.frame import RunFrame, RunRatings, make_frame
from saiten_server.runs.summaries import estimate_findings, estimate_means, find_rate, share_out, spread, tally_frame
from saiten_server.runs.summary import (
    MeasureKey,
    ResultFigures,
    Tally,
    find_probability,
    pack_tally,
    tally_results,
    unpack_tally,
)
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.corrected import CorrectionOptions, correct, split_systems
from saiten_server.stats.correlation import correlate_scores
from saiten_server.stats.hierarchy import find_hierarchy
from saiten_server.stats.observations import Observations
from saiten_server.stats.scorers import compare_scorers
from saiten_server.stats.win_rates import rate_wins

OVERALL: MeasureKey = ("aspect", "overall")
SCALE = (1.0, 5.0)
RARE, OFTEN = 0.05, 0.5


def sample(rng: np.random.Generator, size: int = 4_000, *, often: float = OFTEN, drop: float = 0.0) -> RunFrame:
    """A day of which one conversation in ten is of a stratum that is sampled more often, and has a mean of 3, not 4."""
    chosen = rng.random(size) < 0.1
    rating = np.clip(np.round(rng.normal(np.where(chosen, 3.0, 4.0) - drop, 0.8)), 1, 5)
    probability = np.where(chosen, often, RARE)
    seen = rng.random(size) < probability
    return make_frame(
        int(seen.sum()),
        {OVERALL: rating[seen]},
        items=rng.integers(1, 2**62, seen.sum()),
        probability=probability[seen],
    )


def run_of(name: str, frame: RunFrame) -> ComparedRun:
    return ComparedRun(name, frame, len(frame), {}, {"overall": SCALE}, ("overall",))


def mean_of_all(drop: float = 0.0) -> float:
    rng = np.random.default_rng(7)
    chosen = rng.random(400_000) < 0.1
    return float(np.clip(np.round(rng.normal(np.where(chosen, 3.0, 4.0) - drop, 0.8)), 1, 5).mean())


def test_the_weighted_mean_is_right_and_its_interval_covers() -> None:
    rng, truth = np.random.default_rng(1), mean_of_all()
    means, covered, plain = [], 0, []
    for _ in range(400):
        frame = sample(rng)
        tally = tally_frame(frame)
        means.append(tally.measured.aspects["overall"].means.mean)
        plain.append(tally.aspects["overall"].means.mean)
        interval = estimate_means([frame], {"overall": SCALE}).measures["overall"].interval
        assert interval is not None
        covered += interval[0] <= truth <= interval[1]
    assert np.mean(means) == pytest.approx(truth, abs=0.02)
    assert np.mean(plain) < truth - 0.3
    assert covered / 400 >= 0.93


def figures(rating: float, probability: float | None, faulty: int = 0) -> ResultFigures:
    return ResultFigures(
        "scored",
        {OVERALL: rating, ("composite", "both"): rating},
        probability=probability,
        faulty=FaultyTurns(4, {"any": list(range(faulty))}) if faulty is not None else None,
    )


def test_a_summary_counts_what_there_is_and_weighs_what_it_means() -> None:
    tally = tally_results([figures(2, 0.5), figures(2, 0.5), figures(4, 0.1, faulty=0), figures(5, None)])
    measured = tally.measured.aspects["overall"]
    told = spread(tally.aspects["overall"].means, None, measured.means)
    # Weights 2, 2, 10 and 1.
    assert told.n == 4
    assert told.mean is not None
    assert told.mean == pytest.approx((2 * 2 * 2 + 10 * 4 + 5) / 15)
    squares = 4 * (2 - told.mean) ** 2 + 10 * (4 - told.mean) ** 2 + (5 - told.mean) ** 2
    assert told.sd == pytest.approx((squares / 15 * 4 / 3) ** 0.5)
    shares = share_out(measured.levels, tally.aspects["overall"].levels)
    assert shares == pytest.approx({2: 4 * 4 / 15, 4: 4 * 10 / 15, 5: 4 / 15})
    assert tally.statuses == {"scored": 4}
    again = unpack_tally(pack_tally(tally))
    assert again == tally
    assert again.probabilities == (0.1, 1.0)


def test_a_tally_in_parts_is_that_of_all_in_any_order() -> None:
    results = [figures(1 + number % 5, (None, 0.5, 0.05)[number % 3]) for number in range(30)]
    whole = tally_results(results)
    for cut in (1, 10, 29):
        parts = Tally()
        for part in (results[:cut], results[cut:]):
            parts.merge(unpack_tally(pack_tally(tally_results(part))))
        ours, theirs = parts.measured.aspects["overall"].means, whole.measured.aspects["overall"].means
        assert (ours.n, ours.mean, ours.squares) == pytest.approx((theirs.n, theirs.mean, theirs.squares))
    rated = tally_results([figures(1, None), figures(2, None)])
    rated.merge(tally_results([figures(5, 0.5)]))
    assert rated.measured.aspects["overall"].means.mean == pytest.approx((1 + 2 + 2 * 5) / 4)


def test_a_rate_of_faulty_turns_is_weighed_with_its_interval() -> None:
    many, few = FaultyTurns(4, {"repetition": [1, 2]}), FaultyTurns(4, {})
    frame = make_frame(
        60,
        {},
        faults=(None, many, few),
        fault=np.array([1] * 40 + [2] * 20),
        probability=np.array([0.5] * 40 + [0.05] * 20),
    )
    code = "repetition"
    told = find_rate(tally_frame(frame), code, estimate_findings(frame))
    assert (told.conversations, told.turns, told.system_turns) == (60, 80, 240)
    assert told.rate == pytest.approx(100 * 80 * 2 / (160 * 2 + 80 * 20))
    assert told.interval is not None
    assert told.rate is not None
    assert told.interval[0] < told.rate < told.interval[1] < 33


def test_equal_probabilities_change_no_figure() -> None:
    rng = np.random.default_rng(3)
    before, after = (
        make_frame(90, {OVERALL: rng.integers(1, 6, 90).astype(float)}, items=np.arange(90) + first)
        for first in (1, 1000)
    )
    alike = [make_frame(90, frame.values, items=frame.items, probability=np.full(90, 0.3)) for frame in (before, after)]
    plain = [run_of(name, frame) for name, frame in (("a", before), ("b", after))]
    sampled = [run_of(name, frame) for name, frame in zip("ab", alike, strict=True)]
    rule = GateRule(aspect="overall", max_drop=0.1, min_mean=2.0)
    ours = judge_gate(plain[1], plain[0], [rule], test="unpaired")
    assert judge_gate(sampled[1], sampled[0], [rule], test="unpaired").model_dump_json() == ours.model_dump_json()
    assert estimate_means([alike[0]], {}) == estimate_means([before], {})
    assert tally_frame(alike[0]).measured.aspects == tally_frame(before).aspects


def test_a_comparison_weighs_runs_of_different_rates() -> None:
    """The candidate's stratum was sampled with a higher rate: unweighted its mean is lower by far, weighted it is not."""
    rng = np.random.default_rng(11)
    rejected = 0
    for _ in range(5):
        before, after = run_of("a", sample(rng)), run_of("b", sample(rng, often=1.0))
        found = compare(before, after, test="unpaired").aspects["overall"]
        assert found.difference is not None
        assert abs(found.difference) < 0.3
        rejected += found.p is not None and found.p < 0.05
        assert found.cliffs_delta is None
        assert "cliffs_delta" in found.undefined
    assert rejected <= 2
    worse = compare(run_of("a", sample(rng)), run_of("b", sample(rng, drop=0.6)), test="unpaired").aspects["overall"]
    assert worse.verdict == "worse"


def test_pairs_are_weighed() -> None:
    rng = np.random.default_rng(5)
    frame = sample(rng)
    moved = np.where(frame.probability == RARE, 1.0, 0.0) * (rng.random(len(frame)) < 0.5)
    again = make_frame(
        len(frame), {OVERALL: frame.read(OVERALL) - moved}, items=frame.items, probability=frame.probability
    )
    found = compare(run_of("a", frame), run_of("b", again)).aspects["overall"]
    weights = 1 / frame.probability
    assert found.difference == pytest.approx(-float(weights @ moved / weights.sum()))
    assert found.verdict == "worse"
    assert found.wins is None


def test_a_minimum_is_of_the_weighted_mean() -> None:
    run = run_of("a", sample(np.random.default_rng(2)))
    assert float(run.frame.read(OVERALL).mean()) < 3.6
    report = judge_gate(run, None, [GateRule(aspect="overall", min_mean=3.7)])
    assert report.verdict == "pass"


def rate_some(run: ComparedRun, rng: np.random.Generator, share: float = 0.4) -> ComparedRun:
    """People say .5 less than the judge, of a share of the conversations."""
    frame = run.frame
    rows = np.flatnonzero(rng.random(len(frame)) < share)
    said = np.clip(frame.read(OVERALL)[rows] - (rng.random(len(rows)) < 0.5), 1, 5)
    people = np.full(len(frame), np.nan)
    people[rows] = said
    changed = {"people": {"overall": people}, "said": {"overall": RunRatings(rows, np.ones(len(rows), np.int64), said)}}
    return ComparedRun(**{**run.__dict__, "frame": RunFrame(**{**frame.__dict__, **changed})})


def test_corrected_figures_are_weighed() -> None:
    rng = np.random.default_rng(9)
    truth = mean_of_all() - 0.5
    covered, means = 0, []
    for _ in range(60):
        run = rate_some(run_of("a", sample(rng)), rng)
        other = rate_some(run_of("b", sample(rng)), rng)
        found = compare_corrected(run, other, alpha=0.05, paired=False)["overall"]
        assert found.baseline is not None
        assert found.baseline.interval is not None
        means.append(found.baseline.mean)
        covered += found.baseline.interval[0] <= truth <= found.baseline.interval[1]
    assert np.mean(means) == pytest.approx(truth, abs=0.05)
    assert covered >= 52


def test_the_corrected_analysis_of_a_batch_weighs_its_conversations() -> None:
    frame = sample(np.random.default_rng(4))
    rating, n = frame.read(OVERALL), len(frame)
    people = np.where(np.arange(n) % 3 == 0, np.clip(rating - np.arange(n) % 2, 1, 5), np.nan)
    observations = Observations(
        systems=("a",),
        items=tuple(map(str, range(n))),
        raters=(),
        system=np.zeros(n, np.int64),
        item=np.arange(n),
        rater=np.full(n, -1, np.int64),
        ratings={"overall": people},
        scores={"overall": rating},
        sampled=frame.probability,
    )
    found = correct(split_systems(observations, "overall", np.arange(n))["a"][0], CorrectionOptions(bounds=SCALE))
    weights, rated = 1 / frame.probability, ~np.isnan(people)
    assert found.judge.clustered.mean == pytest.approx(float(weights @ rating / weights.sum()))
    assert found.human is not None
    assert found.human.clustered.mean == pytest.approx(float(np.average(people[rated], weights=weights[rated])))


def test_links_take_no_such_runs() -> None:
    run = run_of("a", sample(np.random.default_rng(2)))
    with pytest.raises(InvalidRequest, match="different probabilities"):
        compare(run, run, link=LinkUse.__new__(LinkUse))


def observe_strata(
    rng: np.random.Generator, size: int = 60, *, systems: int = 1, ratio: float = 10.0, alike: bool = False
) -> Observations:
    """People and a judge on conversations of two strata: in the one that was sampled less often the judge says 1 more
    than people, in the other as much."""
    rare = np.arange(size) % 2 == 0
    people = np.clip(np.round(rng.normal(3, 1, size)), 1, 5)
    judge = people + rare * rng.choice([0.5, 1.5], size)
    return Observations(
        systems=tuple(map(str, range(systems))),
        items=tuple(map(str, range(size))),
        raters=(),
        system=np.arange(size) % systems,
        item=np.arange(size),
        rater=np.full(size, -1, np.int64),
        ratings={"overall": people, "empathy": judge},
        scores={"overall": judge},
        dialogue=np.arange(size) // 2,
        sampled=np.full(size, 0.3) if alike else np.where(rare, 1 / ratio, 1.0),
    )


def test_agreement_weighs_means_and_correlations_between_aspects() -> None:
    given = observe_strata(np.random.default_rng(1))
    assert given.sampled is not None
    found, weights = measure_agreement(given), np.rint(1 / given.sampled).astype(int)
    people, judge = (np.repeat(given.ratings[name], weights) for name in ("overall", "empathy"))
    assert found.aspects["overall"].mean == pytest.approx(people.mean())
    assert found.aspects["overall"].sd == pytest.approx(people.std() * (60 / 59) ** 0.5)
    assert found.correlations.pearson["overall"]["empathy"] == pytest.approx(np.corrcoef(people, judge)[0, 1])
    assert Message("agreement-unweighted") in found.aspects["overall"].notes
    plain = replace(given, sampled=None)
    alike = observe_strata(np.random.default_rng(1), alike=True)
    assert measure_agreement(alike) == measure_agreement(plain)
    assert correlate_scores(alike) == correlate_scores(plain)


def test_the_weighted_bias_covers() -> None:
    """In all conversations, of which eleven in twelve or so are of the rare stratum, the judge says 10/11 more."""
    rng, held, plain = np.random.default_rng(2), 0, []
    for _ in range(300):
        given = observe_strata(rng, 160)
        found = correlate_scores(given).aspects["overall"]
        assert found.bias is not None
        assert found.bias_interval is not None
        held += found.bias_interval[0] <= 10 / 11 <= found.bias_interval[1]
        plain.append(float((given.scores["overall"] - given.ratings["overall"]).mean()))
    assert held / 300 >= 0.92
    assert np.mean(plain) == pytest.approx(0.5, abs=0.05)
    few = correlate_scores(observe_strata(rng, 40)).aspects["overall"]
    assert (few.bias_interval, few.undefined["bias_interval"]) == (None, Message("few-weighted", least=30))


def test_what_counts_each_conversation_once_is_refused_for_uneven_samples() -> None:
    given = observe_strata(np.random.default_rng(3), systems=2)
    for analyse in (find_hierarchy, rate_wins, compare_scorers):
        with pytest.raises(InvalidRequest, match="counts each conversation once"):
            analyse(given)
    alike = observe_strata(np.random.default_rng(3), systems=2, alike=True)
    assert find_hierarchy(alike) == find_hierarchy(replace(alike, sampled=None))
    frame = split_runs(given, ["overall", "empathy"])[0].frame
    assert sorted(set(frame.probability.tolist())) == pytest.approx([0.1])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("0.05", 0.05),
        ("1", 1.0),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("1.5", None),
        ("x", None),
        ("1e-300", None),
    ],
)
def test_only_a_probability_of_a_monitor_is_one(given: str, found: float | None) -> None:
    assert find_probability({"monitor": "mo_1", "probability": given}) == found
    assert find_probability({"probability": given}) is None
