"""The badge: on the results of the judge that was held against people, and on no other's."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.values import asked_of, attach_states
from saiten_server.core.batch import Entry, Failure
from saiten_server.core.evaluation import Evaluation, JudgeProvenance, RubricReference
from saiten_server.core.model import canonical_json, digest
from saiten_server.core.reliability import (
    NO_VALIDATION,
    UNVALIDATED,
    AspectValidation,
    JudgeKey,
    Validation,
    ValidationSource,
    ValidationState,
    describe_reliability,
)
from saiten_server.core.sentences import tell_sentence
from saiten_server.platform.sql.engine import write
from saiten_server.platform.sql.tables import validations
from saiten_server.ratings.reliability import VALIDATION_FRESH_SECONDS, Reliabilities, key_in, validation_of
from saiten_server.ratings.store import RatingStore
from saiten_server.runs.result import Result
from saiten_server.stats.correlation import correlate_scores
from tests.support.gates import FAILED, make_report, print_gate, write_junit, write_markdown
from tests.support.observed import observe
from tests.support.records import make_record

AT = datetime(2026, 11, 21, tzinfo=UTC)
SIGNATURE = (
    f"saiten:1|rubric:small@3|digest:{'d' * 12}|judge:openai/v1|model:judge-1:8b|prompt:abc|parameters:temperature=0"
    "|dropped:-|samples:1|expected:no|path:source|translator:-|encoder:e5|baseline:batch=0.6931|weight:10|blended:clarity"
)
KEY = key_in(SIGNATURE)
FOUND = Validation(
    n=60,
    batch="ba_1",
    at=AT,
    aspects={
        "warmth": AspectValidation(n=60, raters=3, spearman=0.7449, pearson=0.77, spearman_interval=(0.61, 0.83)),
        "clarity": AspectValidation(n=58, raters=2, spearman=-0.1, pearson=None),
    },
)


class Counted(RatingStore):
    """Counts how often it is asked."""

    asked = 0

    async def validations(self, project: str) -> Mapping[JudgeKey, Validation]:
        self.asked += 1
        return await super().validations(project)


def evaluation(**changes: Any) -> Evaluation:
    given = {
        "rubric": RubricReference(id="small", version=3, digest="d" * 64),
        "judge": JudgeProvenance(kind="openai", model="judge-1:8b"),
        "signature": SIGNATURE,
    }
    return make_record(**{**given, **changes}).evaluation


@pytest.fixture
async def badges(sqlite_engine: AsyncEngine) -> Reliabilities:
    store = RatingStore(sqlite_engine)
    await store.keep_validation("team", KEY, FOUND)
    return Reliabilities(store, clock=lambda: 0.0)


async def test_a_badge_says_figures_n_and_date(badges: Reliabilities) -> None:
    badge = (await badges.mark("team", evaluation())).reliability
    assert badge is not None
    assert str(badge.detail) == (
        "Spearman with people within systems, 2026-11-21: validated: warmth ρ 0.74 [0.61, 0.83], 60 responses; "
        "not shown to follow people: clarity ρ -0.10, 58 responses; no other aspect was compared"
    )
    assert (badge.n, badge.at) == (60, AT)
    assert {name: aspect.state for name, aspect in badge.aspects.items() if aspect.n} == {
        "warmth": "validated",
        "clarity": "not-shown",
    }
    assert not badge.validated, "one of two aspects that were compared is not shown to follow people"
    source = ValidationSource(batch="ba_1", items=60, raters=3, at=AT)
    assert badge.aspects["warmth"].source == source
    plain = {"validated": False, "state": "unknown", "source": None}
    assert badge.aspects["warmth"].model_copy(update=plain) == FOUND.aspects["warmth"]


async def test_aspects_that_nobody_rated_are_unknown(badges: Reliabilities) -> None:
    made = evaluation()
    badge = (await badges.mark("team", made)).reliability
    assert badge is not None
    assert [*badge.aspects][: len(made.aspects)] == [*made.aspects], "the rubric's order"
    others = [aspect for name, aspect in badge.aspects.items() if name not in FOUND.aspects]
    assert others == [NO_VALIDATION] * len(others) != []
    assert (NO_VALIDATION.state, NO_VALIDATION.source) == ("unknown", None)


CHANGED = {
    "judge:openai/v1": "judge:lexical",
    "model:judge-1:8b": "model:judge-2:8b",
    "small@3": "large@3",
    "@3": "@4",
    "digest:ddd": "digest:eee",
    "path:source": "path:english",
    "prompt:abc": "prompt:abd",
    "temperature=0": "temperature=1",
    "dropped:-": "dropped:seed",
    "samples:1": "samples:5",
    "expected:no": "expected:yes",
    "translator:-": "translator:deepl",
}


@pytest.mark.parametrize("piece", CHANGED)
async def test_another_judge_rubric_or_path_has_none(badges: Reliabilities, piece: str) -> None:
    signature = SIGNATURE.replace(piece, CHANGED[piece])
    assert signature != SIGNATURE
    badge = (await badges.mark("team", evaluation(signature=signature))).reliability
    assert badge is not None
    assert (badge.validated, badge.detail, badge.n) == (False, Message("not-validated"), None)
    assert {aspect.state for aspect in badge.aspects.values()} == {"unknown"}
    states = await badges.states("team", [SIGNATURE, signature], ["warmth", "clarity", "mood"])
    assert states == {"warmth": "unknown", "clarity": "not-shown", "mood": "unknown"}


@pytest.mark.parametrize(("piece", "other"), [("saiten:1", "saiten:2"), ("batch=0.6931", "batch=0.7"), ("e5", "e6")])
async def test_what_changes_no_rating_changes_no_badge(badges: Reliabilities, piece: str, other: str) -> None:
    badge = (await badges.mark("team", evaluation(signature=SIGNATURE.replace(piece, other)))).reliability
    assert badge is not None
    assert badge.n == 60


async def test_another_project_has_none(badges: Reliabilities) -> None:
    badge = (await badges.mark("rivals", evaluation())).reliability
    assert badge is not None
    assert badge.n is None


async def test_with_both_paths_the_aspects_are_the_source_paths(badges: Reliabilities) -> None:
    both = SIGNATURE.replace("path:source", "path:both") + "|english.prompt:x|english.translator:deepl"
    badge = (await badges.mark("team", evaluation(path="both", signature=both))).reliability
    assert badge is not None
    assert badge.n == 60


async def test_pages_keep_failures_as_they_are(badges: Reliabilities) -> None:
    entry = Entry(position=0, item="a", candidate=None)
    failed = Result("ev_1", entry=entry, failure=Failure(code="x", detail="y"))

    async def pages() -> AsyncIterator[Sequence[Result]]:
        yield [failed, Result("ev_1", entry=entry, evaluation=evaluation())]
        yield []

    first, second = [page async for page in badges.mark_pages("team", pages())]
    assert (first[0], second) == (failed, [])
    assert first[1].evaluation is not None
    assert first[1].evaluation.reliability is not None
    assert first[1].evaluation.reliability.n == 60


async def test_what_another_process_found_is_seen_after_a_while_and_ones_own_at_once(
    sqlite_engine: AsyncEngine,
) -> None:
    store, clock = Counted(sqlite_engine), [0.0]
    badges = Reliabilities(store, clock=lambda: clock[0])
    assert await badges.of("team", KEY) == UNVALIDATED
    await store.keep_validation("team", KEY, FOUND)
    clock[0] = 0.8 * VALIDATION_FRESH_SECONDS
    assert (await badges.of("team", KEY)).n is None
    assert store.asked == 1
    clock[0] = VALIDATION_FRESH_SECONDS + 0.1
    assert (await badges.of("team", KEY)).n == 60
    other = JudgeKey(rubric="r@1", digest="d", judge="model:m", path="english")
    await badges.keep("team", other, FOUND)
    assert (await badges.of("team", other)).n == 60
    assert store.asked == 4  # once more to see whether what is known rests on more items


@pytest.mark.parametrize(
    ("n", "batch", "stays"),
    [(59, "ba_2", True), (60, "ba_2", False), (200, "ba_2", False), (3, "ba_1", False)],
)
async def test_a_correlation_of_fewer_items_of_another_batch_takes_nothing_away(
    n: int, batch: str, stays: bool, sqlite_engine: AsyncEngine
) -> None:
    badges = Reliabilities(RatingStore(sqlite_engine), clock=lambda: 0.0)
    await badges.keep("team", KEY, FOUND)
    await badges.keep("team", KEY, FOUND.model_copy(update={"n": n, "batch": batch}))
    assert (await badges.of("team", KEY)).n == (60 if stays else n)


FEW = "fewer than 20 responses with two raters each: warmth ρ 0.90 (19)"


@pytest.mark.parametrize(
    ("n", "rho", "interval", "agreement", "state", "said"),
    [
        (19, 0.9, (0.7, 0.98), 0.9, "not-shown", FEW),
        (19, 0.9, None, None, "not-shown", FEW),
        (60, 0.1, (-0.16, 0.34), 0.5, "not-shown", "not shown to follow people: warmth ρ 0.10 [-0.16, 0.34], 60 responses"),
        (60, -0.8, (-0.9, -0.7), 0.5, "not-shown", "not shown to follow people: warmth ρ -0.80 [-0.90, -0.70], 60 responses"),
        (60, 0.2, (0.0, 0.4), 0.1, "not-shown", "not shown to follow people: warmth ρ 0.20 [0.00, 0.40], 60 responses"),
        (1000, 0.15, (0.05, 0.25), 0.7, "follows", "follows people: warmth ρ 0.15 [0.05, 0.25], 1000 responses"),
        (60, 0.5, (0.3, 0.65), None, "follows", "follows people: warmth ρ 0.50 [0.30, 0.65], 60 responses"),
        (60, 0.5, (0.25, 0.65), -0.1, "follows", "follows people: warmth ρ 0.50 [0.25, 0.65], 60 responses"),
        (60, 0.55, (0.41, 0.67), 0.9, "validated", "validated: warmth ρ 0.55 [0.41, 0.67], 60 responses"),
        (60, 0.3, (0.16, 0.45), 0.3, "validated", "validated: warmth ρ 0.30 [0.16, 0.45], 60 responses"),
    ],
)  # fmt: skip
async def test_a_badge_says_how_strongly_the_judge_follows_people(
    n: int,
    rho: float,
    interval: tuple[float, float] | None,
    agreement: float | None,
    state: ValidationState,
    said: str,
    sqlite_engine: AsyncEngine,
) -> None:
    aspect = AspectValidation(
        n=n, raters=2, spearman=rho, pearson=rho, spearman_interval=interval, ceiling_spearman=agreement
    )
    badges = Reliabilities(RatingStore(sqlite_engine), clock=lambda: 0.0)
    await badges.keep("team", KEY, Validation(n=n, batch="ba_1", at=AT, aspects={"warmth": aspect}))
    badge = await badges.of("team", KEY)
    assert (badge.validated, badge.n) == (state == "validated", n)
    assert (badge.aspects["warmth"].state, badge.aspects["warmth"].validated) == (state, state == "validated")
    assert str(badge.detail) == f"Spearman with people within systems, 2026-11-21: {said}; no other aspect was compared"


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_every_clause_of_a_badge_is_said_in_the_readers_language(language: str) -> None:
    lows = {"a": 0.5, "b": 0.1, "c": -0.1, "f": 0.1}
    aspects = {
        name: AspectValidation(n=60, raters=2, spearman=0.6, pearson=None, spearman_interval=(low, 0.7))
        for name, low in lows.items()
    }
    aspects |= {"d": AspectValidation(n=60, raters=2, spearman=0.0, pearson=None), "e": NO_VALIDATION}
    badge = describe_reliability(Validation(n=60, batch=None, at=AT, aspects=aspects))
    assert "follows people: b ρ 0.60 [0.10, 0.70] · f ρ 0.60 [0.10, 0.70], 60 responses" in str(badge.detail)
    told = tell_sentence(badge.detail, language)
    assert not re.search("responses|people|aspect|validated", told), told


async def test_of_several_judges_the_one_that_is_shown_to_follow_least_counts(sqlite_engine: AsyncEngine) -> None:
    badges = Reliabilities(RatingStore(sqlite_engine), clock=lambda: 0.0)
    for model, low in (("strong", 0.5), ("weak", 0.05)):
        aspect = AspectValidation(n=60, raters=2, spearman=0.6, pearson=None, spearman_interval=(low, 0.7))
        key = key_in(SIGNATURE.replace("judge-1:8b", model))
        await badges.keep("team", key, Validation(n=60, batch="ba_1", at=AT, aspects={"warmth": aspect}))
    signatures = [SIGNATURE.replace("judge-1:8b", model) for model in ("strong", "weak")]
    assert await badges.states("team", signatures, ["warmth"]) == {"warmth": "follows"}


async def test_a_badge_by_an_earlier_method_is_neither_shown_nor_compared_with(sqlite_engine: AsyncEngine) -> None:
    store = RatingStore(sqlite_engine)
    judge = asdict(KEY)
    large = FOUND.model_copy(update={"n": 9000}).model_dump_json()
    row = {"project": "team", "key": digest(judge), "judge": canonical_json(judge), "validation": large}
    async with write(sqlite_engine) as connection:
        await connection.execute(insert(validations).values(row))
    asked = list[str]()
    badges = Reliabilities(store, clock=lambda: 0.0, renew=asked.append)
    assert await badges.of("team", KEY) == UNVALIDATED
    assert asked == ["team"], "it is to be computed anew"
    await badges.keep("team", KEY, FOUND)
    assert (await badges.of("team", KEY)).n == 60


async def test_only_what_correlates_becomes_a_badge() -> None:
    ratings = [(1, 1.0, 5), (2, 2.0, 5), (3, 4.0, 5), (4, 3.0, 5)]
    observations = observe(
        {
            "item": str(number),
            "rater": "r1",
            "ratings": {"warmth": human, "warmth.blended": human, "clarity": constant, "mood": 1},
            "scores": {"warmth": score, "warmth.blended": score, "clarity": score},
        }
        for number, (human, score, constant) in enumerate(ratings)
    )
    found = validation_of(correlate_scores(observations, resamples=100, seed=0), "ba_1", AT)
    assert found is not None
    # Ranks 1 2 3 4 against 1 2 4 3: 1 − 6·(0 + 0 + 1 + 1)/(4·15) = 0.8. A constant has no correlation.
    assert {name: aspect.spearman for name, aspect in found.aspects.items()} == {"warmth": pytest.approx(0.8)}
    assert (found.n, found.batch, found.at, found.aspects["warmth"].raters) == (4, "ba_1", AT, 1)
    assert found.aspects["warmth"].n == 0, "no item was rated by two"


def test_a_badge_takes_its_figures_from_items_that_two_rated_within_systems() -> None:
    values = [(2 * number) % 7 for number in range(40)]
    observations = observe(
        {
            "item": str(number),
            "system": "ab"[number % 2],
            "rater": rater,
            "ratings": {"warmth": value},
            "scores": {"warmth": value},
        }
        for number, value in enumerate(values)
        for rater in (("r1", "r2") if number < 30 else ("r1",))
    )
    found = validation_of(correlate_scores(observations), "ba_1", AT)
    assert found is not None
    aspect = found.aspects["warmth"]
    assert (found.n, aspect.n, aspect.raters) == (40, 30, 2)
    assert aspect.spearman == pytest.approx(1)
    assert aspect.spearman_interval is not None
    assert aspect.spearman_interval[0] > 0.3
    assert aspect.judge() == "validated"


def test_no_correlation_is_no_badge() -> None:
    constant = [{"item": str(n), "ratings": {"warmth": 1}, "scores": {"warmth": n}} for n in range(5)]
    assert validation_of(correlate_scores(observe(constant), resamples=100, seed=0), None, AT) is None


def test_a_gates_report_says_the_state_beside_each_aspect() -> None:
    plain = make_report(FAILED)
    states: dict[str, ValidationState] = dict.fromkeys(asked_of(plain), "unknown")
    states |= {"warmth": "validated", "clarity": "not-shown"}
    report = attach_states(plain, states)
    out = StringIO()
    print_gate(report, on=Console(file=out, width=200))
    for told in (write_markdown(report).replace("\\", ""), write_junit(report), out.getvalue()):
        assert "(judge shown to follow people's ratings here)" in told
        assert "(judge not shown to follow people's ratings here)" in told
    assert '<property name="reliability.warmth" value="validated" />' in write_junit(report)
    assert "people's ratings" not in write_markdown(plain)
    weak = write_markdown(attach_states(plain, states | {"warmth": "follows"})).replace("\\", "")
    assert "(judge shown to follow people's ratings here, perhaps only weakly)" in weak


def test_of_a_judge_that_gives_all_the_same_nothing_is_shown_where_people_tell_items_apart() -> None:
    """Else the aspects that it does follow people in would make it validated as a whole."""
    observations = observe(
        {
            "item": str(number),
            "rater": rater,
            "ratings": {"warmth": number % 5, "clarity": number % 4},
            "scores": {"warmth": number % 5, "clarity": 5},
        }
        for number in range(60)
        for rater in ("r1", "r2")
    )
    found = validation_of(correlate_scores(observations), "ba_1", AT)
    badge = describe_reliability(found)
    assert (badge.aspects["warmth"].state, badge.aspects["clarity"].state) == ("validated", "not-shown")
    assert badge.aspects["clarity"].n == 60
    assert badge.validated is False
