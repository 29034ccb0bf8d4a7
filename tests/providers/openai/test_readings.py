"""A reply that comes again is read once, and says the same; of what is remembered nothing is a text."""

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.judging.expectation import Token, expect
from saiten_server.providers.openai import reply
from saiten_server.providers.openai.parameters import Question
from saiten_server.providers.openai.reply import MOST_RECENT, Readings, Reply, read_completion, read_reply
from tests.support.fake_openai import tell_tokens
from tests.support.prompts import build_prompt
from tests.support.small_rubrics import independent_rubric, joint_rubric

SAID = Dialogue(context=(Utterance(speaker="A", text="週末は？"),), response="海に行きました。")


EMPTY = {"key": "k", "content": "", "finish_reason": "stop", "structured": True, "parameters": {}, "dropped": ()}


def ask(rubric: Rubric, *, aspects: tuple[Aspect, ...] | None = None, explain: bool = False) -> Question:
    asked = aspects or rubric.aspects
    structured, text = (
        build_prompt(rubric, "ja", SAID, asked, explain=explain, structured=structured) for structured in (True, False)
    )
    return Question("m", asked, "ja", JudgeOptions(explain=explain), structured, text, 2048)


def answer(question: Question, content: str | None = None, **other: object) -> Reply:
    ratings = {aspect.id: aspect.values[-1] for aspect in question.aspects}
    told = {name: {"reason": "海の話を続けている", "rating": rating} for name, rating in ratings.items()}
    said = json.dumps(told if question.options.explain else ratings, ensure_ascii=False)
    fields = {"key": "k", "content": said if content is None else content, "finish_reason": "stop"}
    return Reply.model_validate({**fields, "structured": True, "parameters": {}, "dropped": (), **other})


def held(known: Readings) -> dict[bytes, object]:
    found: dict[bytes, object] = known.__dict__["_known"]
    return found


def test_the_same_words_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known, question = Readings(), ask(joint_rubric())
    first = known.read(answer(question), question)
    assert first.complete
    assert first == read_reply(answer(question), question)
    monkeypatch.setattr(reply, "read_verdict", lambda *_, **__: pytest.fail("read again"))
    assert known.read(answer(question, key="another"), replace(question, sample=1)) is first


def test_only_ratings_and_places_are_kept() -> None:
    known, question = Readings(), ask(joint_rubric())
    answered = answer(question)
    known.read(answered, question)
    [(key, reading)] = held(known).items()
    assert len(key) == 16
    assert str(answered.content) not in repr(reading)
    assert known.read(answered, question).reasons == {}


def test_reasons_are_not_kept() -> None:
    known, question = Readings(), ask(joint_rubric(), explain=True)
    assert known.read(answer(question), question).reasons
    assert not held(known)


@pytest.mark.parametrize(
    "fault",
    [
        {"finish_reason": "length"},
        {"finish_reason": "content_filter"},
        {"finish_reason": None},
        {"refusal": "no"},
        {"completion": False},
        {"content": ""},
        {"content": "{}"},
        {"content": "満点です"},
        {"structured": False},
    ],
)
def test_what_another_answer_was_says_nothing_of_this_one(fault: dict[str, object]) -> None:
    known, question = Readings(), ask(joint_rubric())
    known.read(answer(question), question)
    faulty = Reply.model_validate({**answer(question).model_dump(), **fault})
    assert known.read(faulty, question) == read_reply(faulty, question)
    assert len(held(known)) == 1


def test_a_reply_that_leaks_is_not_kept() -> None:
    known, question = Readings(), ask(joint_rubric())
    found = known.read(answer(question, f"{answer(question).content} {question.structured.canary}"), question)
    assert found.leaked
    assert not held(known)


def test_other_aspects_are_another_question() -> None:
    known, rubric = Readings(), independent_rubric()
    one, other = (ask(rubric, aspects=(aspect,)) for aspect in rubric.aspects[:2])
    said = answer(one)
    assert known.read(said, one).complete
    assert known.read(said, other) == read_reply(said, other)
    assert not known.read(said, other).complete


def test_not_too_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "MOST_RECENT", 3)
    known, question = Readings(), ask(joint_rubric())
    said = answer(question).content
    for number in range(5):
        assert known.read(answer(question, f"{' ' * number}{said}"), question).complete
    assert len(held(known)) == 3 < MOST_RECENT


def test_a_reply_of_nothing_but_white_space_is_read_once() -> None:
    """Some judges write it up to their limit. Looking for reasoning behind each space takes half a minute and more."""
    question = ask(joint_rubric())
    started = time.process_time()
    reading = read_reply(answer(question, "\n" * 1_500_000), question)
    assert reading.rated == 0
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "twice",
    [
        '{"choices": [], "choices": [{"finish_reason": "stop", "message": {"content": "{}"}}]}',
        '{"choices": [{"finish_reason": "stop", "message": {"content": "{}", "content": "{}"}}]}',
    ],
)
def test_an_answer_with_a_member_twice_is_no_completion(twice: str) -> None:
    found = read_completion(twice.encode())
    assert (found["completion"], found["content"]) == (False, None)


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_only_of_numbers_are_alternatives_kept_and_expectations_are_as_before(cut: int) -> None:
    content = json.dumps(
        {"a": {"reason": "長い理由です。" * 200, "rating": 2}, "b": {"reason": "三。", "rating": -1}},
        ensure_ascii=False,
    )
    told = tell_tokens(content)
    # Some tokenizers join what stands before a number with it.
    entries: list[dict[str, Any]] = [
        {
            "token": content[at : at + cut],
            "logprob": -0.25,
            "top_logprobs": [
                {"token": content[at : at + cut - 1] + one["token"], "logprob": one["logprob"]}
                for one in told[min(at + cut, len(content)) - 1]["top_logprobs"]
            ],
        }
        for at in range(0, len(content), cut)
    ]
    full = [
        Token(
            text=one["token"].encode(),
            choices=tuple((each["token"].encode(), each["logprob"]) for each in one["top_logprobs"]),
        )
        for one in entries
    ]
    kept = reply.read_tokens(entries)
    assert b"".join(one.text for one in kept) == content.encode()
    assert len(kept) < 80 < len(full)
    for found in re.finditer(r"-?\d", content):
        for values in ((0, 1, 2), (-1, 0, 1), tuple(range(1, 10))):
            assert expect(kept, content, found.span(), values) == expect(full, content, found.span(), values)
