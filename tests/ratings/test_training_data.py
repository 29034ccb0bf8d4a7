"""Human ratings as conversations: what Saiten asks, and a reply that it reads."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import InvalidLines, InvalidRequest, LanguageNotSupported
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.judging.verdict import read_verdict
from saiten_server.providers.ports import JudgingTask
from saiten_server.ratings.training_data import (
    Curriculum,
    JudgeCall,
    TrainingCandidate,
    build_curriculum,
    check_levels,
    hold_out,
    labels_of,
    match_ratings,
)
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from saiten_server.stats.observations import Observations
from saiten_server.stats.reading import ObservationReader
from tests.support.fake_openai import Answer, Request, complete, refuse
from tests.support.faults import said
from tests.support.judges import open_bench, ratings_of
from tests.support.small_rubrics import independent_rubric, joint_rubric

SHIPPED = {rubric.id: rubric for rubric in RubricFiles([default_folder()]).list()}
LFQA = SHIPPED["lfqa"]
JOINT = {"naturalness": 2, "coherence": 0, "formality": -1, "relevance": 3, "overall": 5}


def candidate(
    item: str, system: str = "", question: str | None = None, references: Sequence[str] = ()
) -> TrainingCandidate:
    context = (Utterance(speaker="質問", text=question or f"{item}とは何ですか。"),)
    return TrainingCandidate(item, system, Dialogue(context=context, response=f"{item}です。「2」"), tuple(references))


def observe(*records: dict[str, Any]) -> Observations:
    names = {
        aspect.id: None
        for rubric in (joint_rubric(), *SHIPPED.values(), independent_rubric())
        for aspect in rubric.aspects
    }
    reader = ObservationReader(aspects=list(names))
    for line, record in enumerate(records, start=1):
        reader.add(record, line)
    return reader.finish()


def rated(item: str, ratings: Mapping[str, float], **more: str) -> dict[str, Any]:
    return {"item": item, "ratings": ratings, **more}


def build(
    candidates: Sequence[TrainingCandidate],
    observations: Observations,
    rubric: Rubric,
    language: str = "ja",
    **options: Any,
) -> Curriculum:
    chosen: dict[str, Any] = {"structured": True, "label": "median"} | options
    return build_curriculum(
        candidates, observations, match_ratings(candidates, observations), rubric, language, **chosen
    )


def read_back(one: JudgeCall, rubric: Rubric, language: str, *, structured: bool) -> dict[str, Any]:
    reading = read_verdict(
        one.messages[-1]["content"],
        aspects=one.aspects,
        language=language,
        structured=structured,
        explain=False,
        screen=JudgeOptions().screens(rubric.version),
    )
    return dict(reading.ratings)


@given(data=st.data())
def test_every_reply_reads_back_as_the_ratings_it_was_made_of(data: st.DataObject):
    rubric = data.draw(st.sampled_from([joint_rubric(), independent_rubric(), *SHIPPED.values()]))
    language = data.draw(st.sampled_from(rubric.languages))
    structured = data.draw(st.booleans())
    ratings = {aspect.id: data.draw(st.sampled_from(aspect.values)) for aspect in rubric.aspects}
    made = build([candidate("q")], observe(rated("q", ratings)), rubric, language, structured=structured)
    assert len(made.conversations) == (1 if rubric.calls == "joint" else len(rubric.aspects))
    found: dict[str, Any] = {}
    for one in made.conversations:
        found |= read_back(one, rubric, language, structured=structured)
    assert found == ratings


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("rubric", [joint_rubric(), independent_rubric(), LFQA], ids=lambda rubric: rubric.id)
async def test_a_model_that_learned_them_by_heart_is_asked_them_and_rates_as_people_did(
    rubric: Rubric, structured: bool
):
    """The fake endpoint knows the exported conversations and nothing else."""
    ratings = {aspect.id: aspect.values[0] for aspect in rubric.aspects}
    one = candidate("q", references=["参考になる答え。"])
    made = build([one], observe(rated("q", ratings)), rubric, structured=structured)
    learned = {json.dumps(each.messages[:2]): each.messages[2]["content"] for each in made.conversations}

    def recall(request: Request) -> Answer:
        return complete(request, learned[json.dumps(request["messages"])])

    shown = one.references if rubric.references else ()
    task = JudgingTask(rubric, "ja", one.dialogue, JudgeOptions(), shown)
    async with open_bench(recall if structured else refuse("response_format", then=recall)) as bench:
        judgement = await bench.judge.judge(task)
    assert ratings_of(judgement) == {name: (value,) for name, value in ratings.items()}


def test_a_reference_is_shown_only_where_the_rubric_shows_it():
    one = candidate("q", references=["参考になる答え。"])
    ratings = {aspect.id: aspect.values[0] for aspect in LFQA.aspects}
    assert "参考になる答え" in build([one], observe(rated("q", ratings)), LFQA).conversations[0].messages[1]["content"]
    unshown = build([one], observe(rated("q", JOINT)), joint_rubric()).conversations[0]
    assert "参考になる答え" not in unshown.messages[1]["content"]


def test_a_line_is_the_chat_format_that_trainers_read():
    (one,) = build([candidate("q")], observe(rated("q", JOINT)), joint_rubric()).conversations
    assert "\n" not in one.line
    read = json.loads(one.line)
    assert [message["role"] for message in read["messages"]] == ["system", "user", "assistant"]
    assert read["messages"][2]["content"] == (
        '{"naturalness":2,"coherence":0,"formality":-1,"relevance":3,"overall":5}'
    )


def test_the_median_is_the_lower_one_and_so_always_a_level():
    observations = observe(
        rated("q", {"overall": 5.0}, rater="a"),
        rated("q", {"overall": 2.0}, rater="b"),
        rated("q", {"overall": 4, "coherence": 1}, rater="c"),
        rated("q", {"overall": 1}, rater="d"),
    )
    # overall: 1, 2, 4, 5 → 2, the lower of the two in the middle.
    assert labels_of(range(4), observations, "median") == [{"overall": 2, "coherence": 1}]
    assert labels_of(range(4), observations, "each") == [
        {"overall": 5},
        {"overall": 2},
        {"overall": 4, "coherence": 1},
        {"overall": 1},
    ]


def test_what_one_rater_says_in_two_records_is_one_label():
    observations = observe(rated("q", {"overall": 5}, rater="a"), rated("q", {"coherence": 1}, rater="a"))
    assert labels_of(range(2), observations, "each") == [{"overall": 5, "coherence": 1}]


def test_each_rater_is_a_line_of_their_own():
    observations = observe(rated("q", JOINT, rater="a"), rated("q", JOINT | {"overall": 1}, rater="b"))
    made = build([candidate("q")], observations, joint_rubric(), label="each")
    assert [one.ratings["overall"] for one in made.conversations] == [5, 1]
    assert len({one.messages[1]["content"] for one in made.conversations}) == 1


@pytest.mark.parametrize("value", [2.5, 0, 6])
def test_a_rating_that_is_no_level_is_refused_with_its_line(value: float):
    observations = observe(rated("p", {"overall": 5}), rated("q", {"overall": value}))
    with pytest.raises(InvalidLines) as raised:
        check_levels(observations, joint_rubric())
    assert said(raised.value.faults) == [(2, f"'overall' is {value:g}, which is not a level of it (1, 2, 3, 4, 5)")]


def test_what_rates_only_some_aspects_of_one_call_is_counted_and_of_separate_calls_is_used():
    partial = observe(rated("q", {"formality": 0}))
    joint = build([candidate("q"), candidate("p")], partial, joint_rubric())
    assert (joint.conversations, joint.incomplete, joint.unrated) == ([], 1, 1)
    separate = build([candidate("q")], partial, independent_rubric())
    assert [one.ratings for one in separate.conversations] == [{"formality": 0}]
    assert separate.incomplete == 0


def test_levels_that_no_line_shows_are_named():
    made = build([candidate("q")], observe(rated("q", {"formality": 0, "factuality": 3})), independent_rubric())
    assert made.unseen(independent_rubric()) == {"formality": [-1, 1], "amount": [-1, 0, 1], "factuality": [0, 1, 2]}


def test_a_language_that_the_rubric_lacks_is_refused():
    with pytest.raises(LanguageNotSupported):
        build([candidate("q")], observe(rated("q", JOINT)), joint_rubric(), "ko")


def test_ratings_find_their_response_by_item_and_system():
    candidates = [candidate("q", "甲"), candidate("q", "乙"), candidate("r")]
    observations = observe(
        rated("q", {"overall": 1}, system="乙", rater="a"),
        rated("r", {"overall": 2}, system="甲", rater="a"),  # r says no system, and has one response
        rated("q", {"overall": 3}, system="甲", rater="a"),
        rated("q", {"overall": 4}, system="乙", rater="b"),
        rated("x", {"overall": 5}),
        rated("q", {"overall": 5}, system="丙"),
    )
    found = match_ratings(candidates, observations)
    assert found.rows == {1: [0, 3], 2: [1], 0: [2]}
    assert sorted(found.strangers) == [(5, "x"), (6, "q")]


def test_a_rating_that_fits_several_responses_is_refused_with_its_line():
    candidates = [candidate("q", "甲"), candidate("q", "乙")]
    with pytest.raises(InvalidLines, match="line 1: item 'q' has 2 responses; name the system"):
        match_ratings(candidates, observe(rated("q", {"overall": 1})))


def test_ratings_of_two_systems_for_one_response_are_refused():
    observations = observe(rated("q", {"overall": 1}, system="甲"), rated("q", {"overall": 5}, system="乙"))
    with pytest.raises(InvalidLines, match="line 2: item 'q' was rated under another system before"):
        match_ratings([candidate("q")], observations)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2), st.integers(0, 99))
def test_neither_an_item_nor_a_context_stands_on_both_sides(pairs: list[tuple[int, int]], seed: int):
    candidates = [
        candidate(f"i{item}", f"s{number}", question=f"質問{context}") for number, (item, context) in enumerate(pairs)
    ]
    try:
        held = hold_out(candidates, range(len(pairs)), 0.3, seed)
    except InvalidRequest:
        return
    kept = set(range(len(pairs))) - held
    assert held
    assert kept
    for place in (0, 1):
        assert not {pairs[one][place] for one in held} & {pairs[one][place] for one in kept}


def test_the_split_is_of_the_asked_size_and_depends_on_seed_alone():
    candidates = [candidate(f"q{number}") for number in range(100)]
    held = hold_out(candidates, range(100), 0.1, 0)
    assert len(held) == 10
    names = {candidates[one].item for one in held}
    turned = candidates[::-1]
    assert {turned[one].item for one in hold_out(turned, range(100), 0.1, 0)} == names
    assert {candidates[one].item for one in hold_out(candidates, range(100), 0.1, 1)} != names


def test_one_dialogue_is_held_out_even_where_the_share_is_less():
    candidates = [candidate("a", "x"), candidate("a", "y"), candidate("b")]
    assert hold_out(candidates, range(3), 0.1, 0) == {2}


def test_one_dialogue_alone_cannot_be_split():
    same = [candidate("a", question="同じ"), candidate("b", question="同じ")]
    with pytest.raises(InvalidRequest, match="nothing can be held out"):
        hold_out(same, range(2), 0.5, 0)
