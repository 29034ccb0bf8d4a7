"""Links between judges: tables, what is refused, and the linking error in a comparison and a gate."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from saiten.core.messages import Message
from saiten_server.comparison.differences import compare
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.links.rules import (
    JudgePairs,
    LinkUse,
    link_counts,
    link_judges,
    link_linearly,
    link_percentiles,
    link_run,
    pair_judges,
    pair_responses,
)
from saiten_server.comparison.links.values import Link, LinkMark, StoredLink
from saiten_server.comparison.values import ComparedRun, GateRule
from saiten_server.runs.frame import RunFrame
from tests.support.fake_rubrics import aspect_data, small_rubric
from tests.support.runs import Row, make_frame

RUBRIC = small_rubric(
    aspects=[aspect_data("clarity", range(1, 6)), aspect_data("warmth", range(1, 4))],
    composites=[{"id": "both", "kind": "mean", "of": ["clarity", "warmth"]}],
)
LEVELS = (1, 2, 3, 4, 5)


def cut(values: Any, cuts: list[float]) -> Any:
    return 1.0 + np.searchsorted(np.array(cuts), values)


def pair(n: int = 300, noise: float = 0.35, seed: int = 0, shift: float = 0.5, **changes: Any) -> JudgePairs:
    """An old judge, and one that is kinder by `shift` standard deviations."""
    generator = np.random.default_rng(seed)
    quality = generator.standard_normal(n)
    old, new = (quality + noise * generator.standard_normal(n) for _ in range(2))
    cuts = [-1.5, -0.5, 0.5, 1.5]
    given = {"old": cut(old, cuts), "new": cut(new + shift, cuts), "clusters": np.arange(n), "levels": LEVELS}
    return JudgePairs(**{**given, **changes})


def test_percentiles_are_those_of_kolen_and_brennan() -> None:
    """Their tables 2.3 and 2.4, where a test of four items is equated with another; of 4 they make 4.25."""
    old, new = np.array([[0.2, 0.3, 0.2, 0.2, 0.1]]), np.array([[0.1, 0.2, 0.2, 0.3, 0.2]])
    assert link_percentiles(old, new)[0] == pytest.approx([0.5, 1.75, 2.8333333, 3.5, 4.0])
    # Of the ranks that a level without ratings leaves open, the middle.
    assert link_percentiles(np.array([[0.5, 0.0, 0.5]]), np.array([[0.5, 0.0, 0.5]]))[0] == pytest.approx(
        [0, 1, 2], abs=1e-9
    )


def test_a_line_keeps_the_mean_and_the_scale() -> None:
    old, new = np.array([[0.5, 0.5], [0.3, 0.7]]), np.array([[0.2, 0.8], [0.3, 0.7]])
    table = link_linearly(old, new)
    assert (old * table).sum(axis=1) == pytest.approx([0.8, 0.7])
    assert table[1] == pytest.approx([0, 1])
    assert table.max() <= 1


def test_a_judge_that_is_the_same_is_linked_to_itself() -> None:
    own = pair()
    link, tables = link_judges(JudgePairs(own.old, own.old, own.clusters, LEVELS))
    assert tables is not None
    assert {level: one.value for level, one in link.table.items()} == pytest.approx({str(one): one for one in LEVELS})
    assert (link.state, link.method, link.correlation, link.margin) == ("linked", "equipercentile", 1, 0)


def test_turns_of_few_dialogues_widen_the_interval() -> None:
    alone, turns = link_judges(pair())[0], link_judges(pair(clusters=np.arange(300) // 20))[0]
    assert (alone.clusters, turns.clusters) == (300, 15)
    assert alone.table["3"].interval is not None
    assert alone.table["3"].interval[0] < alone.table["3"].value < alone.table["3"].interval[1]
    assert alone.margin is not None
    assert alone.pairs_needed == max(100, int(np.ceil(300 * (alone.margin / 0.05) ** 2)))


def test_intervals_of_few_dialogues_are_expanded() -> None:
    given = pair(clusters=np.arange(300) // 25)
    link, tables = link_judges(given)
    assert tables is not None
    reach = float(t.ppf(0.975, 11)) * (12 / 11) ** 0.5
    ends = np.quantile(tables, [norm.cdf(-reach), norm.cdf(reach)], axis=0)
    assert [link.table[str(level)].interval for level in LEVELS] == [
        pytest.approx(tuple(one), abs=2e-5) for one in ends.T
    ]
    shares = np.bincount(given.old.astype(int) - 1) / 300
    assert link.margin == pytest.approx(reach * float((tables @ shares).std(ddof=1)) / 4, abs=1e-5)


REFUSED: dict[str, tuple[JudgePairs, Message | str]] = {
    "few": (pair(99), Message("few-responses", rated=Message("responses", n=99), needed=100)),
    "none": (pair(0), Message("few-responses", rated=Message("responses", n=0), needed=100)),
    "dialogues": (
        pair(clusters=np.arange(300) % 9),
        Message("few-dialogues", dialogues=Message("dialogues", n=9), needed=10),
    ),
    "constant": (pair(new=np.full(300, 4.0)), Message("new-constant")),
    "beyond": (pair(old=np.full(300, 6.0)), Message("old-beyond-scale")),
    "unseen": (pair(old=np.clip(pair().old, 2, 4)), "the old judge never gave 1, 5: every level must be seen"),
    "weak": (pair(noise=1.0), "the lower bound of their correlation is 0"),
    "reversed": (pair(old=6 - pair().old), "the lower bound of their correlation is -0"),
    # Samples that always agree: what separates the judges is not noise, and 0.8 is asked for.
    "steady": (
        JudgePairs(pair().old, pair().new, pair().clusters, LEVELS, (np.zeros(300), np.zeros(300))),
        "the lower bound of their corrected correlation is 0.7",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_linked_says_why(name: str) -> None:
    pairs, reason = REFUSED[name]
    link, tables = link_judges(pairs)
    assert (link.state, link.table, tables) == ("refused", {}, None)
    assert link.reason is not None
    assert str(reason) in str(link.reason)


def test_noise_between_samples_is_taken_out_of_the_correlation() -> None:
    noisy = pair(noise=0.6)
    assert link_judges(noisy)[0].state == "refused"
    link, _ = link_judges(JudgePairs(noisy.old, noisy.new, noisy.clusters, LEVELS, (np.full(300, 0.25),) * 2))
    assert link.state == "linked"
    assert link.repeatability is not None
    assert link.correlation is not None
    assert link.corrected_correlation == pytest.approx(
        link.correlation / np.sqrt(link.repeatability.old * link.repeatability.new), abs=1e-5
    )


# In a comparison


def store(pairs: JudgePairs, **aspects: Any) -> StoredLink:
    link, tables = link_judges(pairs)
    assert tables is not None
    made = Link(
        id="ln_1",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        old="ba_1",
        new="ba_2",
        old_signature="judge:a",
        new_signature="judge:b",
        aspects={"clarity": link, **aspects},
    )
    return StoredLink(made, {"clarity": tables.tolist()})


def run(name: str, clarity: Any, signature: str) -> ComparedRun:
    items = [
        Row(str(at), None, {"clarity": float(value), "warmth": 2.0}, {"both": (float(value) + 2) / 2})
        for at, value in enumerate(clarity)
    ]
    scales = {"clarity": (1.0, 5.0), "warmth": (1.0, 3.0), "both": (1.0, 4.0)}
    frame = make_frame(items, ("clarity", "warmth"))
    return ComparedRun(name, frame, len(items), {signature: len(items)}, scales, ("clarity", "warmth"))


def use(old: ComparedRun, stored: StoredLink) -> tuple[ComparedRun, LinkUse]:
    linked, values = link_run(old, stored, RUBRIC, {"judge:b": len(old.frame)})
    mark = LinkMark(id="ln_1", old_signature="judge:a", new_signature="judge:b", runs=("baseline",))
    return linked, LinkUse(mark, values)


def test_counts_of_levels_are_linked_as_their_ratings_are() -> None:
    stored, old = store(pair(150)), run("old", pair(200, seed=5).old, "judge:a")
    linked, link = use(old, stored)
    assert link.baseline is not None
    values, before = (one.frame.values["aspect", "clarity"] for one in (linked, old))
    counts = {str(level): int(np.sum(before == level)) for level in LEVELS}
    found = link_counts(counts, stored, "clarity")
    assert found is not None
    assert found.mean == pytest.approx(np.mean(values))
    assert found.stretch == pytest.approx(np.std(values) / np.std(before))
    assert found.error == pytest.approx(
        link.baseline.draw_means("aspect", "clarity", np.full(200, 1 / 200), None).std(ddof=1)
    )
    for nothing in (({}, "clarity"), (counts, "warmth"), ({"9": 3}, "clarity")):
        assert link_counts(nothing[0], stored, nothing[1]) is None


def test_the_linking_error_is_in_every_figure_of_chance() -> None:
    fresh = pair(200, seed=5)
    linked, link = use(run("old", fresh.old, "judge:a"), store(pair(150)))
    after = run("new", fresh.new, "judge:b")
    without = compare(linked, after).aspects["clarity"]
    found = compare(linked, after, link=link)
    measure = found.aspects["clarity"]
    assert found.link == link.mark
    linked_run = Message("linked-baseline-run", link="ln_1")
    assert found.notes[-1] == Message("clauses", clauses=[linked_run, Message("link-error-included")])
    assert without.standard_error is not None
    assert measure.standard_error == pytest.approx(np.hypot(without.standard_error, measure.link_error))
    assert measure.link_error > 0.02
    assert measure.interval is not None
    assert without.interval is not None
    assert measure.interval[0] < without.interval[0] < without.interval[1] < measure.interval[1]
    assert measure.p is not None
    assert without.p is not None
    assert measure.p >= without.p
    assert measure.smallest_detectable is not None
    assert without.smallest_detectable is not None
    assert measure.smallest_detectable > without.smallest_detectable
    # A level and a linked value are hardly ever equal: which is higher says nothing.
    assert (measure.wins, measure.cliffs_delta, measure.ranks_favour) == (None, None, "neither")
    assert set(measure.undefined) >= {"wins", "cliffs_delta"}
    # Nothing of the old judge's is left where there is no link.
    assert found.aspects["warmth"].n == found.composites["both"].n == 0


def test_composites_have_the_error_of_their_aspects() -> None:
    stored = store(pair(150))
    both = StoredLink(
        stored.link.model_copy(
            update={"aspects": dict.fromkeys(("clarity", "warmth"), stored.link.aspects["clarity"])}
        ),
        dict.fromkeys(("clarity", "warmth"), stored.draws["clarity"]),
    )
    fresh = pair(200, seed=5)
    linked, link = use(run("old", fresh.old, "judge:a"), both)
    found = compare(linked, run("new", fresh.new, "judge:b"), link=link)
    errors = [one.link_error for one in (found.composites["both"], found.aspects["clarity"])]
    assert 0 < errors[0] < errors[1] + 0.1


def test_a_gate_by_a_link_does_not_take_another_judge_for_a_drop() -> None:
    harsher = pair(400, seed=5, shift=-0.6)
    linked, link = use(run("old", harsher.old, "judge:a"), store(pair(300, shift=-0.6)))
    after, rules = run("new", harsher.new, "judge:b"), [GateRule(aspect="clarity", max_drop=0.05)]
    plain = judge_gate(after, run("old", harsher.old, "judge:b"), rules)
    report = judge_gate(after, linked, rules, link=link)
    assert (plain.verdict, report.verdict) == ("fail", "pass")
    assert report.comparison is not None
    assert report.comparison.link == link.mark
    # Of what has no link the gate says so.
    marked = LinkUse(
        link.mark.model_copy(update={"refused": {"warmth": Message("judges-scales-differ")}}), link.baseline
    )
    told = judge_gate(after, linked, [GateRule(aspect="warmth", max_drop=0.5)], link=marked).reasons[-1]
    assert (told.code, told.detail) == (
        "no-values",
        Message("not-linked", aspect="warmth", reason=Message("judges-scales-differ")),
    )
    # A real drop is still one.
    worse = run("worse", np.clip(harsher.new - 1, 1, 5), "judge:b")
    assert judge_gate(worse, linked, rules, link=link).verdict == "fail"


def test_responses_are_paired_by_text_or_else_by_candidate_and_system_in_one_context() -> None:
    def rate(*rows: tuple[str, str | None, int, int]) -> RunFrame:
        frame = make_frame([Row(item, context, {"warmth": 3.0}) for item, context, _, _ in rows])
        candidates, texts = (np.array([row[at] for row in rows]) for at in (2, 3))
        return replace(frame, candidates=candidates.astype(np.int32), texts=texts)

    old = rate(("a", "x", 0, 7), ("a", "x", 1, 8), ("a", "x", 1, 8), ("b", "x", -1, 9))
    # With texts, an item's candidates may stand in another order, and a repeat is paired with a repeat.
    new = rate(("a", "y", 0, 8), ("a", "y", 1, 7), ("a", "y", 2, 8), ("b", "y", -1, 10))
    assert [pair_responses(old, new)[0].tolist(), pair_responses(old, new)[1]] == [[[0, 1], [1, 0], [2, 2]], 2]
    # Without them, another context is another response, where both are known in one form.
    gone = replace(old, texts=np.zeros(4, np.int64))
    other = replace(new, texts=np.zeros(4, np.int64))
    assert [pair_responses(gone, other)[0].tolist(), pair_responses(gone, other)[1]] == [[], 5]
    assert pair_responses(gone, new)[0].tolist() == [[0, 0], [1, 1], [3, 3]]
    same = replace(other, contexts=old.contexts)
    assert [pair_responses(gone, same)[0].tolist(), pair_responses(gone, same)[1]] == [[[0, 0], [1, 1], [3, 3]], 2]


def test_responses_that_share_a_dialogue_in_either_batch_are_one_cluster() -> None:
    named = ("a", "a", None, "b", None, None), (None, "c", "c", "b", "b", None)
    old, new = (
        make_frame([Row(str(at), None, {"warmth": 3.0}, cluster=cluster) for at, cluster in enumerate(each)])
        for each in named
    )
    rows, unpaired = pair_responses(old, new)
    assert (rows.tolist(), unpaired) == ([[at, at] for at in range(6)], 0)
    found = pair_judges("warmth", old, new, rows, (1, 2, 3))
    assert found.clusters.tolist() == [0, 0, 0, 1, 1, 2]


def test_a_link_tells_nothing_of_values_without_spread() -> None:
    linked, link = use(run("old", np.full(8, 4.0), "judge:a"), store(pair(150)))
    report = judge_gate(
        run("new", np.full(8, 4.7), "judge:b"), linked, [GateRule(aspect="clarity", max_drop=0.05)], link=link
    )
    assert report.comparison is not None
    measure = report.comparison.aspects["clarity"]
    assert measure.link_error > 0
    assert (measure.difference or 0) > 0
    assert (report.verdict, measure.interval, measure.smallest_detectable) == ("inconclusive", None, None)
    assert {"interval", "smallest_detectable"} <= set(measure.undefined)


def test_a_minimum_of_a_linked_run_has_the_linking_error_in_its_interval() -> None:
    old = run("old", pair(200, seed=5).old, "judge:a")
    stored = store(pair(150))
    linked, values = link_run(old, stored, RUBRIC, {"judge:b": 200})
    mark = LinkMark(id="ln_1", old_signature="judge:a", new_signature="judge:b", runs=("candidate",))
    mean = float(np.mean(linked.frame.values["aspect", "clarity"]))

    def judge(least: float, link: LinkUse | None) -> tuple[str, str]:
        rules = [GateRule(aspect="clarity", min_mean=least, must_detect=0.05)]
        reasons = judge_gate(linked, old, rules, link=link, allow_signature_mismatch=True).reasons
        return next((one.verdict, str(one.detail)) for one in reasons if one.about == "rule")

    link = LinkUse(mark, None, values)
    shown, plain, hidden = judge(mean - 0.5, link), judge(mean - 0.5, None), judge(mean - 0.05, link)
    ends = [float(told.partition("ends at ")[2]) for _, told in (shown, plain)]
    assert (shown[0], plain[0], hidden[0]) == ("pass", "pass", "inconclusive")
    assert mean - 0.5 < ends[0] < ends[1]
    assert str(Message("better-link")) in hidden[1]


def test_a_judge_that_repeats_nothing_has_no_corrected_correlation() -> None:
    """Its noise is all that its ratings vary by, so that nothing is left to correct by."""
    own = pair(200, noise=0.8)
    noise = (np.full(200, 9.0), np.full(200, 9.0))
    link, tables = link_judges(replace(own, noise=noise))
    assert (link.state, link.corrected_correlation, tables) == ("refused", None, None)
    assert link.repeatability is not None
    assert link.repeatability.old == link.repeatability.new == 0
